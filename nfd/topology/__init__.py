"""`nfd-topology-updater`: publishes the allocatable and available resources of each NUMA node, like NFD's.

The kubelet's pod-resources socket lists what is allocatable and allocated, sysfs what exists, the API server
which pods are Guaranteed; `accounting` and `zones` make an object of it, `publisher` writes it when it differs.
"""
