"""The feature sources: built-in ones, and plug-ins from the entry-point group `nfd.sources`.

A plug-in is one entry point, named as its source, that leads to a `nfd.source.Source`. Plug-ins are loaded when
somebody asks for the sources, not on import. One that cannot be loaded is a source that fails with the reason, so that
nothing it gave before is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import create_model

from nfd.config.section import Section
from nfd.errors import NfdError
from nfd.features import Features
from nfd.host import Host
from nfd.source import Source
from nfd.sources import (
    accelerator,
    amd,
    cpu,
    custom,
    fake,
    intel,
    kernel,
    local,
    memory,
    network,
    pci,
    storage,
    system,
    usb,
)

GROUP = "nfd.sources"
ALL = "all"

_MODULES = (accelerator, amd, cpu, custom, fake, intel, kernel, local, memory, network, pci, storage, system, usb)
BUILT_IN: tuple[Source, ...] = tuple(module.SOURCE for module in _MODULES)

_BUILT_IN_NAMES = frozenset(source.name for source in BUILT_IN)


def known() -> tuple[Source, ...]:
    """All sources, sorted by name; plug-ins are loaded."""
    return tuple(sorted((*BUILT_IN, *plug_ins()), key=lambda source: source.name))


@cache
def plug_ins() -> tuple[Source, ...]:
    """The sources of the installed plug-ins; of several with one name, the first."""
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        points.setdefault(point.name, point)
    return tuple(load(points[name]) for name in points if name not in _BUILT_IN_NAMES)


def superfluous() -> tuple[tuple[str, str], ...]:
    """Plug-ins that are not used, each with the reason."""
    taken = (point for point in entry_points(group=GROUP) if point.name in _BUILT_IN_NAMES)
    return tuple((point.name, f"the source is built in, {point.value} is not used") for point in taken)


def load(point: EntryPoint) -> Source:
    """The plug-in's source, or one of its name that fails with the reason why it cannot be loaded."""
    try:
        source = point.load()
    except Exception as error:  # whatever a plug-in does wrong is its own failure
        return broken(point.name, f"{point.value}: {type(error).__name__}: {error}")
    if not isinstance(source, Source):
        return broken(point.name, f"{point.value} is no nfd.source.Source")
    if source.name != point.name:
        return broken(point.name, f"{point.value} names its source {source.name!r}")
    return source


def broken(name: str, reason: str) -> Source:
    """A source that always fails."""

    def discover(host: Host, config: Section) -> Features:
        raise NfdError(f"the plug-in cannot be loaded: {reason}")

    return Source(name, Section, discover, lambda features, config: {})


def select(wanted: Iterable[str], sources: Sequence[Source]) -> tuple[tuple[Source, ...], tuple[str, ...]]:
    """The wanted sources, sorted by name, and the unknown names.

    Entries count in their order: a name adds that source, `-name` takes it away, `all` adds every source but the
    supplemental ones.
    """
    by_name = {source.name: source for source in sources}
    chosen: set[str] = set()
    unknown: list[str] = []
    for entry in wanted:
        name = entry.removeprefix("-")
        if entry == ALL:
            chosen.update(source.name for source in sources if source.default)
        elif name not in by_name:
            unknown.append(name)
        elif entry.startswith("-"):
            chosen.discard(name)
        else:
            chosen.add(name)
    return tuple(by_name[name] for name in sorted(chosen)), tuple(unknown)


def entry_problem(entry: str) -> str:
    """What is wrong with an entry that `select` is given: the name is unknown; "" if nothing."""
    names = [source.name for source in known()]
    if entry == ALL or entry.removeprefix("-") in names:
        return ""
    return f"unknown source {entry.removeprefix('-')!r}; known are {', '.join(names)}"


@cache
def section() -> type[Section]:
    """The model of the configuration's part `sources`: one section per source, by name."""
    fields: dict[str, Any] = {source.name: (source.config, source.config()) for source in known()}
    return create_model("Sources", __base__=Section, __doc__="Options of the single sources.", **fields)
