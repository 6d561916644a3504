"""What admission refuses holds up that alone, is named, and comes as soon as it may: on a real API server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from nfd.master.node.desired import Contribution
from nfd.master.node.known_rejections import NODES, RETRY
from nfd.master.node.ownership import parse_owned
from nfd.master.node.writer import PATCHES
from nfd.master.service import Service
from nfd.rules.model import Taint
from nfd.rules.policy import Policy
from nfd.runtime.prometheus import render
from nfd.store.base import Kind, trim
from tests.controlplane.cluster import ControlPlane
from tests.master.admission import Admission, Hook, webhook
from tests.master.conftest import BOOT, Masters, Worker, asking, send
from tests.master.places import Cluster, labels_of, until

F, V, N = "feature.node.kubernetes.io/", "vendor.io/", "nfd.node.kubernetes.io/"
TAINTS = Policy(enable_taints=True)
BAD = F + "cpu-m40"
LABELS = {F + f"cpu-m{number:02d}": str(number) for number in range(80)}
RULE = Contribution(
    "rule:o/r",
    labels={V + "a": "1", V + "b": "2", V + "c": "3", "other.io/x": "1"},
    annotations={V + "note": "text", V + "more": "text"},
    extended_resources={V + "slots": "5", V + "units": "6"},
    taints=(Taint(key=V + "t", value="v", effect="NoSchedule"), Taint(key=V + "u", effect="PreferNoSchedule")),
)
REFUSED, NO_LONGER = "keys are rejected; the others were written", "key is no longer rejected"
_numbers = count(1)


@pytest.fixture
def place(control_plane: ControlPlane) -> Cluster:
    return Cluster(control_plane)


@pytest.fixture
async def admission(control_plane: ControlPlane) -> AsyncIterator[Admission]:
    found = Admission(control_plane, f"adm{next(_numbers)}-")
    found.set_up()
    yield found
    found.clear()


@pytest.fixture
def hook(tmp_path: Path) -> Iterator[Hook]:
    with webhook(tmp_path) as found:
        yield found


@dataclass(frozen=True)
class Row:
    """A policy that refuses `change`, and the keys by kind that Nodes are without while it is there."""

    expression: str
    change: dict[str, Any]
    without: Mapping[Kind, frozenset[str]] = field(default_factory=dict)
    reason: str = "Invalid"
    message: str = "not here"
    patches: int = PATCHES


def no_label(*keys: str) -> str:
    tests = " && ".join(f"!('{key}' in object.metadata.labels)" for key in keys)
    return f"!has(object.metadata.labels) || ({tests})"


def labels(*keys: str, value: str = "1") -> dict[str, Any]:
    return {"metadata": {"labels": dict.fromkeys(keys, value)}}


def notes(key: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {key: "x"}}}


def no_note(key: str) -> str:
    return f"!has(object.metadata.annotations) || !('{key}' in object.metadata.annotations)"


def only(kind: Kind, *keys: str) -> dict[Kind, frozenset[str]]:
    return {kind: frozenset(keys)}


NAMED = f"label {BAD} is not for you"
VENDOR = (V + "a", V + "b", V + "c")
ROWS = {
    "a label, 422, named": Row(no_label(BAD), labels(BAD), only(Kind.LABELS, BAD), message=NAMED, patches=3),
    "a label, 422, in the expression": Row(no_label(BAD), labels(BAD), only(Kind.LABELS, BAD), message="", patches=3),
    "a label, 403, named": Row(no_label(BAD), labels(BAD), only(Kind.LABELS, BAD), "Forbidden", NAMED, 3),
    "a label, 413, unnamed": Row(no_label(BAD), labels(BAD), only(Kind.LABELS, BAD), "RequestEntityTooLarge"),
    "a label, 403, unnamed": Row(no_label(BAD), labels(BAD), only(Kind.LABELS, BAD), "Forbidden"),
    "the first label, unnamed": Row(no_label(F + "cpu-m00"), labels(F + "cpu-m00"), only(Kind.LABELS, F + "cpu-m00")),
    "the last label, unnamed": Row(no_label(V + "c"), labels(V + "c"), only(Kind.LABELS, V + "c")),
    "the answer names what is allowed": Row(
        no_label(V + "c"), labels(V + "c"), only(Kind.LABELS, V + "c"), message=f"only {F} may be written by nfd"
    ),
    "a value": Row(
        f"{no_label(BAD)} || object.metadata.labels['{BAD}'] != '40'",
        labels(BAD, value="40"),
        only(Kind.LABELS, BAD),
    ),
    "a namespace, in the expression": Row(
        f"!has(object.metadata.labels) || !object.metadata.labels.exists(k, k.startsWith('{V}'))",
        labels(*VENDOR),
        only(Kind.LABELS, *VENDOR),
        message="",
    ),
    "an annotation": Row(no_note(V + "note"), notes(V + "note"), only(Kind.ANNOTATIONS, V + "note")),
    "a resource": Row(
        f"!has(object.status.capacity) || !('{V}slots' in object.status.capacity)",
        {"status": {"capacity": {V + "slots": "5"}}},
        only(Kind.RESOURCES, V + "slots"),
    ),
    "a taint": Row(
        f"!has(object.spec.taints) || object.spec.taints.all(t, t.key != '{V}t')",
        {"spec": {"taints": [{"key": V + "t", "effect": "NoSchedule"}]}},
        only(Kind.TAINTS, V + "t:NoSchedule"),
    ),
    "our record of origins": Row(no_note(N + "origins"), notes(N + "origins"), only(Kind.ANNOTATIONS, N + "origins")),
    "our list of labels": Row(
        no_note(N + "feature-labels"), notes(N + "feature-labels"), only(Kind.ANNOTATIONS, N + "feature-labels")
    ),
    "our list of taints": Row(
        no_note(N + "taints"),
        notes(N + "taints"),
        only(Kind.ANNOTATIONS, N + "taints") | only(Kind.TAINTS, V + "t:NoSchedule", V + "u:PreferNoSchedule"),
        message=f"no {N}taints",
    ),
}


@dataclass
class Site:
    """A master, and nodes that want everything."""

    place: Cluster
    master: Service
    names: list[str]
    workers: dict[str, Worker] = field(default_factory=dict)

    async def report(self) -> None:
        for name in self.names:
            self.workers.setdefault(name, Worker(name))
        await asyncio.gather(*(send(self.master, self.workers[name].report(LABELS)) for name in self.names))

    def missing(self, name: str) -> dict[Kind, frozenset[str]]:
        """What a Node is without, by kind; our lists name what is there, and taints while they are being written."""
        node = trim(self.place.get(name))
        wanted = {
            Kind.LABELS: {*LABELS, *RULE.labels},
            Kind.ANNOTATIONS: {*RULE.annotations, N + "origins", *(N + one for one in LISTS)},
            Kind.RESOURCES: {*RULE.extended_resources},
            Kind.TAINTS: {V + "t:NoSchedule", V + "u:PreferNoSchedule"},
        }
        owned = parse_owned(node.annotations)
        for kind, keys in wanted.items():
            there = {key for key in keys if key in node.actual(kind) and not key.startswith(N)}
            busy = kind is Kind.TAINTS and self.master.queue.is_busy(name)
            assert owned.of(kind).keys() in (there, set()) or busy, kind
        return {kind: lost for kind, keys in wanted.items() if (lost := frozenset(keys - node.actual(kind).keys()))}


LISTS = ("feature-labels", "feature-annotations", "extended-resources", "taints")


async def site(masters: Masters, place: Cluster, prefix: str, nodes: int, rules: bool = True) -> Site:
    names = [f"{prefix}n{number:03d}" for number in range(nodes)]
    for name in names:
        place.create(name, {}, {}, BOOT)
    wanted = [RULE] if rules else []
    return Site(place, await masters.start(policy=TAINTS, evaluate=asking(wanted, TAINTS)), names)


@pytest.mark.parametrize("case", ROWS)
async def test_what_is_refused_holds_up_nothing_else(
    place: Cluster, masters: Masters, admission: Admission, case: str
) -> None:
    """Within two seconds all the rest is there; when the policy is gone, so is what it refused."""
    row = ROWS[case]
    await admission.forbid("rule", row.expression, row.change, row.reason, row.message)
    here = await site(masters, place, admission.prefix, 1)
    (name,) = here.names
    began = time.monotonic()
    await here.report()
    took, patches = time.monotonic() - began, here.master.metrics["node_patches"]
    assert here.missing(name) == row.without
    assert patches <= row.patches
    assert took < 2
    await admission.allow("rule", row.change)
    gone = time.monotonic()
    await until(lambda: not here.missing(name), 3 * RETRY)
    print(f"{case}: the rest after {took:.2f} s and {patches} patches; all after {time.monotonic() - gone:.1f} s")
    await until(lambda: not here.master.unwritten())


async def test_labels_that_are_there_stay_ours_whatever_is_refused(
    place: Cluster, masters: Masters, admission: Admission
) -> None:
    """Neither a new value nor a removal that is refused takes a key away, from the Node or from our list."""
    here = await site(masters, place, admission.prefix, 1, rules=False)
    (name,) = here.names
    await here.report()
    one, other = F + "cpu-m00", F + "cpu-m01"
    expression = f"object.metadata.labels['{one}'] == '0' && '{other}' in object.metadata.labels"
    place.create(probe := f"{admission.prefix}like", {one: "0", other: "1"}, {}, BOOT)
    place.delete(admission.probe)
    place.create(admission.probe, {one: "0", other: "1"}, {}, BOOT)
    place.delete(probe)
    await admission.forbid("keep", expression, labels(one, value="2"), message="keep it")
    wanted = {key: value for key, value in LABELS.items() if key != other} | {one: "new", F + "cpu-z": "1"}
    await send(here.master, here.workers[name].report(wanted))
    assert labels_of(place, name) == {**wanted, one: "0", other: "1"}
    owned = parse_owned(place.get(name)["metadata"]["annotations"]).of(Kind.LABELS)
    assert owned.keys() == labels_of(place, name).keys()
    assert {(found.key, found.removal) for found in here.master.unwritten()} == {(one, False), (other, True)}
    await admission.allow("keep", labels(one, value="2"))
    await until(lambda: labels_of(place, name) == wanted, 3 * RETRY)


async def test_three_nodes_are_enough_and_a_canary_sets_all_free(
    place: Cluster, masters: Masters, admission: Admission, caplog: pytest.LogCaptureFixture
) -> None:
    """200 nodes: all other labels within two seconds, and the missing one within ten of the policy's end."""
    caplog.set_level("INFO")
    here = await site(masters, place, admission.prefix, 200, rules=False)
    await admission.forbid("fleet", no_label(BAD), labels(BAD), message="no reason")
    began = time.monotonic()
    await here.report()
    took, patches = time.monotonic() - began, here.master.metrics["node_patches"]
    rest = {key: value for key, value in LABELS.items() if key != BAD}
    assert all(labels_of(place, name) == rest for name in here.names)
    (lost,) = here.master.unwritten()
    assert (lost.key, lost.by, len(lost.nodes)) == (BAD, f"ValidatingAdmissionPolicy {admission.prefix}fleet", 200)
    shown = render(here.master.metrics.families(), openmetrics=False)
    assert f'nfd_master_unwritten_keys{{kind="label",key="{BAD}",by="{lost.by}"}} 200' in shown
    told = [record.fields for record in caplog.records if record.message == REFUSED]  # type: ignore[attr-defined]
    assert len(told) <= NODES
    assert {(*one["keys"], one["policy"]) for one in told} == {(BAD, lost.by)}
    assert patches <= 200 + 10 * PATCHES, "the ten at work find it for themselves, the others are told"
    before = here.master.metrics["node_patches"]
    await asyncio.sleep(2 * RETRY)
    tried = here.master.metrics["node_patches"] - before
    assert tried <= 4, "one canary every four seconds"
    await admission.allow("fleet", labels(BAD))
    gone = time.monotonic()
    await until(lambda: NO_LONGER in caplog.messages)
    canary = time.monotonic() - gone
    await until(lambda: here.master.metrics["node_patches"] - before - tried >= 200)
    everyone = time.monotonic() - gone
    await until(lambda: all(labels_of(place, name) == LABELS for name in here.names))
    total = here.master.metrics["node_patches"] - before - tried
    print(
        f"200 nodes: the rest after {took:.1f} s and {patches} patches; {tried} tries in {2 * RETRY:.0f} s; "
        f"the canary after {canary:.1f} s, all nodes after {everyone:.1f} s and {total} patches"
    )
    assert canary < 5
    assert everyone < 10
    assert total <= 205


