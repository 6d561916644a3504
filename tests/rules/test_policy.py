"""Which labels, annotations, resources and taints a node may carry."""

from __future__ import annotations

from typing import Any

import pytest

from nfd.config.load import load
from nfd.config.overlay import Layer
from nfd.errors import ConfigError
from nfd.labels import Naming, derive
from nfd.master.config import Config as MasterConfig
from nfd.master.http.reports_api import MasterState, parse_state, render_state
from nfd.quantity import quantity_problem
from nfd.rules import policy as policies
from nfd.rules.model import Taint
from nfd.rules.policy import Policy
from nfd.worker.config import model as worker_model


def nothing(_feature: str, _element: str) -> None:
    return None


def labels(wanted: dict[str, str], **options: Any) -> dict[str, str]:
    policy = Policy(**options)
    return dict(policies.allow(policies.LABEL, policies.prefix_keys(wanted, policy), nothing, policy).values)


def is_allowed(namespace: str, **options: Any) -> bool:
    return bool(labels({f"{namespace}/x": "1"}, **options))


@pytest.mark.parametrize(
    ("namespace", "label", "annotation"),
    [
        ("feature.node.kubernetes.io", True, True),
        ("sub.feature.node.kubernetes.io", True, True),
        ("profile.node.kubernetes.io", True, False),
        ("a.b.profile.node.kubernetes.io", True, False),
        ("kubernetes.io", False, False),
        ("node.kubernetes.io", False, False),
        ("nfd.node.kubernetes.io", False, False),
        ("xfeature.node.kubernetes.io", False, False),
        ("k8s.io", True, True),
        ("mykubernetes.io", True, True),
        ("nvidia.com", True, True),
        ("amd.com", True, True),
        ("beta.amd.com", True, True),
        ("gpu.intel.com", True, True),
        ("intel.feature.node.kubernetes.io", True, True),
        ("rebellions.ai", True, True),
        ("UPPER.io", False, False),
        ("", False, False),
    ],
)
def test_namespaces(namespace: str, label: bool, annotation: bool) -> None:
    key = f"{namespace}/x"
    policy = Policy(enable_taints=True)
    assert is_allowed(namespace) == label
    assert bool(policies.allow(policies.ANNOTATION, {key: "1"}, nothing, policy).values) == annotation
    assert bool(policies.allow(policies.EXTENDED_RESOURCE, {key: "1"}, nothing, policy).values) == annotation
    assert bool(policies.allow_taints([Taint(key=key, effect="NoExecute")], policy)[0]) == annotation


@pytest.mark.parametrize(
    ("entry", "exact", "below", "alike"),
    [("vendor.io", False, True, True), ("*.vendor.io", True, False, True), ("*vendor.io", False, False, False)],
)
def test_denied_namespaces(entry: str, exact: bool, below: bool, alike: bool) -> None:
    denied = frozenset((entry,))
    found = [is_allowed(name, deny_label_ns=denied) for name in ("vendor.io", "sub.vendor.io", "myvendor.io")]
    assert found == [exact, below, alike]


def test_a_star_denies_everything_but_extra_namespaces() -> None:
    options = {"deny_label_ns": frozenset("*"), "extra_label_ns": frozenset(("vendor.io", "node.kubernetes.io"))}
    wanted = {"plain": "1", "vendor.io/a": "1", "sub.vendor.io/a": "1", "node.kubernetes.io/a": "1"}
    allowed = {"vendor.io/a": "1", "node.kubernetes.io/a": "1"}
    assert labels(wanted, **options) == labels(wanted, auto_prefix=False, **options) == allowed


def test_values_in_extra_namespaces_are_checked_too() -> None:
    assert labels({"vendor.io/a": "not legal"}, extra_label_ns=frozenset(("vendor.io",))) == {}


def test_white_list_is_searched_in_the_name() -> None:
    wanted = {"abc": "1", "vendor.io/xb": "1", "vendor.io/c": "1", "b.io/c": "1"}
    assert set(labels(wanted, label_whitelist="b")) == {"feature.node.kubernetes.io/abc", "vendor.io/xb"}


