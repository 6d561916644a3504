"""Features that the sources give, for rules that ask for one that is none of them."""

from __future__ import annotations

from nfd.rules.terms import MATCHED

_OF_SOURCES = {
    "accelerator": "device",
    "amd": "driver gpu partition",
    "cpu": "coprocessor coretype cpuid cstate hardware_multithreading microcode model pstate rdt security sgx sst"
    " topology vulnerability",
    "fake": "attribute flag instance",
    "intel": "device",
    "kernel": "config enabledmodule kvm loadedmodule selinux version",
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
