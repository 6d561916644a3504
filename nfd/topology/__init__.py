"""`nfd-topology-updater`: writes what a node has left in each NUMA node, as NodeResourceTopology, like NFD's.

The kubelet's pod-resources socket tells what may be allocated and what pods hold, sysfs what there is, the API server
which pods are Guaranteed; `accounting` and `zones` make an object of it, `publisher` writes it when it differs.
"""