NAMES = {"name-2999": "1", "x": "1", "a_b": "1"}
ACCEPTED = [
    ("^(" + "|".join(f"name-{number:04}" for number in range(10_000)) + ")$", {"name-2999"}),
    (r"^([^/]{1,63}/)?(\pL|\pN|[-_.]){1,253}$", {*NAMES}),
    (r"\pN" + r"\pL?" * 300, {"name-2999"}),
    ("_" + "(y{1,2})?" * 2500, {"a_b"}),
    (r"\Q\C", set()),
    ("", {*NAMES}),
]
REFUSED = [r"^(cpu|pci)\C", "(" * 9 + "a{9}" + "){9}" * 9, "a" * 3_000_000, "(", "a{1001}", "\udc80", r"(?=x)"]


@pytest.mark.parametrize(("pattern", "names"), ACCEPTED, ids=lambda value: repr(value)[:20])
def test_an_accepted_white_list_works(pattern: str, names: set[str]) -> None:
    """The limits for the patterns of rule authors do not apply to it."""
    policy = load(MasterConfig, [Layer("f", {"labelWhiteList": pattern})]).config.policy()
    kept = policies.allow(policies.LABEL, policies.prefix_keys(NAMES, policy), nothing, policy).values
    assert {key.rpartition("/")[2] for key in kept} == names
    allowed = load(worker_model(), [Layer("f", {"core": {"labelWhiteList": pattern}})]).config.core.label_white_list
    keys = derive(Naming("local", verbatim=True), NAMES, allowed).labels
    assert {key.rpartition("/")[2] for key in keys} == names


@pytest.mark.parametrize("pattern", REFUSED, ids=lambda value: repr(value)[:20])
def test_other_white_lists_are_refused_at_load(pattern: str) -> None:
    """With an error that names file and key, and also where a policy comes from a master or a snapshot."""
    for model, values, key in (
        (MasterConfig, {"labelWhiteList": pattern}, "labelWhiteList"),
        (worker_model(), {"core": {"labelWhiteList": pattern}}, "core.labelWhiteList"),
    ):
        with pytest.raises(ConfigError, match=rf"^f: {key}: .{{1,450}}$"):
            load(model, [Layer("f", values)])
    state = render_state(MasterState(Policy(label_whitelist=pattern)))
    with pytest.raises(ValueError, match=r"label_whitelist: .{1,450}$"):
        parse_state(state)


def test_written_prefix_beats_the_added_one() -> None:
    written = {"feature.node.kubernetes.io/a": "1", "a": "2", "b": "3"}
    assert labels(written) == {"feature.node.kubernetes.io/a": "1", "feature.node.kubernetes.io/b": "3"}
    assert labels(dict(reversed(written.items()))) == labels(written)


def test_without_automatic_prefix_names_stay() -> None:
    assert labels({"a": "1", "b": "-bad"}, auto_prefix=False) == {"a": "1"}


@pytest.mark.parametrize("key", ["", ".", "..", "/", "a/", "/a", "a/b/c", "-a", "a b", "x" * 64, "é", "\udc80", "a\n"])
def test_odd_names_are_dropped(key: str) -> None:
    policy = Policy()
    given = policies.allow(policies.LABEL, policies.prefix_keys({key: "1"}, policy), nothing, policy)
    assert not given.values
    assert len(given.dropped) == 1


def test_references() -> None:
    attributes = {("a.b", "c.d"): "found", ("a.b", "twice"): "@a.b.c", ("a.b", "bad"): "not legal"}
    wanted = {
        f"v.io/{index}": text
        for index, text in enumerate(("@a.b.c.d", "@a.b", "@", "@a.b.x", "@a.b.twice", "@a.b.bad"))
    }
    given = policies.allow(
        policies.LABEL, wanted, lambda feature, element: attributes.get((feature, element)), Policy()
    )
    assert given.values == {"v.io/0": "found"}
    assert len(given.dropped) == 5


