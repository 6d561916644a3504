"""The master: accepts reports of workers and writes labels to Nodes."""
