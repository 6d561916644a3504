"""Replaces in what a plan needs of a cluster all that identifies machines, networks and people.

In two steps. All documents are searched for what identifies: by its form, by the name of its field, and by what Node
objects name as hosts and addresses. Then every occurrence is replaced, wherever it is. So a label whose value a rule
copies from a feature stays equal to that feature, and a plan for the result is that for the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from nfd.cli.export.replacements import WORDS, Replacements
from nfd.cli.namespace_selector import ObjectDocuments
from nfd.cli.plan.cluster import ClusterDocuments
from nfd.cli.plan.model import Rules
from nfd.features import Features
from nfd.host.identifiers import SECRET, Identifying
from nfd.host.pseudonyms import Pseudonyms
from nfd.kube.check_responses import labels_of, specification
from nfd.master.http.reports_api import MasterState
from nfd.master.node.desired import OBJECT_ORIGIN, RULE_ORIGIN
from nfd.master.node.ownership import CLAIMED, Origin, bookkeeping, parse_owned, render_owned
from nfd.master.node.proof import ASSUMED, UNPROVEN, Proof
from nfd.master.rules.nodefeatures import NODE_NAME, node_of
from nfd.master.rules.ruleset import compile_object
from nfd.names import namespace_of
from nfd.report import Report
from nfd.rules.policy import ANNOTATION, Policy, is_protected
from nfd.store.base import Kind, taint_id, trim

Json = Mapping[str, Any]
_MACHINE = ("cpu.", "kernel.", "memory.", "pci.", "storage.", "system.osrelease", "usb.", "nvidia.")
"""Features whose values come from the kernel and its drivers, not from people."""
_PEOPLE = ("local", "custom", CLAIMED, None)
"""Origins of labels into which people write."""
_HOSTS = ("Hostname", "InternalDNS", "ExternalDNS")
_NAMED_HOST = re.compile(r"(?i)(?:host|node|machine).?name|fqdn")
_IDS = ("bootID", "machineID", "systemUUID")
_WORD_FOR_NODE = ("node", "machine", "server")
"""The first with which no name of a node begins is that of the new names."""
_COMMON = frozenset(
    ("worker", "master", "node", "control-plane", "localhost", "gpu", "cpu", "nfd", "default", "host", "linux", "label")
)
"""Names of hosts that are no names: texts of this product contain them."""
_DOUBT = "the labels of namespaces could not be read when the snapshot was made"
_SIGNED = Proof(b"snapshot")
"""So that a record that was proven is one in the result, too."""


@dataclass(slots=True)
class Anonymized:
    """The result: `documents`, how many texts are replaced, and NodeFeatureRules with another name."""

    documents: ClusterDocuments
    count: int = 0
    renamed: list[str] = field(default_factory=list)


class Anonymizer:
    """Of one cluster; the key is thrown away."""

    def __init__(self, found: ClusterDocuments, key: bytes | None = None) -> None:
        self._given = found
        pseudonyms = Pseudonyms(key)
        self._people = Identifying(pseudonyms, free=True, names={})
        self._machine = Identifying(pseudonyms, names={})
        self._texts = Replacements(self._machine)
        self._replaced: dict[str, set[str]] = {}
        self._objects: dict[str, str] = {}
        self._rules: dict[str, str] = {}
        self._evaluated = {*found.reports, *(node_of(item.get("metadata")) for item in found.objects.items)}
        self._searched: set[tuple[Identifying, str, str, bool]] = set()
        self._search()

    def _search(self) -> None:
        given = self._given
        self._keep()
        self._name_nodes()
        for node in given.nodes:
            self._search_node(node)
        seen: set[int] = set()
        for report in given.reports.values():
            self._search_features(report.features, seen, self._people)
            self._search_labels(report.labels, report.origins)
            self._search_labels(report.annotations, report.origins)
            if report.order is not None:
                self._texts.add("hex", report.order.boot_id)
        for item in given.objects.items:
            self._search_any(item.get("spec"), "", self._people)
        for labels in (given.objects.namespaces or {}).values():
            self._search_labels(labels, {})
        self._search_written([*given.rules.values(), given.worker.data if given.worker else None])
        self._search_written([[layer[1] for layer in given.state.fixed], given.state.node_selector])
        for one in given.state.unwritten:
            self._take(self._people, one.reason)
            self._take(self._people, one.by)

    def _keep(self) -> None:
        """Namespaces of keys, which are no names of hosts."""
        given, policy = self._given, self._given.state.policy
        limits = (entry for entries in policy.source_namespaces.values() for entry in entries)
        for entry in (*policy.extra_label_ns, *policy.deny_label_ns, *policy.resource_labels, *limits):
            self._texts.kept.add(entry.lstrip("*.").partition("/")[0])
        for node in given.nodes:
            metadata = node["metadata"]
            for key in (*labels_of(node), *(metadata.get("annotations") or {})):
                self._texts.kept.add(namespace_of(key))
            for taint in (node.get("spec") or {}).get("taints") or ():
                self._texts.kept.add(namespace_of(str(taint.get("key", ""))))
        for report in given.reports.values():
            self._texts.kept.update(map(namespace_of, (*report.labels, *report.annotations)))
        objects = [(item.get("spec") or {}).get("labels") for item in given.objects.items]
        for item in (*given.rules.values(), *objects, given.worker.data if given.worker else None):
            self._texts.kept.update(_namespaces(item))

    def _name_nodes(self) -> None:
        """Nodes and the objects for them get names in the same order as before, which decides what a later object
        overwrites."""
        given = self._given
        nodes = {str(node["metadata"]["name"]) for node in given.nodes} | given.reports.keys()
        nodes |= {name for one in given.state.unwritten for name in one.nodes}
        objects = {str((item.get("metadata") or {}).get("name", "")) for item in given.objects.items}
        nodes |= {node_of(item.get("metadata")) for item in given.objects.items} - {""}
        ordered = sorted(nodes | objects)
        word = next((one for one in _WORD_FOR_NODE if not any(name.startswith(f"{one}-") for name in nodes)), "n")
        width = len(str(len(ordered)))
        for number, name in enumerate(ordered, 1):
            end = "-object" if name not in nodes else ".example" if "." in name else ""
            self._objects[name] = f"{word}-{number:0{width}}{end}"
            if name in nodes:
                self._texts.put(name, self._objects[name])
        for name in sorted(nodes):
            alias = name.partition(".")[0]
            if alias != name and alias not in nodes and self._is_host(alias):
                self._texts.put(alias, self._objects[name].partition(".")[0])

    @staticmethod
    def _is_host(name: str) -> bool:
        return len(name) >= 3 and name not in _COMMON and not name.isdigit()

    def _search_node(self, node: Json) -> None:
        metadata, status, spec = node["metadata"], node.get("status") or {}, node.get("spec") or {}
        annotations = metadata.get("annotations") or {}
        owned = parse_owned(annotations, self._given.state.instance, "", ASSUMED)
        info = status.get("nodeInfo") or {}
        for name in _IDS:
            self._texts.add("hex" if "-" in str(info.get(name, "")) else "secret", str(info.get(name, "")))
        for one in status.get("addresses") or ():
            address = str(one.get("address", ""))
            if one.get("type") in _HOSTS and any(map(str.isalpha, address)) and self._is_host(address):
                self._texts.add("host", address)
            self._take(self._machine, address)
        provider = str(spec.get("providerID", ""))
        self._take(self._people, provider)
        self._texts.add("secret", provider.rpartition("/")[2])
        reported = str(metadata["name"]) in self._given.reports
        for key, value in labels_of(node).items():
            self._search_key(key, value, owned.of(Kind.LABELS).get(key, ""), reported)
        taints = [(taint_id(one), str(one.get("value") or "")) for one in spec.get("taints") or ()]
        for key, value in (*taints, *owned.taints.items()):
            self._search_key(key.rpartition(":")[0], value, owned.of(Kind.TAINTS).get(key, ""), reported)
        books, mine = bookkeeping(self._given.state.instance), owned.of(Kind.ANNOTATIONS)
        for key, text in annotations.items():
            if key in mine:
                self._search_key(key, text, mine[key], reported)
            elif key not in books and not is_protected(ANNOTATION, namespace_of(key)):
                self._take(self._people, text, key)

    def _search_key(self, key: str, value: str, origin: Origin, reported: bool) -> None:
        """One key of a Node; `origin` is "" if it is not managed. What rules make of a report is searched there."""
        made = str(origin).startswith((RULE_ORIGIN, OBJECT_ORIGIN))
        if not reported:
            self._search_labels({key: value}, {key: CLAIMED} if made or origin in _PEOPLE else {})
        elif not str(origin).startswith(RULE_ORIGIN):
            self._search_labels({key: value}, {})

    def _search_labels(self, labels: Mapping[str, str], origins: Mapping[str, str]) -> None:
        for key, value in labels.items():
            own = namespace_of(key) in ("feature.node.kubernetes.io", "nvidia.com")
            people = not own if not origins else origins.get(key) in _PEOPLE
            self._search_any(value, key, self._people if people else self._machine)
            self._take(self._machine, key.rpartition("/")[2], hosts=False)

    def _search_features(self, features: Features, seen: set[int], people: Identifying) -> None:
        for kind in ("flags", "attributes", "instances"):
            for feature, content in getattr(features, kind).items():
                if id(content) in seen:
                    continue
                seen.add(id(content))
                clean = self._machine if feature.startswith(_MACHINE) else people
                value = sorted(content) if kind == "flags" else content
                self._search_any(value, feature, clean)

    def _search_any(self, value: Any, key: str, clean: Identifying) -> None:
        match value:
            case str():
                key = "version" if key.startswith("kernel.") else key
                self._take(clean, value, key, hosts=not key.startswith("system.osrelease"))
                named = _NAMED_HOST.search(key) or key.startswith("system.name")
                if named and self._is_host(value) and any(map(str.isalpha, value)):
                    self._texts.add("host", value)
            case Mapping():
                for name, one in value.items():
                    self._take(clean, str(name), hosts=False)
                    self._search_any(one, f"{key}.{name}" if key else str(name), clean)
            case list() | tuple():
                for one in value:
                    self._search_any(one, key, clean)

    def _search_written(self, values: Iterable[Any]) -> None:
        """Texts of rules and configurations: only what has an unmistakable form, since they name fields and compare
        words."""
        for text in set(_strings(values)):
            for kind, part in self._machine.parts(text):
                if kind in ("hex", "address", "host", "named"):
                    self._texts.add(kind, part)

    def _take(self, clean: Identifying, text: str, key: str = "", *, hosts: bool = True) -> None:
        searched = (clean, text, key, hosts)
        if searched in self._searched:  # nodes have most of their texts in common
            return
        self._searched.add(searched)
        for kind, part in clean.parts(text, key):
            if kind == "kept":
                self._texts.kept.add(part)
            elif hosts or kind != "host":
                self._texts.add(kind, part)

    def documents(self) -> Anonymized:
        """The documents without what identifies."""
        given = self._given
        known: dict[int, Any] = {}
        rules = {self._texts.text(name): self._rule(item) for name, item in given.rules.items()}
        self._name_rules(rules)
        nodes = [self._node(node) for node in given.nodes]
        reports = [self._report(one, known) for one in given.reports.values()]
        worker = given.worker and replace(given.worker, data=self._any(given.worker.data), lines={}, repeated=())
        namespaces = given.objects.namespaces
        used = {str((item.get("metadata") or {}).get("namespace", "")) for item in given.objects.items}
        found = ClusterDocuments(
            sorted(nodes, key=lambda node: str(node["metadata"]["name"])),
            {report.node: report for report in sorted(reports, key=lambda one: one.node)},
            self._state(given.state),
            rules,
            ObjectDocuments(
                [self._object(item) for item in given.objects.items],
                None
                if namespaces is None
                else {name: self._labels(labels) for name, labels in namespaces.items() if name in used},
                given.objects.doubt and _DOUBT,
            ),
            worker,
            {feature: sorted(elements) for feature, elements in sorted(self._replaced.items())},
        )
        renamed = [name for name in given.rules if self._texts.text(name) != name]
        return Anonymized(found, len(self._texts), renamed)

    def _any(self, value: Any) -> Any:
        match value:
            case str():
                return self._texts.text(value)
            case Mapping():
                return {self._key(str(name)): self._any(one) for name, one in value.items()}
            case list() | tuple():
                return [self._any(one) for one in value]
        return value

    def _key(self, key: str) -> str:
        """The key of a label or a feature's element; its namespace stays."""
        namespace, slash, name = key.rpartition("/")
        return namespace + slash + self._texts.text(name)

    def _labels(self, labels: Mapping[str, str], ruled: Collection[str] = ()) -> dict[str, str]:
        """`ruled` keys have a value that a rule gives, which is not what the key says."""
        return {self._key(key): self._value(key, value, free=key in ruled) for key, value in labels.items()}

    def _value(self, key: str, value: str, *, free: bool = False) -> str:
        fresh = self._texts.text(value)
        named = not free and _is_secret(key) and value.lower() not in WORDS
        return self._texts.alone(value) if named and fresh == value else fresh

    def _rule(self, item: Json) -> Json:
        name = self._texts.text(str(item["metadata"]["name"]))
        head = {key: item[key] for key in ("apiVersion", "kind") if key in item}
        return {**head, "metadata": {"name": name}, "spec": self._any(item.get("spec"))}

    def _object(self, item: Json) -> Json:
        metadata = item.get("metadata") or {}
        name, node = str(metadata.get("name", "")), node_of(metadata)
        labels = {NODE_NAME: self._objects[node]} if node else {}
        head = {"namespace": metadata.get("namespace", ""), "name": self._objects[name], "labels": labels}
        spec = item.get("spec")
        if not isinstance(spec, Mapping):
            return {"metadata": head, "spec": "invalid"}
        rest = {key: self._any(value) for key, value in spec.items() if key != "labels"}
        found: Any = spec.get("labels")
        return {"metadata": head, "spec": {**rest, "labels": self._labels(found) if _are_texts(found) else found}}

    def _node(self, node: Json) -> Json:
        metadata, trimmed, instance = node["metadata"], trim(node), self._given.state.instance
        owned = parse_owned(trimmed.annotations, instance, "", ASSUMED)
        keys = {
            kind: {self._kept(kind, key): self._origin(one) for key, one in owned.of(kind).items()} for kind in Kind
        }
        name = str(metadata["name"])
        ruled = {kind: self._ruled(name, owned.of(kind)) for kind in Kind}
        taints = {
            self._kept(Kind.TAINTS, key): self._value(key.rpartition(":")[0], value, free=key in ruled[Kind.TAINTS])
            for key, value in owned.taints.items()
        }
        boot_id = self._texts.text(owned.boot_id)
        proof = UNPROVEN if owned.doubt else _SIGNED
        records = render_owned(replace(owned, keys=keys, taints=taints, boot_id=boot_id), instance, "", proof)
        books, mine = bookkeeping(instance), owned.of(Kind.ANNOTATIONS)
        others = {
            self._key(key): self._annotation(key, value, mine, ruled[Kind.ANNOTATIONS])
            for key, value in trimmed.annotations.items()
            if key not in books
        }
        labels = self._labels(trimmed.labels, ruled[Kind.LABELS])
        return {
            "metadata": {"name": self._objects[name], "labels": labels, "annotations": others | records},
            "spec": {"taints": [self._taint(one, ruled[Kind.TAINTS]) for one in trimmed.taints]},
            "status": {
                "capacity": {self._key(key): value for key, value in trimmed.resources.items()},
                "nodeInfo": {"bootID": self._texts.text(trimmed.boot_id)},
            },
        }

    def _ruled(self, node: str, owned: Mapping[str, Origin]) -> Collection[str]:
        """Keys with a value that a rule gives, if the plan evaluates rules on the Node."""
        return [key for key, one in owned.items() if str(one).startswith(RULE_ORIGIN) and node in self._evaluated]

    def _taint(self, taint: Mapping[str, str], ruled: Collection[str]) -> dict[str, str]:
        key, free = taint.get("key", ""), taint_id(taint) in ruled
        value = {"value": self._value(key, taint["value"], free=free)} if "value" in taint else {}
        return {"key": self._key(key), "effect": taint.get("effect", ""), **value}

    def _annotation(self, key: str, value: str, mine: Mapping[str, Origin], ruled: Collection[str]) -> str:
        """Annotations that the master never writes keep only their length, which counts."""
        if key not in mine and is_protected(ANNOTATION, namespace_of(key)):
            return "x" * len(value)
        return self._value(key, value, free=key in ruled)

    def _kept(self, kind: Kind, key: str) -> str:
        if kind is not Kind.TAINTS:
            return self._key(key)
        return self._key(key.rpartition(":")[0]) + ":" + key.rpartition(":")[2]

    def _origin(self, origin: Origin) -> Origin:
        if origin is not None and origin.startswith(OBJECT_ORIGIN):
            namespace, slash, name = origin.removeprefix(OBJECT_ORIGIN).partition("/")
            return f"{OBJECT_ORIGIN}{namespace}{slash}{self._objects.get(name) or self._texts.text(name)}"
        if origin is not None and origin.startswith(RULE_ORIGIN):
            return self._rules.get(origin) or self._gone(origin)
        return origin

    def _gone(self, origin: str) -> str:
        """A rule that no longer exists; the end of a long name is a digest of what it was."""
        name, slash, rule = origin.removeprefix(RULE_ORIGIN).partition("/")
        return f"{RULE_ORIGIN}{self._texts.text(name)}{slash}{'deleted' if '~' in rule else self._texts.text(rule)}"

    def _name_rules(self, rules: Rules) -> None:
        """The origins of the same rules, before and after; long names are shortened in them."""
        for before, after in zip(self._given.rules.values(), rules.values(), strict=True):
            with suppress(ValueError):
                pairs = zip(_origins(before), _origins(after), strict=True)
                self._rules.update(pairs)

    def _report(self, report: Report, known: dict[int, Any]) -> Report:
        order = report.order and replace(
            report.order, boot_id=self._texts.text(report.order.boot_id), pod="", issued=0.0
        )
        sources = {name: replace(one, error="", since=0.0) for name, one in report.sources.items()}
        keys = {**report.labels, **report.annotations}
        return Report(
            self._objects[report.node],
            report.version,
            "",
            order,
            self._labels(report.labels),
            self._labels(report.annotations),
            {self._key(key): origin for key, origin in report.origins.items() if key in keys},
            sources,
            self._features(report.features, known),
        )

    def _features(self, features: Features, known: dict[int, Any]) -> Features:
        """Equal contents stay one; `known` keeps the originals alive."""
        parts: dict[str, dict[str, Any]] = {}
        for kind in ("flags", "attributes", "instances"):
            parts[kind] = {}
            for feature, content in getattr(features, kind).items():
                if id(content) not in known:
                    known[id(content)] = content, self._content(feature, content)
                parts[kind][feature] = known[id(content)][1]
        return Features(**parts)

    def _content(self, feature: str, content: Any) -> Any:
        match content:
            case Mapping():
                return self._elements(feature, content)
            case tuple() | list():
                return tuple(self._elements(feature, one) for one in content)
        return frozenset(self._name(feature, name) for name in content)

    def _elements(self, feature: str, elements: Mapping[str, str]) -> dict[str, str]:
        found = {}
        for name, value in elements.items():
            fresh = self._texts.text(value) if feature.startswith("kernel.") else self._value(name, value)
            if fresh != value:
                self._replaced.setdefault(feature, set()).add(name)
            found[self._name(feature, name)] = fresh
        return found

    def _name(self, feature: str, name: str) -> str:
        fresh = self._texts.text(name)
        if fresh != name:
            self._replaced.setdefault(feature, set()).add("*")
        return fresh

    def _state(self, state: MasterState) -> MasterState:
        """What a plan needs of it; what else there is may name nodes."""
        unwritten = tuple(
            replace(
                one,
                key=self._key(one.key),
                by=self._texts.text(one.by),
                reason=self._texts.text(one.reason),
                nodes=tuple(self._objects[name] for name in one.nodes),
            )
            for one in state.unwritten
        )
        fixed = tuple((name, self._any(data), origin) for name, data, origin in state.fixed)
        return MasterState(
            state.policy,
            state.overwrite,
            state.instance,
            state.namespace,
            state.deny_labels,
            state.gate,
            fixed,
            state.namespace_selector,
            self._texts.text(state.node_selector),
            state.publish,
            unwritten,
        )


