"""`nfd-worker`: scans its node and reports to the master."""
