"""Planning a whole Node: what holds for every desired state, every Node and every failure."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from nfd.master.node.desired import ALL_FRESH, Desired, Freshness
from nfd.master.node.ownership import CLAIMED, Owned, parse_owned, render_owned
from nfd.master.node.patch import guarded, patches
from nfd.master.node.plan import Goal, NodePlan, plan_node
from nfd.master.node.proof import UNPROVEN, Proof
from nfd.rules.policy import Policy, may_remove, may_write
from nfd.store.base import Kind, Node, trim
from nfd.store.file import merge
from tests.master.places import PROOF

thorough = settings(max_examples=60, deadline=None)

SOURCES = ("cpu", "pci", "local", "nvidia", "rule:o/r", "object:ns/o")
KEYS = {
    Kind.LABELS: (
        "feature.node.kubernetes.io/cpu-a",
        "feature.node.kubernetes.io/x",
        "nvidia.com/gpu.present",
        "v.io/a",
    ),
    Kind.ANNOTATIONS: ("feature.node.kubernetes.io/note", "v.io/note"),
    Kind.RESOURCES: ("v.io/r", "feature.node.kubernetes.io/r"),
    Kind.TAINTS: ("v.io/t:NoSchedule", "v.io/t:NoExecute"),
}
"""What may be wanted."""
THEIRS = {
    Kind.LABELS: (
        "node-restriction.kubernetes.io/tenant",
        "node-role.kubernetes.io/control-plane",
        "topology.kubernetes.io/zone",
        "kubernetes.io/hostname",
        "pool.k8s.io/name",
        "denied.io/a",
        "bare",
    ),
    Kind.ANNOTATIONS: ("volumes.kubernetes.io/attached", "bare"),
    Kind.RESOURCES: ("batch.kubernetes.io/r",),
    Kind.TAINTS: ("node-role.kubernetes.io/control-plane:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"),
}
"""What a list may name besides."""
POLICIES = (
    Policy(enable_taints=True),
    Policy(enable_taints=True, deny_label_ns=frozenset({"denied.io"}), extra_label_ns=frozenset({"pool.k8s.io"})),
)
LASTING, FLEETING, OTHER = PROOF, Proof(b"f" * 32, lasting=False), Proof(b"o" * 32)
TEXT = {kind: st.sampled_from(("1", "2", "1k", "1000")) for kind in Kind}

origins = st.sampled_from((*SOURCES, None))
freshness = st.builds(
    Freshness,
    st.none() | st.fixed_dictionaries({name: st.booleans() for name in SOURCES[:4]}),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


policies = st.sampled_from(POLICIES)
proofs = st.sampled_from((LASTING, FLEETING, UNPROVEN))


def some(
    kind: Kind, values: st.SearchStrategy[str | None], more: tuple[str, ...] = ()
) -> st.SearchStrategy[dict[str, str | None]]:
    return st.dictionaries(st.sampled_from(KEYS[kind] + more), values)


def goal_of(desired: Desired, fresh: Freshness = ALL_FRESH, overwrite: bool = True, proof: Proof = LASTING) -> Goal:
    return Goal(desired, fresh, overwrite, policy=POLICIES[0], proof=proof)


@st.composite
def desired_states(draw: st.DrawFn) -> Desired:
    values = {kind: draw(some(kind, TEXT[kind])) for kind in Kind}
    found = {kind: {key: draw(origins) for key in keys} for kind, keys in values.items()}
    return Desired(values, found, draw(st.sampled_from(("", "boot-1", "boot-2"))))  # type: ignore[arg-type]


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    """A Node with foreign keys, keys of ours, and bookkeeping that may be ours, NFD's or nonsense."""
    actual = {kind: draw(some(kind, TEXT[kind], THEIRS[kind])) for kind in Kind}
    owned = {kind: draw(some(kind, origins, THEIRS[kind])) for kind in Kind}
    signed = draw(st.sampled_from((LASTING, LASTING, FLEETING, OTHER, UNPROVEN)))
    notes = render_owned(Owned(owned, boot_id="boot-1"), "", draw(st.sampled_from(("u", "u", "another"))), signed)
    if draw(st.booleans()):
        notes.pop("nfd.node.kubernetes.io/origins", None)
    if draw(st.booleans()):
        notes["nfd.node.kubernetes.io/origins"] = draw(st.sampled_from(("{", "[]", '{"lists":1,"labels":[]}', "null")))
    return trim(
        {
            "metadata": {
                "name": "n",
                "uid": "u",
                "resourceVersion": "1",
                "labels": actual[Kind.LABELS],
                "annotations": {**actual[Kind.ANNOTATIONS], **notes},
            },
            "spec": {"taints": [taint(key, value) for key, value in actual[Kind.TAINTS].items()]},
            "status": {"capacity": {**actual[Kind.RESOURCES], "cpu": "8"}},
        }
    )


