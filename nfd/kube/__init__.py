"""The one way to a Kubernetes API server."""
