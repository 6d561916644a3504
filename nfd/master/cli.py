"""`nfd-master`: accepts reports over gRPC and writes the labels of Nodes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

from nfd.config.flags import Extra, Gate, Parsed, configure, daemon_flags, exit_status, feature_gates, run_program
from nfd.config.option_values import parse_port
from nfd.errors import NfdError
from nfd.kube.selector import parse_selector
from nfd.master.config import Config
from nfd.master.security.flags import FLAGS as SECURITY_FLAGS
from nfd.master.security.flags import mode_of
from nfd.names import subdomain_problem
from nfd.runtime import log, tasks
from nfd.runtime.optional_packages import extras

LEASE = "nfd-master.nfd.kubernetes.io"
CONFIG_FILE = "/etc/kubernetes/node-feature-discovery/nfd-master.conf"
GATES = {
    "NodeFeatureAPI": Gate(True),
    "DisableAutoPrefix": Gate(False),
    "NodeFeatureGroupAPI": Gate(False),
}
_INSTANCE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?", re.ASCII)
_STORE_HELP = "where Nodes are stored: `kubernetes`, or `file:DIR` for a folder of NODE.yaml files"
_log = log.get("master")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0, 1 (failed) or 2 (usage or configuration)."""
    about = "Accepts reports of nfd-worker over gRPC and labels Node objects."
    return run_program("nfd-master", argv, serve, FLAGS, Config, "NFD_MASTER", about=about)


def serve(parsed: Parsed) -> int:
    """Until a signal, or until everything is removed with --prune. Raises: NfdError before it logs."""
    with extras():
        from nfd.master import run
    seen = run.signature(parsed["config"])
    config, findings = configure(Config, parsed)
    mode = mode_of(parsed, os.environ)
    log.setup("debug" if config.klog.v > 0 else "info")
    for finding in findings:
        _log.warning("configuration", path=finding.place, error=finding)
    try:
        if parsed["prune"]:
            tasks.run(run.remove_all(config, parsed))
        else:
            tasks.serve(lambda asked: run.serve(config, parsed, mode, seen, asked))
    except (NfdError, OSError) as error:
        _log.error("stopping", error=error)
        return exit_status(error)
    return 0


def _store(text: str) -> str:
    kind, colon, folder = text.partition(":")
    if text != "kubernetes" and not (kind == "file" and colon and folder):
        raise ValueError(f"{text!r} must be `kubernetes` or `file:DIR`")
    return text


def _lease_name(text: str) -> str:
    if problem := subdomain_problem(text):
        raise ValueError(f"{text!r} {problem}")
    return text


def _instance(text: str) -> str:
    if not _INSTANCE.fullmatch(text):
        raise ValueError(
            f"{text!r} must consist of letters, digits, '-', '_' and '.', and begin and end with a letter or digit"
        )
    return text


FLAGS = (
    *daemon_flags(CONFIG_FILE),
    Extra("node-store", _STORE_HELP, "kubernetes", _store, env=("NFD_MASTER_NODE_STORE",)),
    Extra("kubeconfig", "kubeconfig file (default: $KUBECONFIG, or the pod's service account)"),
    Extra("port", "gRPC port for workers", 8080, parse_port),
    Extra(
        "http-port",
        "port of /healthz, /readyz and /metrics; 0 disables it",
        8081,
        parse_port,
        aliases=("metrics",),
    ),
    Extra("serve-reports", "serve /reports to authorised clients, for nfd plan", False, switch=True),
    Extra("serve-page", "show the fleet in a browser, at /page/ of the HTTP port", False, switch=True),
    Extra(
        "page-dra", "with --serve-page: show devices of DRA drivers, which needs RBAC permission", False, switch=True
    ),
    Extra("cluster-name", "name of the cluster, which the page shows", ""),
    Extra("grpc-health", "accepted, without effect: health is served on the gRPC port", 8082, parse_port, hidden=True),
    Extra("instance", "prefix of the bookkeeping annotations, for several masters in one cluster", "", _instance),
    Extra(
        "node-selector",
        "label selector of this master's Nodes, for several masters in one cluster; reports for others are rejected",
        "",
        parse_selector,
    ),
    Extra("prune", "remove everything that nfd manages from all nodes and exit", False, switch=True),
    Extra("dry-run", "with --prune: only print what would be removed", False, switch=True),
    Extra("delete-secret", "with --prune: delete the Secret of --certificate-objects at the end", False, switch=True),
    Extra(
        "enable-leader-election",
        "for several replicas: only the leader writes, elected by a Lease in the master's namespace",
        False,
        switch=True,
    ),
    Extra("lease-name", "name of the Lease with which masters elect a leader, in their namespace", LEASE, _lease_name),
    Extra("snapshot-file", "file that keeps the reports for the next process of this master, such as in an emptyDir"),
    *SECURITY_FLAGS,
    Extra("crd-controller", "accepted, without effect", True, switch=True, hidden=True),
    Extra("featurerules-controller", "accepted, without effect", True, switch=True, hidden=True),
    Extra("enable-nodefeature-api", "accepted, without effect", True, switch=True, hidden=True),
    feature_gates(GATES),
)


if __name__ == "__main__":
    sys.exit(main())
