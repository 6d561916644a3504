"""Finds in one or several kubeconfigs the cluster, the user and the namespace to use.

A list of files is merged as in client-go (tools/clientcmd, ClientConfigLoadingRules): the first file that has a name
wins, paths in a file are relative to that file, and files that do not exist are left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

from nfd.config.named_files import check_file
from nfd.errors import ConfigError
from nfd.message_text import did_you_mean

Json = Mapping[str, Any]
SHAPE = "is not a kubeconfig: it needs lists of clusters, contexts and users, and a current-context"


@dataclass(frozen=True, slots=True)
class Choice:
    """What a user chose in place of what the kubeconfig says; empty where it applies.

    `impersonate` and `groups` are the user and groups to act as (Kubernetes, "User impersonation").
    """

    context: str = ""
    cluster: str = ""
    user: str = ""
    impersonate: str = ""
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A cluster, user or context, and the file that has it."""

    value: Json
    path: str


@dataclass(slots=True)
class Merged:
    """The files as one; entries by name."""

    files: list[str] = field(default_factory=list)
    current: str = ""
    clusters: dict[str, Entry] = field(default_factory=dict)
    contexts: dict[str, Entry] = field(default_factory=dict)
    users: dict[str, Entry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The parts to use; `place` says in words where they are from, `headers` impersonate."""

    cluster: Entry
    user: Entry
    namespace: str
    headers: tuple[tuple[str, str], ...]
    place: str

    def loader(self) -> Any:
        """The library's loader for these parts alone."""
        from kubernetes.aio.config.kube_config import ConfigNode, KubeConfigLoader

        node, loader = cast(Any, ConfigNode), cast(Any, KubeConfigLoader)
        context = {"name": "chosen", "context": {"cluster": "chosen", "user": "chosen"}}
        parts = {
            "current-context": "chosen",
            "contexts": [context],
            "clusters": [_part(node, "cluster", self.cluster)],
            "users": [_part(node, "user", self.user)],
        }
        return loader(node("kubeconfig", parts), config_base_path=None)


def _part(node: Any, kind: str, entry: Entry) -> Any:
    return node(f"{entry.path}/{kind}s", {"name": "chosen", kind: entry.value}, entry.path)


def listed_files(variable: str) -> list[str]:
    """The files of `$KUBECONFIG`; those that do not exist are left out unless none does."""
    files = [part for part in variable.split(os.pathsep) if part]
    return [one for one in files if Path(one).expanduser().exists()] or files[:1]


def read_kubeconfigs(files: Sequence[str]) -> Merged:
    """All files as one. Raises: OSError, ValueError, yaml.YAMLError; ConfigError that names the file."""
    merged = Merged()
    for name in files:
        path = str(Path(name).expanduser())
        # a shell's <(…) is open already, and somebody writes to it
        check_file(path, pipes=path.startswith(("/dev/fd/", "/proc/self/fd/")))
        try:
            _merge(merged, path, yaml.safe_load(Path(path).read_bytes()))
        except (ValueError, yaml.YAMLError, RecursionError) as error:
            raise ConfigError(f"kubeconfig {path}: {' '.join(str(error).split())}") from error
    return merged


def _merge(merged: Merged, path: str, content: Any) -> None:
    if content is None and len(merged.files):
        return
    if not isinstance(content, dict):
        raise ValueError(SHAPE)
    merged.files.append(path)
    merged.current = merged.current or str(content.get("current-context") or "")
    for kind, entries in (("cluster", merged.clusters), ("context", merged.contexts), ("user", merged.users)):
        for name, value in _entries(content.get(f"{kind}s"), kind):
            entries.setdefault(name, Entry(value, path))


def _entries(listed: Any, kind: str) -> Iterator[tuple[str, Json]]:
    if not isinstance(listed, list | None):
        raise ValueError(SHAPE)
    for one in listed or ():
        value = one.get(kind) if isinstance(one, dict) else ()
        if not isinstance(value, dict | None) or not isinstance(one.get("name"), str):
            raise ValueError(f"{SHAPE}; each of {kind}s has a name and a {kind}")
        yield one["name"], value or {}


def choose(merged: Merged, choice: Choice) -> Chosen:
    """What the current context names, or the user chose instead. Raises: ConfigError."""
    where = f"kubeconfig {os.pathsep.join(merged.files)}"
    name = choice.context or merged.current
    if not name and not choice.cluster:
        raise ConfigError(f"{where}: no current-context; {_known('contexts', merged.contexts) or 'no contexts'}")
    context = _get(merged.contexts, name, where, "context", "--context" if choice.context else "current-context")
    asked = str(context.value.get("cluster") or "")
    by = "--cluster" if choice.cluster else f"context {name!r}"
    cluster = _get(merged.clusters, choice.cluster or asked, where, "cluster", by)
    asked, by = str(context.value.get("user") or ""), "--user" if choice.user else f"context {name!r}"
    user = _get(merged.users, choice.user or asked, where, "user", by)
    place = f"context {name!r} of kubeconfig {context.path}" if name else f"kubeconfig {cluster.path}"
    namespace = str(context.value.get("namespace") or "")
    return Chosen(cluster, user, namespace, tuple(impersonation(user.value, choice)), place)


def _get(entries: Mapping[str, Entry], name: str, where: str, kind: str, by: str) -> Entry:
    """The entry; an empty one if none is named and it may be left out."""
    if name in entries:
        return entries[name]
    if not name and kind != "cluster":
        return Entry({}, "")
    known = _known(f"{kind}s", entries)
    hint = did_you_mean(name, entries) or (f"; {known}" if known else "")
    raise ConfigError(f"{where}: {by}: no {kind} {name!r}{hint}")


def _known(kinds: str, names: Iterable[str]) -> str:
    shown = ", ".join(sorted(names))
    return f"{kinds}: {shown}" if shown else ""


def impersonation(user: Json, choice: Choice) -> Iterator[tuple[str, str]]:
    """Headers by the choice, else by the kubeconfig. Raises: ConfigError for groups without a user."""
    name = choice.impersonate or str(user.get("as") or "")
    groups = choice.groups or (() if choice.impersonate else tuple(map(str, user.get("as-groups") or ())))
    if not name:
        if groups:
            raise ConfigError("--as-group needs --as")
        return
    yield "Impersonate-User", _header(name)
    yield from (("Impersonate-Group", _header(group)) for group in groups)
    if choice.impersonate:
        return
    if user.get("as-uid"):
        yield "Impersonate-Uid", _header(str(user["as-uid"]))
    for key, values in (user.get("as-user-extra") or {}).items():
        yield from ((f"Impersonate-Extra-{key}", _header(str(value))) for value in values)


def _header(text: str) -> str:
    """Raises: ConfigError for what no HTTP header can carry."""
    if not text.isprintable():
        raise ConfigError(f"--as {text!r}: has characters that an HTTP header cannot carry")
    return text
