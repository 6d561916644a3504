"""Kubernetes naming rules and the namespaces of nfd, as pure checks.

Sources: Kubernetes documentation "Labels and Selectors, Syntax and character set" and "Object Names and IDs".
Every `*_problem` function returns None for a legal text, else one phrase that says what is wrong with it.
"""

from __future__ import annotations

import re

FEATURE_NS = "feature.node.kubernetes.io"
PROFILE_NS = "profile.node.kubernetes.io"
NFD_NS = "nfd.node.kubernetes.io"
NVIDIA_NS = "nvidia.com"

API_GROUP = "nfd.k8s-sigs.io"
"""The API group of NFD's custom resources."""
API_VERSION = f"{API_GROUP}/v1alpha1"

DEPLOY_LABELS = f"{NVIDIA_NS}/gpu.deploy."
"""Labels by which the GPU operator chooses what it runs on a node."""

MAX_NAME = 63
MAX_PREFIX = 253

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?", re.ASCII)
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]", re.ASCII)
_ENDS = "-_."


def name_problem(name: str) -> str | None:
    """Check the part after the slash of a label key; label values follow the same rule but may be empty."""
    if not name:
        return "is empty"
    if len(name) > MAX_NAME:
        return f"is {len(name)} characters long, at most {MAX_NAME} are allowed"
    if not _NAME.fullmatch(name):
        return "must be letters, digits, '-', '_' or '.', with a letter or digit at both ends"
    return None


def value_problem(value: str) -> str | None:
    """Check a label value."""
    return name_problem(value) if value else None


def subdomain_problem(text: str) -> str | None:
    """Check a DNS subdomain: at most 253 characters, lower-case labels joined by dots (RFC 1123)."""
    if not text:
        return "is empty"
    if len(text) > MAX_PREFIX:
        return f"is {len(text)} characters long, at most {MAX_PREFIX} are allowed"
    if not all(_DNS_LABEL.fullmatch(part) for part in text.split(".")):
        return "must be lower-case letters, digits, '-' and '.', each part with a letter or digit at both ends"
    return None


def key_problem(key: str) -> str | None:
    """Check a qualified name: an optional DNS-subdomain prefix and '/', then a name."""
    prefix, slash, name = key.rpartition("/")
    if slash and (problem := subdomain_problem(prefix)):
        return f"prefix {problem}"
    if problem := name_problem(name):
        return f"name {problem}"
    return None


def is_below(namespace: str, parent: str) -> bool:
    """Whether it is that domain or one of its subdomains: a name that only ends in the same letters is another's."""
    return namespace == parent or namespace.endswith(f".{parent}")


def clean(text: str) -> str:
    """Turn any text into a legal label value or name part, or into the empty text when nothing legal is left.

    Illegal characters become '_', ends are trimmed of '-', '_' and '.', the length is cut at 63 characters.
    """
    return _ILLEGAL.sub("_", text).strip(_ENDS)[:MAX_NAME].rstrip(_ENDS)


def full_key(key: str) -> str:
    """The key as it stands on the Node: one without a namespace belongs to NFD's."""
    return key if "/" in key else f"{FEATURE_NS}/{key}"


def listed_key(item: str) -> str:
    """The key that an item of a list on the Node stands for; one that begins with a slash has no namespace."""
    return item[1:] if item.startswith("/") else full_key(item)


def namespace_of(key: str) -> str:
    """The part before the slash, empty if there is none."""
    return key.rpartition("/")[0]


def instance_of(annotation: str) -> str | None:
    """The `--instance` of the nfd-master that an annotation of nfd belongs to, None for another's annotation."""
    namespace = namespace_of(annotation)
    return namespace.removesuffix(NFD_NS).removesuffix(".") if is_below(namespace, NFD_NS) else None
