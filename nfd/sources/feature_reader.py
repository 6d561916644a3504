"""How sources read files: an error in one feature does not affect the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from nfd.errors import HostError
from nfd.features import Features, Instance, join
from nfd.host import DENIED, NOT_NOW, Host
from nfd.host.blanks_and_numbers import BLANK, parse_decimal
from nfd.host.pcie import numa_node
from nfd.source import Partial

T = TypeVar("T")
U = TypeVar("U")

_DEVICES = "devices"
"""What a host keeps of a feature: the instances of each device when all its files could be read last."""
_IDS = ("vendor", "device", "serial")
"""Attributes that differ only if another device has taken the place of the former one."""


class FeatureReader:
    """Reads the files of one feature and keeps the errors of those that exist and are unreadable.

    A feature of devices reads each of them within `device`, and adds what `last` returns. An error then affects no
    device but its own.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.errors: list[HostError] = []
        self.held = False
        """Whether `last` had the devices of an earlier reading."""
        self._incomplete: set[str] = set()
        self._of_devices = 0
        """Errors that belong to a device."""

    @contextmanager
    def device(self, name: str) -> Iterator[None]:
        """The errors that occur within belong to this device of the feature."""
        before = len(self.errors)
        yield
        if more := len(self.errors) - before:
            self._incomplete.add(name)
            self._of_devices += more

    def last(self, feature: str, found: Mapping[str, Sequence[Instance]]) -> dict[str, Sequence[Instance]]:
        """Of each device with an error the instances of its last reading without one, if it had such a reading.

        It has none if other ids were read now. `found` has the instances of this reading by the names of the devices,
        of which a complete list was read. An error that belongs to no device concerns all of them.
        """
        of_all = found.keys() if len(self.errors) > self._of_devices else frozenset[str]()
        incomplete = self._incomplete | of_all
        good = self.host.good(feature)
        self.held = _DEVICES in good
        last: dict[str, Sequence[Instance]] = good.get(_DEVICES, {})  # type: ignore[assignment]  # as stored below
        same = [name for name in sorted(incomplete & last.keys()) if not _are_others(last[name], found.get(name, ()))]
        held = {name: last[name] for name in same}
        complete = {name: instances for name, instances in found.items() if name not in incomplete}
        good[_DEVICES] = complete | held
        return held

    def value(self, path: str) -> str | None:
        """A sysfs value, trimmed; None where there is none, which after an error leaves the feature incomplete."""
        text = self.text(path)
        return None if text is None else text.strip(BLANK)

    def text(self, path: str) -> str | None:
        """As `value`, untouched."""
        try:
            return self.host.text(path)
        except HostError as error:
            self._keep(error)
            return None

    def values(self, folder: str, files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """(attribute, value) for each file of the folder that is there; `files` maps attributes to file names."""
        for attribute, name in files.items():
            value = self.value(f"{folder}/{name}")
            if value is not None:
                yield attribute, value

    def parsed(self, path: str, parse: Callable[[bytes], T]) -> T | None:
        """`parse` of a file, kept while the file stays the same; None where there is none, as for `value`."""
        return self._isolated(None, self.host.parsed, path, parse)

    def has(self, path: str) -> bool:
        """Whether it exists; an error counts as no, and leaves the feature incomplete."""
        return bool(self.exists(path))

    def exists(self, path: str) -> bool | None:
        """As `has`, but None after an error, for an answer that is kept."""
        return self._isolated(None, self.host.exists, path)

    def has_dir(self, path: str) -> bool:
        """As `has`, for a directory."""
        return self._isolated(False, self.host.is_dir, path)

    def names(self, path: str) -> tuple[str, ...]:
        """Names in a directory, sorted; an unreadable one is empty and leaves the feature incomplete."""
        return self._isolated((), self.host.names, path)

    @property
    def failure(self) -> str:
        return first_of(self.errors)

    def _isolated(self, otherwise: U, read: Callable[..., T], *arguments: Any) -> T | U:
        """What `read` gives; after an error, which is kept instead of raised, `otherwise`."""
        try:
            return read(*arguments)
        except HostError as error:
            self._keep(error)
            return otherwise

    def _keep(self, error: HostError) -> None:
        if error.errno not in NOT_NOW:
            self.errors.append(error)


def unless_denied(host: Host, read: Callable[[], T], otherwise: U) -> T | U:
    """What `read` gives; without permission, `otherwise` and a note. Raises: HostError of any other failure."""
    try:
        return read()
    except HostError as error:
        if error.errno not in DENIED:
            raise
        host.note(error.path, error.reason)
        return otherwise


def first_of(errors: Sequence[object]) -> str:
    """The first error and how many more there were; empty if all went well."""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{errors[0]}{more}" if errors else ""


Part = Callable[[FeatureReader], Features]


def _are_others(before: Sequence[Instance], now: Sequence[Instance]) -> bool:
    """Whether these are instances of another device, as far as the ids of both are known."""
    pairs = zip(before, now, strict=False)
    return any(one[name] != other[name] for one, other in pairs for name in _IDS if one.get(name) and other.get(name))


def gather(host: Host, parts: Mapping[str, Part]) -> Features | Partial:
    """Read the features of a source, by name, each on its own: an error in one does not affect the others."""
    found: list[Features] = []
    failed: dict[str, str] = {}
    held: set[str] = set()
    for feature, read in parts.items():
        reader = FeatureReader(host)
        try:
            found.append(read(reader))
        except HostError as error:
            reader.errors.append(error)
        if reader.failure:
            failed[feature] = reader.failure
            held |= {feature} if reader.held else set()
    features = join(found)
    return Partial(features, failed, frozenset(held)) if failed else features


def attributes(feature: str, elements: Mapping[str, str] | None) -> Features:
    """One attribute feature; None: there is no such feature."""
    return Features() if elements is None else Features(attributes={feature: elements})


def place(reader: FeatureReader, file: str, root: str) -> dict[str, str]:
    """Attributes `numa_node`, from that file, and `pcie_root`, as far as they are known."""
    node = numa_node(reader.value(file))
    return {**({"numa_node": node} if node else {}), **({"pcie_root": root} if root else {})}


def is_positive(text: str | None) -> bool:
    """Whether the text is a decimal integer above zero."""
    return (parse_decimal(text or "") or 0) > 0
