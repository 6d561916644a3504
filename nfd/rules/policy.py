"""What a node may carry: prefixes, names, values and namespaces of labels, annotations, resources and taints.

The same checks serve what rules ask for and what workers report. Upstream: pkg/nfd-master/nfd-master.go and
pkg/apis/nfd/validate; documents "Security, Labels" and "Configuration reference, denyLabelNs, extraLabelNs".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from nfd.config.section import parse_pattern
from nfd.names import FEATURE_NS, PROFILE_NS, is_below, key_problem, namespace_of, value_problem
from nfd.quantity import quantity_problem
from nfd.rules.model import Taint
from nfd.rules.scalars import parse_integer

MAX_ANNOTATION = 1024
"""Bytes that the value of one annotation may have."""

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_KUBERNETES = "kubernetes.io"
_K8S = "k8s.io"
LABEL, ANNOTATION, EXTENDED_RESOURCE = "label", "annotation", "extendedResource"
_REFERENCE = re.compile(r"@[\w-]+\.[\w-]+\.\S+", re.ASCII)
"""In an annotation, which may have any text: `@team` and `@team see a.b.c` are text."""
_LEGAL = "0"
"""Stands for a value that was not found: legal as a label and as an amount."""

Lookup = Callable[[str, str], str | None]
"""Finds an attribute by feature (`domain.feature`) and element name, exactly as written."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the administrator allows; the defaults are the master's, with taints switched off."""

    extra_label_ns: frozenset[str] = frozenset()
    deny_label_ns: frozenset[str] = frozenset()
    label_whitelist: str = ""
    """A pattern as `parse_pattern` accepts it: the configuration, or what sent the policy, was checked for that."""
    resource_labels: frozenset[str] = frozenset()
    auto_prefix: bool = True
    enable_taints: bool = False
    source_namespaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Namespaces that a worker's source may write labels and annotations in; `*` is for all sources not named."""
    disable_labels: bool = False
    disable_annotations: bool = False
    disable_extended_resources: bool = False

    def disables(self, kind: str) -> bool:
        """Whether the node gets no labels, annotations or extended resources at all."""
        options = {
            LABEL: self.disable_labels,
            ANNOTATION: self.disable_annotations,
            EXTENDED_RESOURCE: self.disable_extended_resources,
        }
        return options[kind]


@dataclass(frozen=True, slots=True)
class Dropped:
    """Something the node will not get: kind (`label`, `annotation`, `extendedResource`, `taint`), key and reason.

    `feature` is the one in which a reference has found nothing, "" if that is not the reason.
    """

    kind: str
    key: str
    reason: str
    feature: str = ""


@dataclass(frozen=True, slots=True)
class Allowed:
    """What passed, and what did not."""

    values: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[Dropped, ...] = ()


def prefix_keys(wanted: Mapping[str, str], policy: Policy) -> dict[str, str]:
    """Put the default namespace before names without one; a name that is written with it wins."""
    if not policy.auto_prefix:
        return dict(wanted)
    prefixed = {key: value for key, value in wanted.items() if "/" in key}
    for key, value in wanted.items():
        if "/" not in key:
            prefixed.setdefault(f"{FEATURE_NS}/{key}", value)
    return prefixed


def origin_of(key: str, values: Mapping[str, str], origins: Mapping[str, str]) -> str | None:
    """The source of a prefixed key of a report; `values` and `origins` are those of the report."""
    return origins.get(key if key in values else key.rpartition("/")[2])


def allow_sources(
    kind: str, values: Mapping[str, str], origins: Mapping[str, str], policy: Policy
) -> tuple[Allowed, dict[str, str | None]]:
    """A report's labels or annotations with prefixes, if their source may write in their namespace; and all origins.

    A source that is missing in the report counts as one that is not named.
    """
    wanted, limits = prefix_keys(values, policy), policy.source_namespaces
    named = {key: origin_of(key, values, origins) for key in wanted}
    dropped: dict[str, Dropped] = {}
    for key, origin in named.items() if limits else ():
        source, namespace = origin or "*", namespace_of(key)
        allowed = limits.get(source, limits.get("*"))
        if allowed is not None and not _names_namespace(allowed, namespace):
            dropped[key] = Dropped(kind, key, f"source {source!r} may not write in namespace {namespace!r}")
            del wanted[key]
    return Allowed(wanted, tuple(dropped.values())), named


def allow_taints(wanted: Iterable[Taint], policy: Policy) -> tuple[tuple[Taint, ...], tuple[Dropped, ...]]:
    """Taints that the node gets; key and effect identify one, the later of two wins."""
    if not policy.enable_taints:
        return (), ()
    kept: dict[tuple[str, str], Taint] = {}
    dropped: list[Dropped] = []
    for taint in wanted:
        problems = [f"{part} {problem}" for part, problem in taint_problems(taint)]
        if problems:
            dropped.append(Dropped("taint", taint.key, "; ".join(problems)))
        else:
            kept[taint.key, taint.effect] = taint
    return tuple(kept.values()), tuple(dropped)


