"""From a source's labels to full, legal, white-listed ones, with a reason for each one changed or dropped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from nfd import names
from nfd.features import Labels, Problem


class Searcher(Protocol):
    """A compiled regular expression."""

    def search(self, text: str, /) -> object: ...


@dataclass(frozen=True, slots=True)
class Naming:
    """How one source's label names become keys; the fields are those of `nfd.source.Source`."""

    source: str
    verbatim: bool = False
    namespaced: bool = False
    cleaned: bool = True
    written: bool = False


@dataclass(slots=True)
class Derived:
    """Legal labels, and what was cleaned or left out; `cleaned` are the keys of those that were changed."""

    labels: dict[str, str] = field(default_factory=dict)
    cleaned: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)


def derive(naming: Naming, labels: Labels, allowed: Searcher | None = None) -> Derived:
    """Name, clean and filter the labels of one source; what is cleaned never takes the place of what was legal.

    An empty text from the machine is not a label value: the label is omitted.
    `allowed` is searched in the part of the key after its first slash; None allows all.
    """
    derived = Derived()
    given = ((name, value) for name, value in labels.items() if value or naming.written)
    made = sorted(((name, *_legal(naming, name, value)) for name, value in given), key=lambda one: bool(one[3]))
    odd = any(reasons for *_, reasons in made)
    legal = {names.full_key(key) for _, key, _, reasons in made if odd and key is not None and not reasons}
    for name, key, text, reasons in made:
        if reasons and key is not None and names.full_key(key) in legal:
            key, reasons = None, [*reasons, f"dropped: {key} is given besides"]
        if key is not None and allowed is not None and not allowed.search(key.partition("/")[2] or key):
            key, reasons = None, ["is not in core.labelWhiteList"]
        derived.problems.extend(Problem(naming.source, name, reason) for reason in reasons)
        if key is not None:
            derived.labels[key] = text
            if reasons:
                derived.cleaned.add(key)
    return derived


def _legal(naming: Naming, name: str, value: str) -> tuple[str | None, str, list[str]]:
    """Key (None: dropped), value and reasons."""
    if naming.namespaced and "/" in name:
        prefix, _, base = name.partition("/")
    elif naming.verbatim:
        prefix, base = "", name
    else:  # a name without a namespace of its own belongs to its source
        prefix, base = names.FEATURE_NS, f"{naming.source}-{name}"
    if not naming.cleaned:
        key = f"{prefix}/{base}" if prefix else name
        wrong = (("dropped:", names.key_problem(key)), ("dropped: value", names.value_problem(value)))
        reasons = [f"{what} {problem}" for what, problem in wrong if problem]
        return (None if reasons else key), value, reasons
    if prefix and (problem := names.subdomain_problem(prefix)):
        return None, value, [f"dropped: prefix {prefix!r} {problem}"]
    clean_base, clean_value = names.clean(base), names.clean(value)
    if not clean_base:
        return None, value, ["dropped: nothing of the name is legal in a label"]
    reasons = []
    if clean_base != base or (naming.namespaced and name.startswith("/")):
        reasons.append(f"name {base if prefix else name!r} became {clean_base!r}")
    if value and not clean_value:
        return None, value, [*reasons, f"dropped: nothing of the value {value!r} is legal in a label"]
    if clean_value != value:
        reasons.append(f"value {value!r} became {clean_value!r}")
    return (f"{prefix}/{clean_base}" if prefix else clean_base), clean_value, reasons
