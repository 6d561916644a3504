"""Names of processors by the labels `cpu-model.vendor_id`, `.family` and `.id`.

Sources: Linux `arch/x86/include/asm/intel-family.h` and `amd.c`; Arm's Main ID register (`arch/arm64/.../cputype.h`).
"""

from __future__ import annotations

from collections.abc import Mapping

from nfd.names import FEATURE_NS

_INTEL = {
    44: "Westmere", 45: "Sandy Bridge", 62: "Ivy Bridge", 63: "Haswell", 79: "Broadwell", 85: "Skylake/Cascade Lake",
    106: "Ice Lake", 108: "Ice Lake D", 143: "Sapphire Rapids", 151: "Alder Lake", 154: "Alder Lake",
    173: "Granite Rapids", 174: "Granite Rapids D", 175: "Sierra Forest", 183: "Raptor Lake", 207: "Emerald Rapids",
}  # fmt: skip
_AMD = {
    23: ((1, "Naples"), (8, "Naples"), (49, "Rome")),
    25: ((1, "Milan"), (17, "Genoa"), (33, "Vermeer"), (97, "Raphael"), (160, "Bergamo")),
    26: ((2, "Turin"), (17, "Turin Dense"), (68, "Granite Ridge")),
}
_ARM = {
    0xD03: "Cortex-A53", 0xD07: "Cortex-A57", 0xD08: "Cortex-A72", 0xD0C: "Neoverse-N1", 0xD40: "Neoverse-V1",
    0xD49: "Neoverse-N2", 0xD4F: "Neoverse-V2", 0xD83: "Neoverse-V3", 0xD8E: "Neoverse-N3",
}  # fmt: skip


def cpu_name(labels: Mapping[str, str]) -> str:
    """`Intel Sapphire Rapids`; numbers where no name is known, "" where there are no labels."""
    vendor, family, model = (labels.get(f"{FEATURE_NS}/cpu-model.{part}", "") for part in ("vendor_id", "family", "id"))
    if not vendor:
        return ""
    name = _name(vendor, _number(family), _number(model))
    return f"{vendor} {name or f'{family}/{model}'.strip('/')}".strip()


def _name(vendor: str, family: int, model: int) -> str:
    if vendor == "Intel" and family == 6:
        return _INTEL.get(model, "")
    if vendor == "AMD":
        return dict(_AMD.get(family, ())).get(model, "")
    if vendor == "ARM":
        return _ARM.get(model >> 4, "")  # part number, revision in the last four bits
    return ""


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else -1