def may_write(kind: str, key: str, policy: Policy) -> bool:
    """Whether the policy lets the master write that key, whatever its value; of a taint it is the key without its
    effect.

    Restrictions such as `disableLabels` do not count: they say what is published, not what is managed.
    """
    if kind == LABEL:
        return _label_key_problem(key, policy) is None
    if kind == "taint" and not (policy.enable_taints and namespace_of(key)):
        return False
    return not (_key_problem(key, policy) or _namespace_problem(key))


def may_remove(kind: str, key: str, policy: Policy, *, proven: bool) -> bool:
    """Whether a key in a Node's list may be removed; `proven`: nfd is known to have written it.

    Keys below kubernetes.io and k8s.io are what a kubelet may not set or remove on its own Node (Kubernetes
    documentation, "NodeRestriction"), while it may write the lists: there policy has to agree in any case.
    """
    namespace = namespace_of(key)
    if proven:
        return not is_protected(kind, namespace) or may_write(kind, key, policy)
    if is_below(namespace, _K8S) and not (kind == LABEL and namespace in policy.extra_label_ns):
        return False
    return may_write(kind, key, policy)


@lru_cache(maxsize=4096)
def is_protected(kind: str, namespace: str) -> bool:
    """Whether it is Kubernetes' own, and not one that NFD manages for that kind."""
    own = (FEATURE_NS, PROFILE_NS) if kind == LABEL else (FEATURE_NS,)
    foreign = is_below(namespace, _KUBERNETES) or is_below(namespace, _K8S)
    return foreign and not any(is_below(namespace, one) for one in own)


def split_resource_labels(labels: Mapping[str, str], policy: Policy) -> Allowed:
    """The labels that `resourceLabels` turns into extended resources, and what failed.

    An option of NFD 0.16 and before. A value that is no integer stays a label.
    """
    names = frozenset(prefix_keys(dict.fromkeys(policy.resource_labels, ""), policy))
    resources = {key: value for key, value in labels.items() if key in names and _is_integer(value)}
    dropped = tuple(
        Dropped(EXTENDED_RESOURCE, key, f"{labels[key]!r} is not a whole number")
        for key in sorted(names & labels.keys() - resources.keys())
    )
    return Allowed(resources, dropped)


def allow(kind: str, wanted: Mapping[str, str], lookup: Lookup, policy: Policy) -> Allowed:
    """The labels, annotations or extended resources that the node gets, references looked up.

    Any other text of an annotation is taken as written, as are amounts.
    """
    kept: dict[str, str] = {}
    if policy.disables(kind):
        return Allowed()
    problem_of = _PROBLEMS[kind]
    dropped: list[Dropped] = []
    for key, text in wanted.items():
        value, unresolved = resolve(text, lookup) if is_reference(kind, text) else (text, None)
        if kind == LABEL and text and not value:
            unresolved = f"reference {text!r}: the attribute is an empty text"
        problem = _joined(problem_of(key, _LEGAL if unresolved else value, policy), unresolved)
        if problem:
            dropped.append(Dropped(kind, key, problem, feature_of(text) if unresolved or not value else ""))
        else:
            kept[key] = value
    return Allowed(kept, tuple(dropped))


def any_attribute(_feature: str, _element: str) -> str:
    """A lookup that takes every reference to lead to a legal value."""
    return _LEGAL


def is_reference(kind: str, text: str) -> bool:
    """Whether a value stands for an attribute. No other value begins with @, but for text in an annotation."""
    return text[:1] == "@" and (kind != ANNOTATION or _REFERENCE.fullmatch(text) is not None)


def refers(*parts: Mapping[str, str]) -> bool:
    """Whether a value in them may stand for an attribute (`@domain.feature.element`)."""
    return any(value[:1] == "@" for part in parts for value in part.values())


def feature_of(text: str) -> str:
    """The feature that a reference names; "" for other text."""
    return ".".join(text[1:].split(".", 2)[:2]) if text[:1] == "@" else ""


def resolve(text: str, lookup: Lookup) -> tuple[str, str | None]:
    """Look up `@domain.feature.element`: its value, or the text itself and why there is none."""
    parts = text[1:].split(".", 2)
    if len(parts) < 3:
        return text, f"reference {text!r} is not of the form @domain.feature.element"
    value = lookup(f"{parts[0]}.{parts[1]}", parts[2])
    if value is None:
        return text, f"reference {text!r}: no such attribute"
    return value, None