async def test_a_policy_about_some_nodes_holds_up_no_others(
    place: Cluster, masters: Masters, admission: Admission
) -> None:
    """More than three nodes are refused a label, and one after another tries: the others have it soon."""
    here = await site(masters, place, admission.prefix, 12, rules=False)
    some = " || ".join(f"object.metadata.name.endsWith('{number:03d}')" for number in range(5))
    expression = f"({no_label(BAD)}) || !({some} || object.metadata.name.endsWith('probe'))"
    await admission.forbid("some", expression, labels(BAD), message="not these")
    began = time.monotonic()
    await here.report()
    rest = {key: value for key, value in LABELS.items() if key != BAD}
    await until(lambda: all(labels_of(place, name) == LABELS for name in here.names[5:]), 2.5 * RETRY)
    print(f"a policy about 5 of 12 nodes: the others have all after {time.monotonic() - began:.1f} s")
    assert all(labels_of(place, name) == rest for name in here.names[:5])
    await asyncio.sleep(2 * RETRY)
    patches = here.master.metrics["node_patches"]
    await asyncio.sleep(2 * RETRY)
    print(f"then {here.master.metrics['node_patches'] - patches} patches in {2 * RETRY:.0f} s")
    assert here.master.metrics["node_patches"] - patches <= 3
    await admission.allow("some", labels(BAD))
    await until(lambda: all(labels_of(place, name) == LABELS for name in here.names), 2.5 * RETRY)


