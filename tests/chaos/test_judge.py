"""Each invariant trips when it is broken, and only then: states of a Node as an API server would tell of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from tests.chaos.judge import DELETED, HALF, KINDS, LISTED, TOUCHED, UNEQUAL, UNWANTED, VANISHED, Judge
from tests.chaos.model import FOREIGN, LIST, ORIGINS, F, Rule, Truth, wanted_of

TRUTH = Truth("boot-1", devices={"0000:01:00.0": ("030200", "1eac")})
RULE = Rule("chaos-rule-0", "1eac", 5)
THEIRS = {f"{F}{FOREIGN}": "1", f"@{FOREIGN}.example/note": "x", f"%{FOREIGN}.example/taint": "y"}
WAVE = f"{F}chaos-wave-a"
Flat = dict[str, str]
_versions = count(1)


def flat(wanted: Mapping[str, Mapping[str, str]]) -> Flat:
    return {key: text for values in wanted.values() for key, text in values.items()}


def wanted(truth: Truth = TRUTH, rules: tuple[Rule, ...] = (RULE,), theirs: Flat = THEIRS) -> dict[str, dict[str, str]]:
    return wanted_of(truth, rules, theirs)


def node(state: Flat, listed: set[str] | None = None, boot: str = "boot-1") -> dict[str, Any]:
    """The object that has this state, listing all labels but foreign ones unless `listed` says otherwise."""
    labels = {key: text for key, text in state.items() if key[0] not in "@#%"}
    ours = sorted(listed if listed is not None else {key for key in labels if FOREIGN not in key})
    notes = {key[1:]: text for key, text in state.items() if key[0] == "@"}
    notes |= {LIST: ",".join(key.removeprefix(F) for key in ours), ORIGINS: f'{{"boot":"{boot}"}}'} if ours else {}
    return {
        "metadata": {"name": "n", "resourceVersion": str(next(_versions)), "labels": labels, "annotations": notes},
        "spec": {"taints": [{"key": key[1:], "value": text} for key, text in state.items() if key[0] == "%"]},
        "status": {"capacity": {key[1:]: text for key, text in state.items() if key[0] == "#"}},
    }


def labelled() -> Judge:
    """Of a Node that is as it should be, after it came empty and was labelled in one step."""
    judge = Judge(lambda: 0.0)
    judge.expect_node("n", wanted(), "boot-1")
    judge.see("ADDED", node(THEIRS))
    assert not judge.settled("n")
    judge.see("MODIFIED", node(flat(wanted())))
    assert (judge.settled("n"), judge.violations) == (True, [])
    return judge


def without(*keys: str) -> Flat:
    return {key: text for key, text in flat(wanted()).items() if key not in keys}


def lose_a_label(judge: Judge) -> None:
    judge.see("MODIFIED", node(without(WAVE)))


def lose_an_amount(judge: Judge) -> None:
    judge.see("MODIFIED", node(without(f"#{F}chaos-rule-0-amount")))


def lose_it_while_it_changes(judge: Judge) -> None:
    judge.expect("n", wanted(replace(TRUTH, wave=3)), "boot-1")
    judge.see("MODIFIED", node(without(WAVE)))


def lose_it_in_a_failure_of_its_source(judge: Judge) -> None:
    judge.expect("n", wanted(replace(TRUTH, release=(13, 1))), "boot-1")
    judge.see("MODIFIED", node({key: text for key, text in flat(wanted()).items() if "/pci-" not in key}))


def change_a_part(judge: Judge) -> None:
    after = wanted(replace(TRUTH, wave=3))
    judge.expect("n", after, "boot-1")
    judge.see("MODIFIED", node(flat(wanted()) | {WAVE: "3"}))


def label_a_new_node_by_halves(judge: Judge) -> None:
    judge.expect_deletion("n", wanted(), "boot-1", joined=True)
    judge.see("DELETED", node(flat(wanted())))
    judge.see("ADDED", node(THEIRS))
    judge.see("MODIFIED", node({**THEIRS, **wanted()["cpu"]}))


def come_back(judge: Judge) -> None:
    """Once gone, a label is not there again."""
    after = wanted(replace(TRUTH, devices={}))
    judge.expect("n", after, "boot-1")
    judge.see("MODIFIED", node(flat(after)))
    assert judge.violations == []
    judge.see("MODIFIED", node(flat(wanted())))


def invent(judge: Judge) -> None:
    judge.see("MODIFIED", node(flat(wanted()) | {f"{F}pci-0302_10de.present": "true"}))


def touch(judge: Judge) -> None:
    judge.see("MODIFIED", node(without(f"{F}{FOREIGN}")))


def untaint(judge: Judge) -> None:
    judge.see("MODIFIED", node(without(f"%{FOREIGN}.example/taint")))


def list_too_few(judge: Judge) -> None:
    ours = {key for key in flat(wanted()) if FOREIGN not in key and key[0] not in "@#%"}
    judge.see("MODIFIED", node(flat(wanted()), ours - {WAVE}))


def list_a_foreign_one(judge: Judge) -> None:
    ours = {key for key in flat(wanted()) if key[0] not in "@#%"}
    judge.see("MODIFIED", node(flat(wanted()), ours))


def never_arrive(judge: Judge) -> None:
    judge.expect("n", wanted(replace(TRUTH, wave=3)), "boot-1")
    judge.final()


def keep_the_old_boot(judge: Judge) -> None:
    judge.expect("n", wanted(), "boot-2")
    judge.final()


def delete(judge: Judge) -> None:
    judge.see("DELETED", node(flat(wanted())))


BREACHES: tuple[tuple[Callable[[Judge], None], str], ...] = (
    (lose_a_label, VANISHED),
    (lose_an_amount, VANISHED),
    (lose_it_while_it_changes, VANISHED),
    (lose_it_in_a_failure_of_its_source, VANISHED),
    (change_a_part, HALF),
    (label_a_new_node_by_halves, HALF),
    (come_back, UNWANTED),
    (invent, UNWANTED),
    (touch, TOUCHED),
    (untaint, TOUCHED),
    (list_too_few, LISTED),
    (list_a_foreign_one, LISTED),
    (never_arrive, UNEQUAL),
    (keep_the_old_boot, UNEQUAL),
    (delete, DELETED),
)


@pytest.mark.parametrize(("breach", "kind"), BREACHES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_breach_is_told_as_what_it_is(breach: Callable[[Judge], None], kind: str) -> None:
    judge = labelled()
    breach(judge)
    assert {one.kind for one in judge.violations} == {kind}


def test_every_kind_has_a_breach() -> None:
    assert {kind for _, kind in BREACHES} == set(KINDS)


def test_what_is_right_is_no_violation() -> None:
    """Changes of several sources in any order, an old state that comes late, and a Node made again."""
    judge, now = labelled(), flat(wanted())
    truth = replace(TRUTH, wave=3, release=(13, 1))
    judge.expect("n", wanted(truth), "boot-1")
    judge.see("MODIFIED", node(now))
    judge.see("MODIFIED", node(now | wanted(truth)["system"]))
    judge.see("MODIFIED", node(flat(wanted(truth))))
    theirs = THEIRS | {f"{F}{FOREIGN}": "2"}
    judge.expect("n", wanted(truth, (), theirs), "boot-1")
    judge.see("MODIFIED", node(flat(wanted(truth, (RULE,), theirs))))
    judge.see("MODIFIED", node(flat(wanted(truth, (), theirs))))
    judge.expect_deletion("n", wanted(TRUTH, (), theirs), "boot-2", joined=True)
    judge.see("DELETED", node(flat(wanted(truth, (), theirs))))
    judge.see("ADDED", node(theirs))
    judge.see("MODIFIED", node(flat(wanted(TRUTH, (), theirs)), boot="boot-2"))
    judge.final()
    assert (judge.violations, judge.unsettled()) == ([], [])


def test_writes_of_the_driver_are_not_counted_as_ours() -> None:
    judge = labelled()
    before, change = judge.written, node(flat(wanted()))
    judge.mine("n", change["metadata"]["resourceVersion"])
    judge.see("MODIFIED", change)
    assert (before, judge.written) == (1, 1)


POISONED = {WAVE, "node-restriction.kubernetes.io/foreign"}


def test_a_poisoned_list_is_put_right_and_excuses_nothing_else() -> None:
    judge = labelled()
    judge.poison("n")
    poisoned = node(flat(wanted()), POISONED)
    judge.see("MODIFIED", node(flat(wanted())))  # one of before, seen late
    judge.see("MODIFIED", poisoned)
    judge.mine("n", poisoned["metadata"]["resourceVersion"])
    assert judge.violations == []
    judge.see("MODIFIED", node(without(f"{F}{FOREIGN}"), POISONED))
    assert [one.kind for one in judge.violations] == [TOUCHED]
    judge.see("MODIFIED", node(flat(wanted())))
    judge.see("MODIFIED", node(flat(wanted()), POISONED))
    assert {one.kind for one in judge.violations} == {TOUCHED, LISTED}


def test_a_list_that_stays_poisoned_is_a_violation_at_the_end() -> None:
    judge = labelled()
    judge.poison("n")
    judge.see("MODIFIED", node(flat(wanted()), POISONED))
    judge.final()
    assert {one.kind for one in judge.violations} == {UNEQUAL}


def test_while_a_policy_refuses_keys_a_change_may_come_in_parts_but_nothing_goes() -> None:
    judge = labelled()
    judge.refusing(True)
    judge.expect("n", wanted(rules=(replace(RULE, value=6),)), "boot-1")
    part = flat(wanted()) | {f"#{F}chaos-rule-0-amount": "6"}
    judge.see("MODIFIED", node(part))
    assert judge.violations == []
    judge.see("MODIFIED", node({key: text for key, text in part.items() if "rule-0-a" not in key}))
    assert {one.kind for one in judge.violations} == {VANISHED}


def test_after_a_restart_of_the_api_server_a_resource_may_come_later_and_nothing_else() -> None:
    judge = labelled()
    judge.restarted()
    judge.expect("n", wanted(rules=(replace(RULE, value=6),)), "boot-1")
    part = flat(wanted(rules=(replace(RULE, value=6),))) | {f"#{F}chaos-rule-0-amount": "5"}
    judge.see("MODIFIED", node(part))
    assert judge.violations == []
    judge.see("MODIFIED", node(part | {f"{F}chaos-rule-0-a": "5"}))
    assert [one.kind for one in judge.violations] == [HALF]
