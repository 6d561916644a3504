"""`nfd-gc`: deletes objects of Nodes that are gone, until a signal ends it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from nfd.config.flags import Extra, Parsed, exit_status, run_program
from nfd.config.klog import Klog
from nfd.config.load import load
from nfd.config.option_values import parse_integer, parse_port
from nfd.config.section import Section, parse_duration
from nfd.errors import NfdError
from nfd.runtime import log, tasks
from nfd.runtime.optional_packages import extras

_log = log.get("gc")


class Config(Section):
    klog: Klog = Klog()
    """Logging options of klog."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0, 1 (failed) or 2 (usage)."""
    about = "Deletes NodeFeature and NodeResourceTopology objects of Nodes that no longer exist."
    return run_program("nfd-gc", argv, serve, FLAGS, Config, about=about)


def serve(parsed: Parsed) -> int:
    """Until a signal. Raises: NfdError before it logs."""
    config, _ = load(Config, parsed.layers)
    with extras():
        from nfd.gc.collector import run
    log.setup("debug" if config.klog.v > 0 else "info")
    try:
        tasks.serve(partial(run, parsed))
    except (NfdError, OSError) as error:
        _log.error("stopping", error=error)
        return exit_status(error)
    return 0


def _interval(text: str) -> float:
    seconds = float(parse_duration(text))
    if seconds <= 0:
        raise ValueError(f"{text} is not a time between two sweeps")
    return seconds


def _list_size(text: str) -> int:
    size = parse_integer(text)
    if size < 0:
        raise ValueError(f"{text} is not a number of objects")
    return size


FLAGS = (
    Extra("gc-interval", "time between two sweeps over all objects", 3600.0, _interval),
    Extra("kubeconfig", "kubeconfig file (default: $KUBECONFIG, or the pod's service account)"),
    Extra("port", "port of /healthz, /readyz and /metrics; 0 disables it", 8080, parse_port, aliases=("metrics",)),
    Extra("list-size", "objects in a page of a list; 0: all in one", 200, _list_size),
)
