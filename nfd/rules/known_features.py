"""Features that the sources give, for rules that ask for one that is none of them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from nfd.rules.terms import MATCHED

_OF_SOURCES = {
    "cpu": "coprocessor coretype cpuid cstate hardware_multithreading model pstate rdt security sgx sst topology",
    "fake": "attribute flag instance",
    "intel": "device",
    "kernel": "config enabledmodule kvm loadedmodule selinux version",
    "local": "feature label",
    "memory": "hugepages numa nv swap",
    "network": "device virtual",
    "nvidia": "driver gpu mig node",
    "pci": "device",
    "storage": "block",
    "system": "dmiid name osrelease",
    "usb": "device",
}
KNOWN = frozenset({MATCHED, *(f"{source}.{name}" for source, names in _OF_SOURCES.items() for name in names.split())})
"""The features that the sources of this product and of NFD report (NFD documentation, "Available features")."""


def did_you_mean(feature: str, names: Iterable[str]) -> str:
    """The nearest of these names as the end of a message, if one is near and the feature is none of them."""
    by_lower = {name.lower(): name for name in names}
    close = [] if feature.lower() in by_lower else get_close_matches(feature.lower(), by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""
