"""`nfd-topology-updater`: writes what a node has left in each NUMA node, as NodeResourceTopology, like NFD's.

The kubelet's pod-resources socket lists what is allocatable and allocated, sysfs what exists, the API server
which pods are Guaranteed; `accounting` and `zones` make an object of it, `publisher` writes it when it differs.
"""
