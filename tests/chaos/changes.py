"""Carries out what really changes, after telling the checker: machines, rules, foreign keys, Nodes that come and go."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from tests.chaos.checker import Checker
from tests.chaos.faults import Faults
from tests.chaos.fleet import Undo, Unit
from tests.chaos.machines import Machine
from tests.chaos.model import CLASSES, FOREIGN, LIST, ORIGINS, SOURCES, TAINTS, VENDORS, F, Rule, Truth, wanted_of
from tests.chaos.schedule import Event
from tests.chaos.watcher import Undisturbed
from tests.controlplane.api import ApiError

RULES = "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules"
RULES_OF = {vendor: f"chaos-rule-{vendor}" for vendor in VENDORS}
"""One rule, at most, about each vendor."""
FOREIGN_LABELS = (
    f"{F}pci-{FOREIGN}.present",
    f"{F}{FOREIGN}",
    f"example.com/{FOREIGN}",
    f"node-restriction.kubernetes.io/{FOREIGN}",
)
NOTE, TAINT = f"{FOREIGN}.example/note", f"{FOREIGN}.example/taint"
MOST_DEVICES = 3
MOST_ASKED = 1
"""Rules that wait at a time: no device of their vendors comes or goes meanwhile."""
AFTERMATH = 300.0
"""Seconds after a source failed in which a new Node may get its labels in more than one step."""


@dataclass
class Member:
    """One node of the fleet: its machine, what others have set on it, and which process its worker is in."""

    name: str
    machine: Machine
    crew: Unit
    foreign: dict[str, str] = field(default_factory=dict)
    failed_at: float = -AFTERMATH
    made_at: float = 0.0
    """When its Node was made."""


@dataclass
class Changes:
    members: list[Member]
    checker: Checker
    server: Undisturbed
    faults: Faults
    join: Callable[[Mapping[str, Any], Unit], None]
    """Called for each Node that was made."""
    rules: dict[str, Rule] = field(default_factory=dict)
    asked: dict[str, Rule | None] = field(default_factory=dict)
    """Vendor → what its rule will be, once no node waits for anything that has to do with the vendor.

    Otherwise the outcome would depend on what comes first. Until then no device of the vendor comes or goes.
    """

    def begin(self, event: Event) -> Undo | None:
        """Answers how to end it, or None if it could not be done now."""
        member, dice = self.member(event), random.Random(event.detail)
        actions: Mapping[str, Callable[[Member, random.Random], Undo | None]] = {
            "device plugged or unplugged": self._device,
            "release changed": self._release,
            "feature file changed": self._wave,
            "rule put": self._put_rule,
            "rule deleted": self._delete_rule,
            "foreign key written": self._write_foreign,
            "machine changed while its worker was away": self._change_while_away,
            "node recreated": self._recreate,
            "node recreated after a reboot": self._recreate_after_reboot,
            "machine rebooted": self._reboot,
            "list annotations poisoned": self._poison,
            "source spoilt": self._spoil,
        }
        return actions[event.kind](member, dice)

    def stop(self) -> None:
        """No Node and no rule of ours is left."""
        for path in (
            *(f"/api/v1/nodes/{one.name}" for one in self.members),
            *(f"{RULES}/{name}" for name in self.rules),
        ):
            with suppress(ApiError):
                self.server.request("DELETE", path)

    def member(self, event: Event) -> Member:
        return self.members[event.target % len(self.members)]

    def wanted(self, member: Member) -> dict[str, dict[str, str]]:
        return wanted_of(member.machine.truth, self.rules.values(), member.foreign)

    def create(self, member: Member) -> None:
        """As a kubelet registers it, with what its maker gives it."""
        name, foreign = member.name, member.foreign
        labels = {key: text for key, text in foreign.items() if key[0] not in "@#%"}
        notes = {key[1:]: text for key, text in foreign.items() if key[0] == "@"}
        taints = [_taint(text) for key, text in foreign.items() if key == f"%{TAINT}"]
        room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        status = {"capacity": room, "allocatable": room, "nodeInfo": _info(member.machine.truth.boot)}
        body = {"metadata": {"name": name, "labels": labels, "annotations": notes}, "spec": {"taints": taints}}
        node = {"apiVersion": "v1", "kind": "Node", **body, "status": status}
        made = self.server.request("POST", "/api/v1/nodes", node)
        member.made_at = time.monotonic()
        self.join(made, member.crew)

    def _become(self, member: Member, truth: Truth, *, joined: bool = False) -> None:
        wanted = wanted_of(truth, self.rules.values(), member.foreign)
        self.checker.expect(member.name, wanted, truth.boot, joined=joined)
        member.machine.become(truth)

    def _free(self, member: Member, source: str) -> bool:
        """Whether features of the source can change: it can be read, and what it changed last has arrived."""
        rules = {f"rule {name}" for name in RULES_OF.values()} if source == "pci" else set()
        return source not in member.machine.spoilt and self.checker.settled(member.name, SOURCES[source] | rules)

    def _device(self, member: Member, dice: random.Random) -> Undo | None:
        if not self._free(member, "pci"):
            return None
        truth = other_devices(member.machine.truth, dice, self.asked)
        if truth == member.machine.truth:
            return None
        self._become(member, truth)
        return _done

    def _release(self, member: Member, dice: random.Random) -> Undo | None:
        if not self._free(member, "system"):
            return None
        self._become(member, other_release(member.machine.truth, dice))
        return _done

    def _wave(self, member: Member, dice: random.Random) -> Undo | None:
        if not self._free(member, "local"):
            return None
        self._become(member, other_wave(member.machine.truth, dice))
        return _done

    def _put_rule(self, member: Member, dice: random.Random) -> Undo | None:
        vendor = dice.choice(VENDORS)
        before = self.rules.get(RULES_OF[vendor])
        return self._ask(vendor, Rule(RULES_OF[vendor], vendor, (before.value if before else 0) + dice.randint(1, 9)))

    def _delete_rule(self, member: Member, dice: random.Random) -> Undo | None:
        vendor = dice.choice(VENDORS)
        return self._ask(vendor, None) if RULES_OF[vendor] in self.rules else None

    def _ask(self, vendor: str, rule: Rule | None) -> Undo | None:
        if vendor in self.asked or len(self.asked) == MOST_ASKED:
            return None
        self.asked[vendor] = rule
        return _done

    def put_rules(self) -> None:
        """Those that were asked for and for which it is time now."""
        for vendor, rule in list(self.asked.items()):
            name = RULES_OF[vendor]
            if self.checker.waiting(vendor, name):
                continue
            del self.asked[vendor]
            before = self.rules.pop(name, None)
            if rule is not None:
                self.rules[name] = rule
            self._expect_everywhere()
            if rule is None:
                self.server.request("DELETE", f"{RULES}/{name}")
            elif before is None:
                self.server.request("POST", RULES, rule.object())
            else:
                self.server.request("PATCH", f"{RULES}/{name}", {"spec": rule.object()["spec"]})

    def _expect_everywhere(self) -> None:
        for member in self.members:
            self.checker.expect(member.name, self.wanted(member), member.machine.truth.boot)

    def _write_foreign(self, member: Member, dice: random.Random) -> Undo | None:
        """A label, some of them together, an annotation or a taint is set to something else, or taken away."""
        if not self.checker.settled(member.name, {FOREIGN}) or not self.checker.exists(member.name):
            return None
        keys = [*FOREIGN_LABELS, f"@{NOTE}", f"%{TAINT}"]
        texts = {key: f"v{dice.randint(0, 99)}" for key in dice.sample(keys, dice.randint(1, 3))}
        gone = [key for key in texts if key in member.foreign and dice.random() < 0.3]
        after = {key: text for key, text in (member.foreign | texts).items() if key not in gone}
        if after == member.foreign:
            return None
        member.foreign = after
        self.checker.expect(member.name, self.wanted(member), member.machine.truth.boot)
        sent = {key: None if key in gone else text for key, text in texts.items()}
        labels = {key: text for key, text in sent.items() if key[0] not in "@%"}
        notes = {key[1:]: text for key, text in sent.items() if key[0] == "@"}
        body: dict[str, Any] = {"metadata": {"labels": labels, "annotations": notes}}
        if f"%{TAINT}" in sent:
            value = sent[f"%{TAINT}"]
            body["spec"] = {"taints": [_taint(value)] if value is not None else None}
        self._patch(member, body)
        return _done

    def _poison(self, member: Member, dice: random.Random) -> Undo | None:
        """Somebody who may annotate the Node names a label and a taint that no master may write, and forges origins."""
        if member.machine.spoilt or not self.checker.settled(member.name):
            return None
        there = self.server.request("GET", f"/api/v1/nodes/{member.name}")["metadata"].get("annotations") or {}
        others = [one.name for one in self.members if self.checker.exists(one.name)]
        other = self.server.request("GET", f"/api/v1/nodes/{dice.choice(others)}")["metadata"]
        notes = {
            LIST: f"{there.get(LIST, '')},node-restriction.kubernetes.io/{FOREIGN}",
            TAINTS: f"{TAINT}=v:PreferNoSchedule,{TAINT}:PreferNoSchedule",
            ORIGINS: dice.choice(
                (None, "{", "[]", "{}", (other.get("annotations") or {}).get(ORIGINS), there.get(ORIGINS))
            ),
        }
        self.checker.poison(member.name)
        self._patch(member, {"metadata": {"annotations": notes}})
        return _done

    def _change_while_away(self, member: Member, dice: random.Random) -> Undo | None:
        """Three sources differ when the worker is back: they come in one report, so in one patch."""
        truth = other_wave(other_release(other_devices(member.machine.truth, dice, self.asked), dice), dice)
        return self._without_worker(member, dice, lambda: self._become(member, truth, joined=True))

    def _reboot(self, member: Member, dice: random.Random) -> Undo | None:
        def reboot() -> None:
            truth = member.machine.rebooted(_boot(dice))
            self._become(member, truth, joined=True)
            self._patch(member, {"status": {"nodeInfo": _info(truth.boot)}}, "/status")

        return self._without_worker(member, dice, reboot)

    def _recreate(self, member: Member, dice: random.Random) -> Undo | None:
        if not self.checker.settled(member.name):
            return None
        return self._delete(member, member.machine.truth)

    def _recreate_after_reboot(self, member: Member, dice: random.Random) -> Undo | None:
        def recreate() -> None:
            truth = member.machine.rebooted(_boot(dice))
            again = self._delete(member, truth)
            member.machine.become(truth)
            again()

        return self._without_worker(member, dice, recreate)

    def _delete(self, member: Member, truth: Truth) -> Undo:
        wanted = wanted_of(truth, self.rules.values(), member.foreign)
        joined = not member.machine.spoilt and time.monotonic() - member.failed_at > AFTERMATH
        self.checker.expect_deletion(member.name, wanted, truth.boot, joined=joined)
        self.server.request("DELETE", f"/api/v1/nodes/{member.name}")
        return lambda: self.create(member)

    def _without_worker(self, member: Member, dice: random.Random, change: Callable[[], None]) -> Undo | None:
        """Change a machine, all of whose sources can be read, between two lives of its worker."""
        crew = member.crew
        if crew.busy or member.machine.spoilt or not self.checker.settled(member.name) or not crew.program.alive():
            return None
        again = crew.hold(self.faults.end(crew, signal.SIGKILL))
        change()
        return again

    def _spoil(self, member: Member, dice: random.Random) -> Undo | None:
        source = dice.choice(tuple(SOURCES))
        if source in member.machine.spoilt or not self.checker.settled(member.name, SOURCES[source]):
            return None
        member.machine.spoil(source, dice.getrandbits(1))
        member.failed_at = time.monotonic()

        def heal() -> None:
            member.machine.heal(source)
            member.failed_at = time.monotonic()

        return heal

    def _patch(self, member: Member, body: dict[str, Any], subresource: str = "") -> None:
        answer = self.server.request("PATCH", f"/api/v1/nodes/{member.name}{subresource}", body)
        self.checker.mine(member.name, str(answer["metadata"]["resourceVersion"]))


def other_devices(truth: Truth, dice: random.Random, spared: Collection[str] = ()) -> Truth:
    """One device more, or one fewer, but none of the `spared` vendors; the same if there is no other choice."""
    devices = dict(truth.devices or {})
    loose = sorted(address for address, (_, vendor) in devices.items() if vendor not in spared)
    free = [address for address in map(_address, range(MOST_DEVICES)) if address not in devices]
    vendors = [vendor for vendor in VENDORS if vendor not in spared]
    if loose and (not free or not vendors or dice.random() < 0.5):
        del devices[dice.choice(loose)]
    elif free and vendors:
        devices[free[0]] = (dice.choice(CLASSES), dice.choice(vendors))
    return replace(truth, devices=devices)


def other_release(truth: Truth, dice: random.Random) -> Truth:
    major, minor = truth.release
    return replace(truth, release=(major, minor + 1) if dice.random() < 0.7 else (major + 1, 0))


def other_wave(truth: Truth, dice: random.Random) -> Truth:
    """Another value for all entries; now and then the file goes, or comes."""
    gone = truth.wave is not None and dice.random() < 0.2
    return replace(truth, wave=None if gone else (truth.wave or 0) + dice.randint(1, 9))


def _address(slot: int) -> str:
    return f"0000:{slot + 1:02x}:00.0"


def _boot(dice: random.Random) -> str:
    return f"boot-{dice.getrandbits(48):012x}"


def _taint(value: str) -> dict[str, str]:
    return {"key": TAINT, "value": value, "effect": "PreferNoSchedule"}


def _info(boot: str) -> dict[str, str]:
    """Of a kubelet's nodeInfo all fields are required."""
    names = ("machineID", "systemUUID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion")
    rest = dict.fromkeys((*names, "kubeProxyVersion", "operatingSystem", "architecture"), "")
    return {**rest, "bootID": boot}


def _done() -> None:
    """Nothing is to be undone."""
