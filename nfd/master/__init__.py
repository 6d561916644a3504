"""The master: takes reports of workers and keeps the labels of Nodes right."""
