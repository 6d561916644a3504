"""The section `sharing`: which resources several pods share, under which names, and when `-SHARED` marks them.

Its format is that of the k8s-device-plugin (`api/config/v1`). The device plugin's configuration file and
`sources.nvidia` of the worker both have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from nfd import names
from nfd.config.section import Inside, Section

PREFIX = f"{names.NVIDIA_NS}/"
GPU = f"{PREFIX}gpu"

MPS, TIME_SLICING = "mps", "time-slicing"
_UUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_FORMS = rf"((urn:uuid:)?{_UUID}|\{{{_UUID}\}}|[0-9a-fA-F]{{32}})"
_DEVICE = re.compile(rf"[0-9]+(:[0-9]+)?|GPU-{_FORMS}|MIG-{_FORMS}|MIG-GPU-{_FORMS}/[0-9]+/[0-9]+", re.ASCII)
_INT = 2**63
"""The first number that Go's `int` cannot hold."""


def resource_name(value: str | None) -> str:
    """The full name of a resource; the prefix may be left out. Raises ValueError."""
    if not value:
        raise ValueError("must be the name of a resource")
    name = value if value.startswith(PREFIX) else PREFIX + value
    if len(name) > names.MAX_NAME:
        raise ValueError(f"{name!r} is longer than {names.MAX_NAME} characters")
    if problem := names.subdomain_problem(name.removeprefix(PREFIX)):
        raise ValueError(f"{value!r} {problem}")
    return name


def check_replicas(value: int) -> int:
    if not 2 <= value < _INT:
        raise ValueError(f"must be a whole number of at least 2, not {value}")
    return value


def check_devices(value: Any) -> Any:
    """`all`, a number of devices, or a list of indexes and UUIDs. Raises ValueError."""
    if value == "all":
        return value
    if isinstance(value, list):
        for index, item in enumerate(value):
            number = 0 if item is None else whole(item)
            text = item if number is None else str(number)
            if not isinstance(text, str) or not _DEVICE.fullmatch(text):
                raise Inside((index,), f"{item!r} is not an index, index:index or UUID of a device")
    elif (number := whole(value)) is None or number < 1:
        raise ValueError(f"must be all, a number of devices or a list of them, not {value!r}")
    return value


def whole(value: Any) -> int | None:
    """A number without a fraction that fits 64 bits, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value) if -_INT <= value < _INT else None


@dataclass(frozen=True, slots=True)
class Shared:
    """How a resource is shared. If it is `renamed`, its name in the cluster says that it is shared."""

    replicas: int = 1
    strategy: str = "none"
    renamed: bool = False

    @property
    def product_suffix(self) -> str:
        return "-SHARED" if self.replicas > 1 and not self.renamed else ""


class Entry(Section):
    """What the file has by its exact keys, and no flag or variable sets."""

    exact: ClassVar[bool] = True
    derived: ClassVar[bool] = False


class Resource(Entry):
    """One shared resource."""

    name: Annotated[str, AfterValidator(resource_name)]
    """Name of the resource; `nvidia.com/` may be left out."""
    replicas: Annotated[int, AfterValidator(check_replicas)]
    """How many pods share one device."""
    rename: Annotated[str | None, AfterValidator(resource_name)] = None
    """Has no effect: a renamed resource is always called `<name>.shared`."""
    devices: Annotated[Any | None, AfterValidator(check_devices)] = "all"
    """Has no effect: all devices are shared."""


def check_resources(entries: tuple[Resource, ...]) -> tuple[Resource, ...]:
    if not entries:
        raise ValueError("must be a list with at least one resource")
    return entries


class Replicated(Entry):
    """The resources that one strategy shares."""

    rename_by_default: bool = False
    """Call shared resources `<name>.shared`."""
    fail_requests_greater_than_one: bool | None = None
    """For the device plugin."""
    resources: Annotated[tuple[Resource, ...], AfterValidator(check_resources)]
    """The resources; of several entries with one name the first counts."""

    def without_effect(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Path and reason of what is written without effect."""
        for index, entry in enumerate(self.resources):
            if entry.rename is not None and not self.rename_by_default:
                yield ("resources", index, "rename"), "has no effect without renameByDefault"
            elif entry.rename not in (None, f"{entry.name}.shared"):
                yield ("resources", index, "rename"), f"is always {entry.name}.shared"
            if entry.devices != "all":
                yield ("resources", index, "devices"), "all devices are shared, whatever is listed"


def check_section(value: Replicated | None) -> Replicated | None:
    if value is None:
        raise ValueError("must be a mapping with resources")
    return value


class Sharing(Section):
    """If there is an `mps` section, `timeSlicing` has no effect."""

    whole: ClassVar[bool] = True
    derived: ClassVar[bool] = False
    removable: ClassVar[bool] = True

    time_slicing: Replicated | None = None
    mps: Replicated | None = None

    @property
    def strategy(self) -> str:
        return MPS if self.mps else TIME_SLICING if self.time_slicing else "none"

    def of(self, resource: str) -> Shared:
        """How a resource is shared; one that is not listed is not shared."""
        section = self.mps or self.time_slicing
        entry = next((one for one in section.resources if one.name == resource), None) if section else None
        return Shared(entry.replicas, self.strategy, section.rename_by_default) if section and entry else Shared()

    def without_effect(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Path and reason of what is written without effect."""
        for key, section in (("mps", self.mps), ("timeSlicing", self.time_slicing)):
            for path, reason in section.without_effect() if section else ():
                yield (key, *path), reason


class FileSharing(Sharing):
    """As the device plugin's file has it, whose decoder refuses a `timeSlicing` of null."""

    removable: ClassVar[bool] = False

    time_slicing: Annotated[Replicated | None, AfterValidator(check_section)] = None
