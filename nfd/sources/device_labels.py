"""What labels of devices share: which devices count, which fields are a label's name, and what all devices have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nfd.features import Instance


def is_listed(device: Instance, classes: Sequence[str]) -> bool:
    """Whether the device's class starts with one of the entries, in lower case; an empty entry lets all through."""
    return device.get("class", "").startswith(tuple(entry.lower() for entry in classes))


def whole_devices(devices: Sequence[Instance]) -> Sequence[Instance]:
    """Those that are no virtual function of another one; a virtual machine may have nothing else."""
    return [one for one in devices if "virtual" not in one] or devices


def same(devices: Iterable[Instance], name: str) -> str:
    """The value of an attribute that all devices have; "" if they differ."""
    values = {one.get(name, "") for one in devices}
    return values.pop() if len(values) == 1 else ""


def choose_fields(
    wanted: Sequence[str], valid: Sequence[str], default: Sequence[str]
) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    """The label fields in their fixed order, and notes about the wanted ones that do not exist.

    `default` takes the place of a choice without any valid field.
    """
    option = "deviceLabelFields"
    notes = [
        (option, f"there is no field {name!r}; fields are {', '.join(valid)}") for name in wanted if name not in valid
    ]
    fields = tuple(name for name in valid if name in wanted)
    if not fields:
        notes.append((option, f"names no field, so {', '.join(default)} are used"))
    return fields or tuple(default), notes