async def test_a_policy_that_refuses_everything_is_asked_seldom(
    place: Cluster, masters: Masters, admission: Admission, caplog: pytest.LogCaptureFixture
) -> None:
    here = await site(masters, place, admission.prefix, 20)
    await admission.forbid("all", "false", labels("any.io/x"))
    await here.report()
    patches = here.master.metrics["node_patches"]
    assert patches <= 3 * 20
    for _ in range(3):
        for name in here.names:
            here.master.queue.add(name)
        await here.master.queue.idle()
    await asyncio.sleep(RETRY)
    assert here.master.metrics["node_patches"] - patches <= 4
    (lost,) = here.master.unwritten()
    assert (lost.what(), len(lost.nodes)) == ("every change of the Node", 20)
    assert caplog.messages.count("every change of the node is rejected") <= NODES
    await admission.allow("all", labels("any.io/x"))
    gone = time.monotonic()
    await until(lambda: not here.master.unwritten() and not len(here.master.queue), 10)
    await here.master.queue.idle()
    assert not any(here.missing(name) for name in here.names)
    print(f"everything refused: {patches} patches for 20 nodes; all is there {time.monotonic() - gone:.1f} s after it")


async def test_two_policies_at_once(place: Cluster, masters: Masters, admission: Admission) -> None:
    """Neither names a key, and each is about one: both are found, and what is in doubt meanwhile comes soon."""
    here = await site(masters, place, admission.prefix, 1)
    (name,) = here.names
    for policy, key in (("one", F + "cpu-m20"), ("two", F + "cpu-m60")):
        await admission.forbid(policy, no_label(key), labels(key), message="no")
    await here.report()
    assert here.master.metrics["node_patches"] <= PATCHES
    lost = {Kind.LABELS: frozenset((F + "cpu-m20", F + "cpu-m60"))}
    began = time.monotonic()
    await until(lambda: here.missing(name) == lost)
    print(f"two policies: only two labels are missing after {time.monotonic() - began:.1f} s more")
    assert time.monotonic() - began < 2 * RETRY
    await admission.allow("one", labels(F + "cpu-m20"))
    await until(lambda: here.missing(name) == only(Kind.LABELS, F + "cpu-m60"), 3 * RETRY)