def taint(key: str, value: str | None) -> dict[str, str]:
    name, _, effect = key.rpartition(":")
    return {"key": name, "effect": effect, "value": value or ""}


def applied(planned: NodePlan) -> Node:
    """The Node after the plan's patches, as a server applies them."""
    node = planned.node
    for number, patch in enumerate(patches(planned)):
        patch = guarded(patch, node) if number else patch
        whole = {
            "metadata": {
                "name": node.name,
                "uid": node.uid,
                "resourceVersion": node.version,
                "labels": node.labels,
                "annotations": node.annotations,
            },
            "spec": {"taints": list(node.taints)},
            "status": {"capacity": node.resources},
        }
        body = {key: value for key, value in patch.body.items() if key != ("spec" if patch.subresource else "status")}
        assert body["metadata"]["resourceVersion"] == node.version
        body["metadata"] = {**body["metadata"], "resourceVersion": f"{node.version}1"}
        node = replace(trim(merge(whole, body)), cut=node.cut)
    return node


@thorough
@given(desired_states(), nodes(), freshness, st.booleans(), proofs)
def test_planning_again_after_applying_changes_nothing(
    desired: Desired, node: Node, fresh: Freshness, overwrite: bool, proof: Proof
) -> None:
    goal = goal_of(desired, fresh, overwrite, proof)
    after = applied(plan_node(goal, node))
    assert not plan_node(goal, after)
    assert patches(plan_node(goal, after)) == []


@thorough
@given(desired_states(), nodes(), freshness)
def test_without_overwrite_no_foreign_key_changes(desired: Desired, node: Node, fresh: Freshness) -> None:
    before = parse(node)
    after = applied(plan_node(goal_of(desired, fresh, overwrite=False), node))
    for kind in Kind:
        ours = before.of(kind).keys()
        notes = {key for key in node.annotations if key.startswith("nfd.")}
        foreign = node.actual(kind).keys() - ours - notes
        assert {key: after.actual(kind).get(key) for key in foreign} == {key: node.actual(kind)[key] for key in foreign}


@thorough
@given(desired_states(), nodes(), freshness, st.booleans())
def test_what_was_refused_is_never_owned(desired: Desired, node: Node, fresh: Freshness, overwrite: bool) -> None:
    planned = plan_node(goal_of(desired, fresh, overwrite), node)
    owned = parse(applied(planned))
    for kind, change in planned.changes.items():
        assert not change.refused & owned.of(kind).keys()
        assert not change.refused & change.write.keys()


@thorough
@given(desired_states(), nodes(), freshness)
def test_only_keys_of_fresh_origins_go(desired: Desired, node: Node, fresh: Freshness) -> None:
    before = parse(node)
    for kind, change in plan_node(goal_of(desired, fresh), node).changes.items():
        for key in change.remove:
            assert key in before.of(kind), "only keys of ours"
            assert fresh.proves_absent(before.of(kind)[key])


@thorough
@given(desired_states(), nodes(), freshness, policies, proofs, st.booleans())
def test_what_is_not_proven_goes_only_where_policy_lets_us_write_and_what_is_kubernetes_own_never(
    desired: Desired, node: Node, fresh: Freshness, policy: Policy, proof: Proof, purge: bool
) -> None:
    """Whatever the lists say; and no plan makes of a claim a proof."""
    goal = Goal(Desired() if purge else desired, fresh, purge=purge, policy=policy, proof=proof)
    planned = plan_node(goal, node)
    listed, after = parse_owned(node.annotations, uid="u", proof=proof), applied(planned)
    for kind, change in planned.changes.items():
        for key in change.remove:
            bare = key.rpartition(":")[0] if kind is Kind.TAINTS else key
            assert "kubernetes.io" not in bare or bare.startswith("feature."), "it is Kubernetes' own"
            if listed.of(kind)[key] == CLAIMED:
                assert may_write(kind.one, bare, policy)
                assert bare != "pool.k8s.io/name" or policy is POLICIES[1], "a kubelet may not remove it"
        later = parse_owned(after.annotations, uid="u", proof=proof).of(kind)
        for key in later.keys() - goal.desired.of(kind).keys():
            assert later[key] == CLAIMED or listed.of(kind)[key] != CLAIMED


@thorough
@given(nodes(), policies, proofs)
def test_a_list_without_a_proof_tells_no_origin_no_boot_and_nothing_of_workers(
    node: Node, policy: Policy, proof: Proof
) -> None:
    for tampered in ("u2", "n"):
        owned = parse_owned(node.annotations, uid=tampered, proof=proof)
        assert (owned.boot_id, owned.alone) == ("", False)
        assert {origin for keys in owned.keys.values() for origin in keys.values()} <= {CLAIMED}
        assert bool(owned.doubt) == any(owned.keys.values())
        for kind, keys in owned.keys.items():
            for key in keys:
                bare = key.rpartition(":")[0] if kind is Kind.TAINTS else key
                assert may_remove(kind.one, bare, policy, proven=False) <= may_write(kind.one, bare, policy)