def test_annotations() -> None:
    policy = Policy()
    attributes = {("a.b", "c"): "found: (any text)", ("a.b", "long"): "x" * 1025, ("a.b", "twice"): "@a.b.c"}
    wanted = {
        "v.io/full": "x" * 1024, "v.io/fuller": "x" * 1025, "v.io/wide": "é" * 513,
        "v.io/ref": "@a.b.c", "v.io/dangling": "@a.b.x", "v.io/long": "@a.b.long", "v.io/twice": "@a.b.twice",
        "v.io/team": "@team", "v.io/mail": "@team see a.b.c", "v.io/at": "@",
    }  # fmt: skip
    given = policies.allow(
        policies.ANNOTATION, wanted, lambda feature, element: attributes.get((feature, element)), policy
    )
    assert given.values == {
        "v.io/full": "x" * 1024, "v.io/ref": "found: (any text)", "v.io/twice": "@a.b.c",
        "v.io/team": "@team", "v.io/mail": "@team see a.b.c", "v.io/at": "@",
    }  # fmt: skip
    assert {one.key: one.reason.partition(",")[0] for one in given.dropped} == {
        "v.io/fuller": "value has 1025 bytes", "v.io/wide": "value has 1026 bytes", "v.io/long": "value has 1025 bytes",
        "v.io/dangling": "reference '@a.b.x': no such attribute",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["10", "10Gi", "1e3", "007", "+5", "5.", "0", "-0", "1k", "1000m", "0.001M", "1E", "1E3", "2e0", "1.5Ki", "0.0"],
)
def test_whole_amounts(text: str) -> None:
    assert quantity_problem(text, fraction_allowed=False) is None


@pytest.mark.parametrize("text", ["1.5", "100m", "1n", "0.1", "1e-3", "1e-400", "1e-999999999999999", "0.3Ki"])
def test_fractions(text: str) -> None:
    assert quantity_problem(text, fraction_allowed=False)


@pytest.mark.parametrize(
    "text",
    ["", ".", "+", "-", "Ki", " 1", "1 ", "0x1", "1_0", "1e3Ki", "1ki", "1K", "-1", "-0.1", "1e", "x", "1" * 999, "１",
     "1e99999999999999999999"],
)  # fmt: skip
def test_no_amounts(text: str) -> None:
    assert quantity_problem(text, fraction_allowed=True)


def test_fractions_are_for_kubernetes_names() -> None:
    policy = Policy()
    wanted = policies.prefix_keys({"half": "1.5", "vendor.io/half": "1.5", "a.mykubernetes.io/half": "1.5"}, policy)
    allowed = policies.allow(policies.EXTENDED_RESOURCE, wanted, nothing, policy)
    assert set(allowed.values) == {"feature.node.kubernetes.io/half", "a.mykubernetes.io/half"}


def test_taints() -> None:
    wanted = [
        Taint(key="v.io/a", effect="NoSchedule", value="1"),
        Taint(key="v.io/a", effect="NoExecute", value="1"),
        Taint(key="v.io/a", effect="NoSchedule", value="2"),
        Taint(key="v.io/b", effect="noschedule"),
        Taint(key="v.io/c", effect=""),
        Taint(key="plain", effect="NoSchedule"),
        Taint(key="v.io/d", effect="PreferNoSchedule", value="not legal"),
    ]
    kept, dropped = policies.allow_taints(wanted, Policy(enable_taints=True))
    assert [(taint.key, taint.effect, taint.value) for taint in kept] == [
        ("v.io/a", "NoSchedule", "2"),
        ("v.io/a", "NoExecute", "1"),
    ]
    assert [one.key for one in dropped] == ["v.io/b", "v.io/c", "plain", "v.io/d"]
    assert policies.allow_taints(wanted, Policy()) == ((), ())


def test_resource_labels() -> None:
    policy = Policy(resource_labels=frozenset(("n", "v.io/m", "v.io/word")))
    given = {"feature.node.kubernetes.io/n": "3", "v.io/m": "4", "v.io/word": "many", "v.io/other": "5"}
    outcome = policies.split_resource_labels(given, policy)
    assert outcome.values == {"feature.node.kubernetes.io/n": "3", "v.io/m": "4"}
    assert [one.key for one in outcome.dropped] == ["v.io/word"]


def test_restrictions() -> None:
    policy = Policy(disable_labels=True, disable_annotations=True, disable_extended_resources=True)
    assert not policies.allow(policies.LABEL, {"v.io/a": "1"}, nothing, policy).values
    assert not policies.allow(policies.ANNOTATION, {"v.io/a": "1"}, nothing, policy).values
    assert not policies.allow(policies.EXTENDED_RESOURCE, {"v.io/a": "1"}, nothing, policy).values
