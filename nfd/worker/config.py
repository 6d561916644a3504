"""The worker's configuration: `core`, and one section per feature source under `sources`.

Keys and defaults are NFD 0.19's (NFD documentation, "Worker configuration reference").
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, create_model

from nfd.config.klog import Klog
from nfd.config.section import Checked, Duration, Flag, Pattern, Replaces, Section, parse_pattern
from nfd.sources import entry_problem, section

CONFIG_FILE = "/etc/kubernetes/node-feature-discovery/nfd-worker.conf"
ENV_PREFIX = "NFD_WORKER"
Owner = Literal["node", "pod", "ds"]


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        raise ValueError(f"{twice!r} is listed twice")
    return names


class Core(Section):
    """Options of the worker itself."""

    sleep_interval: Duration = 60.0
    """Time between two full scans; zero or less scans once, less than 1s counts as 1s."""
    feature_sources: Annotated[tuple[str, ...], Flag("feature-sources"), Checked(entry_problem)] = ("all",)
    """Sources to run, in order: a name adds one, `-name` removes it, `all` adds all but `fake`."""
    label_sources: Annotated[tuple[str, ...], Flag("label-sources"), Checked(entry_problem)] = ("all",)
    """Sources that make labels; the syntax is that of `featureSources`."""
    sources: Annotated[tuple[str, ...] | None, Replaces("label_sources")] = None
    """Deprecated name of `labelSources`."""
    label_white_list: Pattern = parse_pattern("")
    """Publish only labels whose name, the part after the slash, matches this expression anywhere."""
    no_publish: Annotated[bool, Flag("no-publish")] = False
    """Scan, but report nothing."""
    no_publish_features: Annotated[tuple[str, ...], Flag("no-publish-features")] = ()
    """Features that are not reported, such as `kernel.config` or `cpu.*`; labels are still made from them."""
    no_owner_refs: Annotated[bool, Flag("no-owner-refs")] = False
    """Accepted, without effect: no object is written that could have an owner."""
    owner_refs: Annotated[tuple[Owner, ...], Flag("owner-refs"), AfterValidator(_once)] = ("pod", "ds")
    """Accepted, without effect: no object is written that could have an owner."""
    klog: Klog = Klog()


class WorkerConfig(Section):
    """The part of the configuration without sources; `model` adds the sections of the installed sources."""

    core: Core = Core()
    sources: Any


@cache
def model() -> type[WorkerConfig]:
    """The whole model, plug-ins included."""
    sources = section()
    return create_model("Config", __base__=WorkerConfig, sources=(sources, sources()))
