"""Random expressions and labels, and Kubernetes' rules for node selectors written down once more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import strategies as st

from nfd.fleet.affinity import Selector
from nfd.fleet.query import Term

KEYS = ("nvidia.com/gpu.memory", "nvidia.com/gpu.product", "cpu-cpuid.AVX512F", "/zone")
FULL = dict(
    zip(
        KEYS,
        ("nvidia.com/gpu.memory", "nvidia.com/gpu.product", f"feature.node.kubernetes.io/{KEYS[2]}", "zone"),
        strict=True,
    )
)
VALUES = ("true", "40960", "81559", "7", "007", "0", "5.15", "6.8.0-45-generic", "Tesla-T4", "", "99999999999999999999")
PATTERNS = ("^T", "4", "e.l", "^$", "[0-9]+$")

labels = st.dictionaries(st.sampled_from(list(FULL.values())), st.sampled_from(VALUES))
_quoted = st.sampled_from(VALUES).map(lambda value: f'"{value}"')


def parse_terms(terms: Iterable[Mapping[str, Any]]) -> Selector:
    """`nodeSelectorTerms` as YAML has them; `matchFields` are not for labels and left out."""
    found = []
    for term in terms:
        asked = term.get("matchExpressions") or ()
        found.append(tuple(Term(one["key"], one["operator"], tuple(one.get("values") or ())) for one in asked))
    return Selector(tuple(found))


@st.composite
def _conditions(draw: st.DrawFn) -> str:
    key = draw(st.sampled_from(KEYS))
    kind = draw(st.sampled_from(["exists", "equal", "order", "in", "match", "version"]))
    if kind == "exists":
        return key + draw(st.sampled_from(["", " exists"]))
    if kind == "equal":
        return f"{key} {draw(st.sampled_from(['=', '==', '!=']))} {draw(_quoted)}"
    if kind == "in":
        values = draw(st.lists(_quoted, min_size=1, max_size=3))
        return f"{key} {draw(st.sampled_from(['in', 'not in']))} ({', '.join(values)})"
    if kind == "match":
        return f"{key} {draw(st.sampled_from(['=~', '!~']))} '{draw(st.sampled_from(PATTERNS))}'"
    sign = draw(st.sampled_from(["<", "<=", ">", ">="]))
    numbers = ["0", "7", "40960", "-3", str(2**63 - 1), "81558"] if kind == "order" else ["5.15", "6.8", "0.0"]
    return f"{key} {sign} {draw(st.sampled_from(numbers))}"


def _joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(parts, st.sampled_from(["and", "or"]), parts).map(lambda three: f"({' '.join(three)})")
    return pairs | parts.map(lambda part: f"not {part}")


expressions = st.recursive(_conditions(), _joined, max_leaves=6)


def kubernetes_selects(terms: list[Mapping[str, Any]], node: Mapping[str, str]) -> bool:
    """API reference, "NodeSelector", "NodeSelectorTerm" and "NodeSelectorRequirement"."""
    return any(
        bool(term.get("matchExpressions")) and all(_fulfilled(one, node) for one in term["matchExpressions"])
        for term in terms
    )


def _fulfilled(one: Mapping[str, Any], node: Mapping[str, str]) -> bool:
    key, operator, values = one["key"], one["operator"], one.get("values") or []
    if operator == "In":
        return key in node and node[key] in values
    if operator == "NotIn":
        return key not in node or node[key] not in values
    if operator == "Exists":
        return key in node
    if operator == "DoesNotExist":
        return key not in node
    assert operator in ("Gt", "Lt")
    assert len(values) == 1
    if not node.get(key, "").isdecimal() or int(node[key]) >= 2**63:
        return False
    return int(node[key]) > int(values[0]) if operator == "Gt" else int(node[key]) < int(values[0])
