"""Who may report, and over what: the flags `--auth`, `--insecure` and those for certificates, and their mode.

* `token`: the pods of the workers' service accounts, each for the node it runs on. TLS with certificates of our own
  making, or with --cert-file and --key-file; with --ca-file as well, workers must show a certificate besides.
* `mtls`: whoever has a certificate of --ca-file; with --verify-node-name, for the node that it names.
* `none`: anyone. Without the three files in plain text, on loopback; elsewhere only with --insecure.

Unless it is given: mtls with the three files, token in a pod of the cluster whose Nodes are kept, else none.
"""

from __future__ import annotations

from collections.abc import Mapping

from nfd.config.flags import Extra, Parsed, certificate_files
from nfd.errors import ConfigError

MODES = ("token", "mtls", "none")
FILES = ("ca-file", "cert-file", "key-file")


def mode_of(parsed: Parsed, environ: Mapping[str, str]) -> str:
    """Which of the modes holds. Raises: ConfigError for flags that contradict each other."""
    given = [name for name in FILES if parsed[name]]
    mode = str(parsed["auth"] or _default_mode(parsed, environ, all_files=len(given) == len(FILES)))
    if mode == "token":
        if parsed["node-store"] != "kubernetes":
            raise ConfigError("--auth=token needs an API server to ask: it goes with --node-store=kubernetes alone")
        if parsed["insecure"]:
            raise ConfigError(
                "--insecure: workers show their token over TLS alone; give --auth=none with it, or drop it"
            )
        if given and not {"cert-file", "key-file"} <= set(given):
            raise ConfigError("-cert-file and -key-file belong together: give both, or none for our own certificates")
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
        raise ValueError(f"{text!r} is none of {', '.join(MODES)}")
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


FLAGS = (
    Extra("auth", f"how workers show who they are: {', '.join(MODES)} (default: what is set up)", "", _mode),
    Extra("insecure", "take reports in plain text, from anyone, on all addresses", False, switch=True),
    Extra("ca-file", "CA certificate that workers' certificates are checked against (PEM)"),
    Extra("cert-file", "our certificate (PEM)"),
    Extra("key-file", "our private key (PEM)"),
    Extra("verify-node-name", "take reports only for the node that the certificate names", False, switch=True),
    Extra("worker-accounts", "service accounts of workers, [NAMESPACE/]NAME,…", ("nfd-worker",), _names),
    Extra("namespace", "namespace of our own objects; else that of the pod", env=("KUBERNETES_NAMESPACE",)),
    Extra("service-name", "Service through which workers reach us, for our own certificate", "nfd-master"),
    Extra("certificate-objects", "Secret and ConfigMap that hold our own CA and its bundle", "nfd-master-ca"),
)
