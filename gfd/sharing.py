"""Which resources several pods share, and the rules for writing that down (k8s-device-plugin, `api/config/v1`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nfd import names

PREFIX = f"{names.NVIDIA_NS}/"
GPU = f"{PREFIX}gpu"

LONGEST = 500
"""Characters of a value or key in a message."""

MPS = "mps"
_STRATEGIES = {"mps": MPS, "timeSlicing": "time-slicing"}
"""In the order in which they count: with an `mps` section, the other has no effect."""
_UUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_FORMS = rf"((urn:uuid:)?{_UUID}|\{{{_UUID}\}}|[0-9a-fA-F]{{32}})"
_DEVICE = re.compile(rf"[0-9]+(:[0-9]+)?|GPU-{_FORMS}|MIG-{_FORMS}|MIG-GPU-{_FORMS}/[0-9]+/[0-9]+", re.ASCII)
_INT = 2**63
"""The first number that Go's `int` cannot hold."""


@dataclass(frozen=True, slots=True)
class Shared:
    """How a resource is shared; `renamed` means that its name in the cluster tells so already."""

    replicas: int = 1
    strategy: str = "none"
    renamed: bool = False

    @property
    def suffix(self) -> str:
        return "-SHARED" if self.replicas > 1 and not self.renamed else ""


@dataclass(frozen=True, slots=True)
class Sharing:
    """The section that counts. A resource that it does not name is not shared."""

    strategy: str = "none"
    resources: Mapping[str, Shared] = field(default_factory=dict)

    def of(self, resource: str) -> Shared:
        return self.resources.get(resource, Shared())


class Misfit(ValueError):
    """A value that does not fit; `key` is its path below the section, as in `timeSlicing.resources[0].name`."""

    def __init__(self, key: str, reason: str) -> None:
        self.key = shortened(key)
        self.reason = shortened(reason)
        super().__init__(f"{self.key}: {self.reason}")


def shortened(text: str) -> str:
    """What a message repeats of a value that may be very long."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def parse_sharing(data: Mapping[str, Any]) -> tuple[Sharing, tuple[str, ...]]:
    """The section `sharing`, and warnings about what is written there without effect. Raises Misfit."""
    found: list[Sharing] = []
    warnings: list[str] = []
    for key, strategy in _STRATEGIES.items():
        if key not in data or (data[key] is None and key == "mps"):
            continue
        sharing, without_effect = _section(data[key], key, strategy)
        found.append(sharing)
        warnings.extend(without_effect)
    return (found[0] if found else Sharing()), tuple(warnings)


def resource_name(value: Any, key: str) -> str:
    """The full name of a resource; the prefix may be left out. Raises Misfit."""
    if not isinstance(value, str) or not value:
        raise Misfit(key, "must be the name of a resource")
    name = value if value.startswith(PREFIX) else PREFIX + value
    if len(name) > names.MAX_NAME:
        raise Misfit(key, f"{name!r} is longer than {names.MAX_NAME} characters")
    if problem := names.subdomain_problem(name.removeprefix(PREFIX)):
        raise Misfit(key, f"{value!r} {problem}")
    return name


def check_bool(data: Mapping[str, Any], name: str, key: str) -> bool:
    """A boolean that may be null or missing. Raises Misfit."""
    value = data.get(name)
    if value is not None and not isinstance(value, bool):
        raise Misfit(f"{key}.{name}", f"must be true or false, not {value!r}")
    return bool(value)


def _section(data: Any, key: str, strategy: str) -> tuple[Sharing, list[str]]:
    if data is not None and not isinstance(data, Mapping):
        raise Misfit(key, "must be a mapping with resources")
    data = data or {}
    resources = data.get("resources")
    if not isinstance(resources, list) or not resources:
        raise Misfit(f"{key}.resources", "must be a list with at least one resource")
    rename = check_bool(data, "renameByDefault", key)
    check_bool(data, "failRequestsGreaterThanOne", key)
    shared: dict[str, Shared] = {}
    warnings: list[str] = []
    for index, entry in enumerate(resources):
        where = f"{key}.resources[{index}]"
        if not isinstance(entry, Mapping):
            raise Misfit(where, "must be a mapping with name and replicas")
        name = resource_name(entry.get("name"), f"{where}.name")
        shared.setdefault(name, Shared(_replicas(entry, where), strategy, rename))
        warnings.extend(_without_effect(entry, where, name, rename))
    return Sharing(strategy, shared), warnings


def _replicas(entry: Mapping[str, Any], where: str) -> int:
    value = entry.get("replicas")
    number = whole(value)
    if number is None or number < 2:
        raise Misfit(f"{where}.replicas", f"must be a whole number of at least 2, not {value!r}")
    return number


def _without_effect(entry: Mapping[str, Any], where: str, name: str, rename: bool) -> Iterator[str]:
    if "rename" in entry:
        wanted = resource_name(entry["rename"], f"{where}.rename")
        if not rename:
            yield f"{where}.rename: has no effect without renameByDefault"
        elif wanted != f"{name}.shared":
            yield f"{where}.rename: is always {name}.shared"
    if "devices" in entry:
        _check_devices(entry["devices"], f"{where}.devices")
        if entry["devices"] != "all":
            yield f"{where}.devices: all devices are shared, whatever is listed"


def _check_devices(value: Any, key: str) -> None:
    if value == "all":
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            number = 0 if item is None else whole(item)
            text = item if number is None else str(number)
            if not isinstance(text, str) or not _DEVICE.fullmatch(text):
                raise Misfit(f"{key}[{index}]", f"{item!r} is no index, index:index or UUID of a device")
    elif (number := whole(value)) is None or number < 1:
        raise Misfit(key, f"must be all, a number of devices or a list of them, not {value!r}")


def whole(value: Any) -> int | None:
    """A number without a fraction that fits 64 bits, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value) if -_INT <= value < _INT else None