@thorough
@given(desired_states(), nodes(), st.booleans())
def test_when_all_is_fresh_the_wanted_is_there_and_nothing_of_ours_is_left_over(
    desired: Desired, node: Node, overwrite: bool
) -> None:
    planned = plan_node(goal_of(desired, ALL_FRESH, overwrite), node)
    after = applied(planned)
    for kind in Kind:
        wanted = {key: text for key, text in desired.of(kind).items() if key not in planned.changes[kind].refused}
        assert parse(after).of(kind).keys() == wanted.keys()
        assert wanted.keys() <= after.actual(kind).keys()


@thorough
@given(desired_states(), nodes(), freshness)
def test_purge_leaves_foreign_keys_alone_and_no_bookkeeping(desired: Desired, node: Node, fresh: Freshness) -> None:
    labelled = applied(plan_node(goal_of(desired, fresh), node))
    noted = replace(labelled, annotations={**labelled.annotations, "nfd.node.kubernetes.io/worker.version": "1"})
    pruned = applied(plan_node(replace(goal_of(Desired()), purge=True), noted))
    assert not [key for key in pruned.annotations if key.startswith("nfd.")]
    owned = parse(labelled)
    assert pruned.labels == {key: text for key, text in labelled.labels.items() if key not in owned.of(Kind.LABELS)}


@thorough
@given(st.dictionaries(st.sampled_from(KEYS[Kind.LABELS] + ("bare", "feature.node.kubernetes.io/bare")), origins))
def test_ownership_survives_being_written_and_read(keys: dict[str, str | None]) -> None:
    owned = Owned({Kind.LABELS: keys}, boot_id="b")
    assert parse_owned(render_owned(owned, "", "u", LASTING), "", "u", LASTING).of(Kind.LABELS) == keys


def parse(node: Node) -> Owned:
    return parse_owned(node.annotations, uid=node.uid, proof=LASTING)


TAINTS = "nfd.node.kubernetes.io/taints"
desired_without_taints = desired_states().map(
    lambda one: replace(one, values={**one.values, Kind.TAINTS: {}}, origins={**one.origins, Kind.TAINTS: {}})
)


@thorough
@given(desired_states(), desired_without_taints, nodes(), freshness, proofs, st.booleans())
def test_a_master_without_taints_leaves_those_of_another_instance(
    desired: Desired, other: Desired, node: Node, fresh: Freshness, proof: Proof, purge: bool
) -> None:
    """All instances share one list of taints. Whoever wrote it can still remove them."""
    first = goal_of(desired, proof=proof)
    node = applied(plan_node(first, node))
    second = Goal(other, fresh, overwrite=False, instance="two", proof=OTHER, purge=purge)
    after = applied(plan_node(second, node))
    assert (after.taints, after.annotations.get(TAINTS)) == (node.taints, node.annotations.get(TAINTS))
    assert not plan_node(second, after)
    assert parse_owned(after.annotations, "", "u", proof) == parse_owned(node.annotations, "", "u", proof)
    gone = applied(plan_node(replace(first, desired=other), after))
    assert TAINTS not in gone.annotations
    assert not gone.actual(Kind.TAINTS).keys() & desired.of(Kind.TAINTS).keys() - refused_taints(first, node)
    ours = [parse_owned(one.annotations, "two", "u", OTHER) for one in (after, gone)]
    assert ours[0].of(Kind.LABELS) == ours[1].of(Kind.LABELS)
    assert not [one.doubt for one in ours if one.doubt and {kind for kind in Kind if one.of(kind)} != {Kind.TAINTS}]


def refused_taints(goal: Goal, node: Node) -> frozenset[str]:
    """Taints that another writer has set."""
    return plan_node(goal, node).changes[Kind.TAINTS].refused


@thorough
@given(desired_states(), desired_without_taints, nodes())
def test_a_master_that_may_no_longer_set_taints_removes_its_own(desired: Desired, other: Desired, node: Node) -> None:
    goal = goal_of(desired)
    node = applied(plan_node(goal, node))
    own = parse(node).of(Kind.TAINTS).keys()
    after = applied(plan_node(replace(goal, desired=other, policy=Policy()), node))
    assert own == desired.of(Kind.TAINTS).keys() - refused_taints(goal, node)
    assert not own & after.actual(Kind.TAINTS).keys()
    assert (TAINTS in after.annotations) == (TAINTS in node.annotations and not own)
