"""A small configuration model with every kind of option."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from nfd.config.klog import Klog
from nfd.config.section import Duration, Flag, Pattern, Replaces, Section, UnionOfFiles, parse_pattern


class Core(Section):
    """Options of the program."""

    sleep_interval: Duration = 60.0
    """Time between two scans."""
    label_white_list: Annotated[Pattern, Flag("label-whitelist")] = Field(default_factory=lambda: parse_pattern(""))
    """Only such labels."""
    label_sources: Annotated[tuple[str, ...], Flag("label-sources")] = ("all",)
    """Which sources."""
    sources: Annotated[tuple[str, ...] | None, Replaces("label_sources")] = None
    """The old name."""
    deny: Annotated[tuple[str, ...], Flag("deny-label-ns", exact=True), UnionOfFiles()] = ()
    """Denied namespaces."""
    no_publish: Annotated[bool, Flag("no-publish")] = False
    """Report nothing."""
    port: Annotated[int, Flag("port", env=("OLD_PORT",))] = 8080
    """Where it listens."""
    qps: float = 5.0
    """Calls a second."""
    mode: Literal["none", "single"] = "none"
    """One of two."""
    node_name: Annotated[str, Flag(env=("NODE_NAME",))] = ""
    """Whose node."""
    klog: Klog = Klog()


class Pci(Section):
    """Of the pci source."""

    device_class_whitelist: tuple[str, ...] = ("03", "0b40")
    """Classes."""


class Fake(Section):
    """Of the fake source."""

    labels: Mapping[str, str] = {"a": "true"}
    """Labels."""
    instances: tuple[Mapping[str, str], ...] = ({"name": "one", "x": "1"}, {"name": "two"})
    """Instances."""


class Custom(Section):
    """Of the custom source."""

    bare: ClassVar[str] = "rules"
    rules: tuple[Any, ...] = ()
    """Rules."""


class Sources(Section):
    """Of all sources."""

    pci: Pci = Pci()
    fake: Fake = Fake()
    custom: Custom = Custom()


class Config(Section):
    """The whole."""

    core: Core = Core()
    sources: Sources = Sources()