@cache
def _is_secret(key: str) -> bool:
    """Whether the name of a field says that its value identifies something."""
    return SECRET.search(key) is not None


_TEMPLATE_KEY = re.compile(r"(?m)(?:^|\}\})[ \t]*([a-z0-9][a-z0-9.-]*)/[\w{]")


def _namespaces(value: Any, name: str = "") -> Iterator[str]:
    """The namespaces of keys in a rule: of labels and the like, of taints, and in templates."""
    match value:
        case str() if name == "key":
            yield namespace_of(value)
        case str() if name.endswith("Template"):
            yield from (found[1] for found in _TEMPLATE_KEY.finditer(value))
        case Mapping():
            for key, one in value.items():
                yield namespace_of(str(key))
                yield from _namespaces(one, str(key))
        case list() | tuple():
            for one in value:
                yield from _namespaces(one, name)


def _origins(item: Json) -> list[str]:
    """The origins of the rules of a NodeFeatureRule. Raises: ValueError for one that is invalid."""
    specification(item, "rules")
    return [rule.origin for rule in compile_object(item, Policy()).rules]


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for name, one in value.items():
                yield str(name)
                yield from _strings(one)
        case list() | tuple():
            for one in value:
                yield from _strings(one)


def _are_texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(one, str) for one in value.values())
