"""What Kubernetes takes ("Labels and Selectors", "Object Names"), written down apart from our own checks."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tests.fuzz.target import check

_VALUE = re.compile(r"(?:[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_PREFIX = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*", re.ASCII)
_OURS = re.compile(r"(?:.*\.)?(?:feature|profile)\.node\.kubernetes\.io")


def is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return bool(name) and _VALUE.fullmatch(name) is not None and (not slash or _PREFIX.fullmatch(prefix) is not None)


def check_labels(labels: Mapping[str, str]) -> None:
    """Names and values are Kubernetes'."""
    for key, value in labels.items():
        check(is_key(key), f"label name {key!r}")
        check(_VALUE.fullmatch(value) is not None, f"label value {value!r} of {key!r}")


def check_foreign(keys: Mapping[str, str]) -> None:
    """Nothing in kubernetes.io but our own namespaces and what is below them."""
    for key in keys:
        namespace = key.rpartition("/")[0]
        theirs = namespace == "kubernetes.io" or namespace.endswith(".kubernetes.io")
        check(not theirs or _OURS.fullmatch(namespace) is not None, f"{key!r} is Kubernetes' own")