async def test_a_change_of_the_node_is_tried_at_once_and_a_kubelets_status_is_not(
    place: Cluster, masters: Masters, admission: Admission
) -> None:
    """The policy asks for another label, a taint, an annotation or a spec; the next try is not the canary's."""
    here = await site(masters, place, admission.prefix, 1, rules=False)
    (name,) = here.names
    free = (
        "('team' in object.metadata.labels) || (has(object.spec.unschedulable) && object.spec.unschedulable)"
        " || (has(object.metadata.annotations) && 'team' in object.metadata.annotations)"
    )
    await admission.forbid("team", f"({no_label(BAD)}) || {free}", labels(BAD), message="no team")
    for change, back in (
        (labels("team"), {"metadata": {"labels": {"team": None}}}),
        ({"spec": {"unschedulable": True}}, {"spec": {"unschedulable": None}}),
        ({"metadata": {"annotations": {"team": "1"}}}, {"metadata": {"annotations": {"team": None}}}),
    ):
        await here.report()
        assert here.missing(name)[Kind.LABELS] >= {BAD}
        patches = here.master.metrics["node_patches"]
        status = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": f"again-{patches}"}]}}
        place.edit(name, status, "status")
        await asyncio.sleep(0.3)
        assert here.master.metrics["node_patches"] == patches, "a status says nothing"
        began = time.monotonic()
        place.edit(name, change)
        await until(lambda: BAD in labels_of(place, name))
        assert time.monotonic() - began < RETRY / 2
        await asyncio.sleep(1.0)
        place.edit(name, {"metadata": {"labels": {BAD: None}}} | back if "spec" in back else merged(back))
        await until(lambda: not here.master.queue.is_busy(name))
        await here.master.queue.idle()