def _joined(*problems: str | None) -> str:
    """Everything that is wrong with one item, in one line."""
    return "; ".join(filter(None, problems))


def _label_problem(key: str, value: str, policy: Policy) -> str:
    problem = _checked_value(value)
    return _joined(_label_key_problem(key, policy), problem and f"value {value[:100]!r} {problem}")


def _label_key_problem(key: str, policy: Policy) -> str | None:
    namespace = namespace_of(key)
    if problem := _key_problem(key, policy):
        return problem
    extra = namespace in policy.extra_label_ns
    if namespace and not extra and _is_reserved(namespace, LABEL):
        return f"namespace {namespace!r} is not allowed"
    if policy.deny_label_ns and not extra and _names_namespace(policy.deny_label_ns, namespace):
        return f"namespace {namespace!r} is denied"
    if policy.label_whitelist and not _compiled(policy.label_whitelist).search(key.rpartition("/")[2]):
        return "name does not match labelWhiteList"
    return None


def _annotation_problem(key: str, value: str, policy: Policy) -> str:
    size = len(value.encode("utf-8", "replace"))
    too_large = f"value has {size} bytes, at most {MAX_ANNOTATION} are allowed" if size > MAX_ANNOTATION else None
    return _joined(_key_problem(key, policy) or _namespace_problem(key), too_large)


def _resource_problem(key: str, value: str, policy: Policy) -> str:
    native = namespace_of(key).endswith(_KUBERNETES)  # not `is_below`: the API server tests for `kubernetes.io/`
    problem = quantity_problem(value, fraction_allowed=native)
    return _joined(_key_problem(key, policy) or _namespace_problem(key), problem and f"amount {problem}")


_PROBLEMS: Mapping[str, Callable[[str, str, Policy], str]] = {
    LABEL: _label_problem,
    ANNOTATION: _annotation_problem,
    EXTENDED_RESOURCE: _resource_problem,
}
"""By kind, what is wrong with a key and its value; "" if nothing is."""


def taint_problems(taint: Taint) -> Iterator[tuple[str, str]]:
    """Everything that is wrong with a taint: which part of it, and what about that."""
    if not namespace_of(taint.key):
        yield "key", f"{taint.key!r} has no namespace"
    elif problem := key_problem(taint.key) or _namespace_problem(taint.key):
        yield "key", problem
    if taint.effect not in EFFECTS:
        yield "effect", f"{taint.effect!r} is none of {', '.join(EFFECTS)}"
    if problem := value_problem(taint.value or ""):
        yield "value", problem


_compiled = lru_cache(maxsize=8)(parse_pattern)
"""An administrator's pattern, without the limits for rule authors."""
_checked_key = lru_cache(maxsize=4096)(key_problem)
_checked_value = lru_cache(maxsize=4096)(value_problem)
"""The same keys and values come up on every node."""


def _key_problem(key: str, policy: Policy) -> str | None:
    if problem := _checked_key(key):
        return f"key {problem}"
    return "key has no namespace" if policy.auto_prefix and not namespace_of(key) else None


def _namespace_problem(key: str) -> str | None:
    namespace = namespace_of(key)
    if namespace and _is_reserved(namespace, ANNOTATION):
        return f"namespace {namespace!r} is not allowed"
    return None


def _names_namespace(entries: Iterable[str], namespace: str) -> bool:
    """Whether one of the entries is this namespace, or, with a leading `*`, its end."""
    return any(
        namespace.endswith(entry.lstrip("*")) if entry.startswith("*") else namespace == entry for entry in entries
    )


def _is_reserved(namespace: str, kind: str) -> bool:
    """Whether nfd never writes keys of that kind there; k8s.io is not among them, as in NFD."""
    return is_protected(kind, namespace) and not is_below(namespace, _K8S)


def _is_integer(value: str) -> bool:
    try:
        parse_integer(value)
    except Exception:
        return False
    return True


def taint_values(taints: Iterable[Taint]) -> dict[str, str]:
    """`KEY:EFFECT` → value, the later of two."""
    return {f"{taint.key}:{taint.effect}": taint.value or "" for taint in taints}


def taint_text(key: str, value: str | None, effect: str) -> str:
    """A taint as kubectl writes it: `KEY=VALUE:EFFECT`, or `KEY:EFFECT`."""
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def text_of_taint(taint: Mapping[str, Any]) -> str:
    """The same for a taint as Kubernetes writes it."""
    return taint_text(taint.get("key", ""), taint.get("value"), taint.get("effect", ""))


def as_json(taint: Taint) -> dict[str, Any]:
    """A taint as Kubernetes writes it; an empty value is left out."""
    return {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": taint.effect}
