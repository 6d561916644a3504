"""A small machine in a directory and the sources that read it."""

from __future__ import annotations

from collections.abc import Callable

from nfd.config.section import Section
from nfd.events.wakes import Events
from nfd.features import Features
from nfd.source import Source

FEATURES_D = "etc/features.d"
Maker = Callable[..., Events]


def source(name: str, *wakes: str, watches: tuple[str, ...] = ()) -> Source:
    return Source(
        name, Section, lambda host, config: Features(), lambda features, config: {},
        wakes=frozenset(wakes), watches=watches,
    )  # fmt: skip


ALL = (
    source("pci", "pci"), source("net", "net"), source("storage", "block"), source("kernel", "module"),
    source("cpu", "cpu"), source("local", watches=(FEATURES_D,)),
)  # fmt: skip