def merged(back: dict[str, Any]) -> dict[str, Any]:
    metadata = back["metadata"]
    return {"metadata": {**metadata, "labels": {**metadata.get("labels", {}), BAD: None}}}


@pytest.mark.parametrize("kind", [Kind.RESOURCES, Kind.TAINTS])
@pytest.mark.parametrize("code", [400, 403, 409, 422])
async def test_a_webhook_that_refuses_one_resource_or_taint(
    place: Cluster, masters: Masters, admission: Admission, hook: Hook, kind: Kind, code: int
) -> None:
    """Whatever status it answers with: the other resources, taints and labels are there within two seconds."""
    hook.code = code
    if kind is Kind.RESOURCES:
        change, lost = {"status": {"capacity": {V + "slots": "5"}}}, V + "slots"
        hook.refusal = lambda new, old: "no" if V + "slots" in new["status"].get("capacity", ()) else ""
    else:
        change, lost = {"spec": {"taints": [{"key": V + "t", "effect": "NoSchedule"}]}}, V + "t:NoSchedule"
        hook.refusal = lambda new, old: "no" if any(t["key"] == V + "t" for t in new["spec"].get("taints", ())) else ""
    await admission.call("hook", hook, change, ("nodes", "nodes/status"))
    here = await site(masters, place, admission.prefix, 1)
    (name,) = here.names
    began = time.monotonic()
    await here.report()
    took = time.monotonic() - began
    assert here.missing(name) == only(kind, lost)
    assert took < 2
    assert here.master.metrics["node_patches"] <= PATCHES
    assert [(one.key, one.by) for one in here.master.unwritten()] == [(lost, "webhook hook.example.com")]
    hook.refusal = lambda new, old: ""
    gone = time.monotonic()
    await until(lambda: not here.missing(name))
    print(f"{kind} refused with {code}: the rest after {took:.2f} s, all {time.monotonic() - gone:.1f} s after it")
    assert time.monotonic() - gone < 5


@pytest.mark.parametrize("code", [0, 429, 500, 503])
async def test_a_webhook_in_trouble_is_no_refusal(
    place: Cluster, masters: Masters, admission: Admission, hook: Hook, code: int
) -> None:
    """It breaks, asks to wait or has an error of its own: one PATCH each time, later each time, and nothing halved."""
    here = await site(masters, place, admission.prefix, 1, rules=False)
    (name,) = here.names
    hook.code, hook.broken = code or 403, not code
    hook.refusal = lambda new, old: "trouble"
    await admission.call("hook", hook, labels(BAD), ("nodes",))
    report = asyncio.create_task(here.report())
    await until(lambda: here.master.metrics["node_update_failures"] >= 3)
    assert here.master.metrics["node_patches"] <= 4
    assert here.master.unwritten() == []
    hook.broken, hook.refusal = False, lambda new, old: ""
    await until(lambda: labels_of(place, name) == LABELS)
    await report


async def test_a_missing_right_is_not_halved_and_holds_up_resources_alone(
    place: Cluster, masters: Masters, admission: Admission, control_plane: ControlPlane
) -> None:
    """Two PATCHes: all with the status, and labels without; then it waits as for any missing right."""
    role = f"{admission.prefix}role"
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
    ]
    kind = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    subject = {"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    control_plane.request("POST", kind, {"metadata": {"name": role}, "rules": rules})
    control_plane.request(
        "POST",
        kind.replace("roles", "rolebindings"),
        {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]},
    )
    admission.made += [f"{kind}/{role}", f"{kind.replace('roles', 'rolebindings')}/{role}"]
    from nfd.kube.client import connect
    from nfd.store.kube import KubeStore

    name = f"{admission.prefix}rights"
    place.create(name, {}, {}, BOOT)
    store = KubeStore(await connect(str(control_plane.kubeconfig_for("alice"))))
    master = await masters.start(store, policy=TAINTS, evaluate=asking([RULE], TAINTS))
    await asyncio.wait_for(asyncio.gather(send_quietly(master, name)), 30)
    await until(lambda: {*LABELS, *RULE.labels} == {*labels_of(place, name)})
    assert V + "slots" not in place.get(name)["status"]["capacity"]
    assert len(place.get(name)["spec"]["taints"]) == 2
    assert master.unwritten() == []
    assert master.metrics["node_patches"] <= 8
    place.delete(name)


async def send_quietly(master: Service, name: str) -> None:
    await send(master, Worker(name).report(LABELS))


Judge = Callable[[dict[str, Any], dict[str, Any]], str]
