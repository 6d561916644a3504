"""`nfd-topology-updater`: keeps this node's NodeResourceTopology, until a signal ends it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from pydantic import Field

from nfd import names
from nfd.config.flags import Extra, Parsed, exit_status, or_root, run_program
from nfd.config.klog import Klog
from nfd.config.load import files, load
from nfd.config.option_values import parse_port
from nfd.config.section import Section, parse_duration
from nfd.errors import ConfigError, NfdError, said
from nfd.host import Host
from nfd.runtime import log, tasks
from nfd.runtime.optional_packages import extras
from nfd.topology.kubelet import check_uri

CONFIG_FILE = "/etc/kubernetes/node-feature-discovery/nfd-topology-updater.conf"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SOCKET = "var/lib/kubelet/pod-resources/kubelet.sock"
STATE = "var/lib/kubelet"

_log = log.get("topology")


class Config(Section):
    klog: Klog = Klog()
    """Logging options of klog."""
    exclude_list: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Resources to leave out, by node name; `*` stands for every node."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0, 1 (failed) or 2 (usage)."""
    about = "Publishes the allocatable and available resources of each NUMA node as a NodeResourceTopology."
    return run_program("nfd-topology-updater", argv, serve, FLAGS, Config, about=about)


def serve(parsed: Parsed) -> int:
    """Until a signal. Raises: NfdError before it logs."""
    config, findings = load(Config, (*files(parsed["config"]), *parsed.layers))
    try:
        host = Host(parsed["host-root"])
    except OSError as error:
        raise ConfigError(said(error)) from error
    with extras():
        from nfd.topology.run import run, settings_of
    settings = settings_of(parsed, config, host)
    log.setup("debug" if config.klog.v > 0 else "info")
    for finding in findings:
        _log.warning("configuration", path=finding.place, error=finding)
    try:
        return tasks.serve(partial(run, parsed, settings, host))
    except (NfdError, OSError) as error:
        _log.error("stopping", error=error)
        return exit_status(error)


def _interval(text: str) -> float:
    seconds = float(parse_duration(text))
    if seconds < 0:
        raise ValueError(f"{text} is not a time between two scans")
    return seconds


def _namespace(text: str) -> str:
    if text != "*" and (problem := names.subdomain_problem(text)):
        raise ValueError(f"{text!r} {problem}")
    return text


FLAGS = (
    Extra("config", f"configuration file; its drop-ins are {CONFIG_FILE}.d/*", CONFIG_FILE),
    Extra("oneshot", "scan once, publish and exit; 1 if that fails", False, switch=True),
    Extra("no-publish", "print the object when it changes, instead of publishing it", False, switch=True),
    Extra("kubeconfig", "kubeconfig file (default: $KUBECONFIG, or the pod's service account)"),
    Extra("port", "port of /healthz, /readyz and /metrics; 0 disables it", 8080, parse_port, aliases=("metrics",)),
    Extra("sleep-interval", "time between two scans; 0 scans only after changes of files or pods", 60.0, _interval),
    Extra("watch-namespace", "namespace of the pods to count; * for all", "*", _namespace),
    Extra(
        "kubelet-config-uri",
        "where the kubelet's configuration is, https:// or file://; else https://$NODE_ADDRESS:10250/configz",
        "",
        lambda text: check_uri(text) if text else "",
    ),
    Extra("api-auth-token-file", "token for the kubelet, for https:// in -kubelet-config-uri", str(ACCOUNT / "token")),
    Extra("podresources-socket", f"the kubelet's pod-resources socket; else HOST-ROOT/{SOCKET}"),
    Extra("pods-fingerprint", "publish a fingerprint of the set of pods", True, switch=True),
    Extra("kubelet-state-dir", f"the kubelet's folder, watched for changes; empty for none; else HOST-ROOT/{STATE}"),
    Extra("host-root", "where the root file system of this machine is mounted", "/", or_root, env=("NFD_HOST_ROOT",)),
    Extra("grpc-health", "accepted, without effect: health is on the HTTP port", 8082, parse_port, hidden=True),
)


if __name__ == "__main__":
    sys.exit(main())
