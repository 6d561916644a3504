"""Where Node objects are kept.

`base` says what a store is and what a Node is to the master. `kube` is a Kubernetes API server, `file` a folder of
files.
"""
