"""The flags `--auth`, `--insecure` and those for certificates, and the mode that they select.

* `token`: pods with a worker's service account may report for the node they run on. TLS uses certificates of the
master's own authority, or --cert-file and --key-file; with --ca-file, workers need a certificate as well.

* `mtls`: anyone with a certificate of --ca-file may report; with --verify-node-name, for the node that it names.

* `none`: anyone may report. Without the three files reports are in plain text on loopback; elsewhere only with
--insecure.

The default is mtls with the three files, token in a pod of a cluster whose Nodes are stored, else none.
"""

from __future__ import annotations

from collections.abc import Mapping

from nfd.config.flags import Extra, Parsed, certificate_files
from nfd.config.option_values import split_items
from nfd.errors import ConfigError

MODES = ("token", "mtls", "none")
FILES = ("ca-file", "cert-file", "key-file")


def mode_of(parsed: Parsed, environ: Mapping[str, str]) -> str:
    """The mode in use. Raises: ConfigError for flags that contradict each other."""
    given = [name for name in FILES if parsed[name]]
    mode = str(parsed["auth"] or _default_mode(parsed, environ, all_files=len(given) == len(FILES)))
    if mode == "token":
        if parsed["node-store"] != "kubernetes":
            raise ConfigError("--auth=token needs an API server: use it with --node-store=kubernetes")
        if parsed["insecure"]:
            raise ConfigError(
                "--insecure: workers send their token only over TLS; add --auth=none, or remove --insecure"
            )
        if given and not {"cert-file", "key-file"} <= set(given):
            raise ConfigError(
                "-cert-file and -key-file must be given together; without both the master makes its own certificate"
            )
    elif not certificate_files(parsed) and mode == "mtls":
        raise ConfigError("--auth=mtls needs -ca-file, -cert-file and -key-file")
    return mode


def _default_mode(parsed: Parsed, environ: Mapping[str, str], *, all_files: bool) -> str:
    if all_files:
        return "mtls"
    elsewhere = parsed["kubeconfig"] or environ.get("KUBECONFIG") or "KUBERNETES_SERVICE_HOST" not in environ
    return "none" if elsewhere or parsed["insecure"] or parsed["node-store"] != "kubernetes" else "token"


def _mode(text: str) -> str:
    if text not in MODES:
        raise ValueError(f"{text!r} is not one of {', '.join(MODES)}")
    return text


FLAGS = (
    Extra("auth", f"how workers authenticate: {', '.join(MODES)} (default: depends on the other flags)", "", _mode),
    Extra("insecure", "accept reports in plain text, from anyone, on all addresses", False, switch=True),
    Extra("ca-file", "CA certificate to verify workers' certificates (PEM)"),
    Extra("cert-file", "the master's certificate (PEM)"),
    Extra("key-file", "the master's private key (PEM)"),
    Extra("verify-node-name", "accept reports only for the node that the certificate names", False, switch=True),
    Extra("worker-accounts", "service accounts of workers, [NAMESPACE/]NAME,…", ["nfd-worker"], split_items),
    Extra(
        "replication-token-file",
        "this pod's token for other masters, which share their reports then: a projected one for the audience "
        "nfd-master-replication; needs --enable-leader-election, and has no effect with --auth=none",
    ),
    Extra("namespace", "namespace of the master's objects (default: of the pod)", env=("KUBERNETES_NAMESPACE",)),
    Extra("service-name", "name of the Service for workers, for the master's own certificate", "nfd-master"),
    Extra(
        "certificate-objects",
        "name of the Secret with the master's CA and of the ConfigMap with its certificates",
        "nfd-master-ca",
    ),
)
