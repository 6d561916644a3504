"""Features that the sources give, for rules that ask for one that is none of them."""

from __future__ import annotations

from nfd.rules.match_features import MATCHED

_OF_SOURCES = {
    "accelerator": "device",
    "amd": "driver gpu partition",
    "cpu": "coprocessor coretype cpuid cstate hardware_multithreading microcode model pstate rdt security sgx sst"
    " topology vulnerability",
    "fake": "attribute flag instance",
    "intel": "device",
    "kernel": "config enabledmodule kvm loadedmodule lsm selinux version",
    "local": "feature label",
    "memory": "hugepages numa nv swap tier",
    "network": "device virtual",
    "nvidia": "driver gpu mig node",
    "pci": "device",
    "rdma": "device",
    "storage": "block",
    "system": "dmiid name osrelease",
    "usb": "device",
}
KNOWN = frozenset({MATCHED, *(f"{source}.{name}" for source, names in _OF_SOURCES.items() for name in names.split())})
"""The features that the sources of this product and of NFD report (NFD documentation, "Available features")."""

_INTERFACE = "mtu name operstate speed"
_PLACE = "numa_node pcie_root"
_ATTRIBUTES = {
    "cpu.cstate": "enabled",
    "cpu.model": "family hypervisor id vendor_id",
    "cpu.pstate": "scaling_governor status turbo",
    "cpu.topology": "hardware_multithreading socket_count",
    "kernel.kvm": "enabled",
    "kernel.selinux": "enabled",
    "kernel.version": "full major minor revision",
    "memory.numa": "is_numa node_count",
    "memory.nv": "devtype mode name",
    "memory.swap": "enabled kind",
    "network.device": f"{_INTERFACE} {_PLACE} sriov_numvfs sriov_totalvfs",
    "network.virtual": _INTERFACE,
    "pci.device": f"class device iommu/intel-iommu/version iommu_group/type {_PLACE} sriov_totalvfs"
    " subsystem_device subsystem_vendor vendor",
    "storage.block": "dax model name nr_zones removable rotational size transport zoned",
    "system.name": "nodename",
    "usb.device": "class device serial vendor",
}
ATTRIBUTES = {feature: frozenset(names.split()) for feature, names in _ATTRIBUTES.items()}
"""The attributes, or elements, of features that never have others; the kernel's and the firmware's are not listed."""
