"""Where Node objects are kept: a Kubernetes API server, or a folder of files."""
