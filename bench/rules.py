"""Rules over a fleet: CPU of one pass over 1,000 nodes × 50 rules, when all are judged, of alike nodes, of a status.

    python -m bench.rules [NODES [RULES]]

The features are those of recorded machines as far as rules look at them: CPU flags, kernel modules, PCI devices. The
rules are of the kinds found in the field: a PCI vendor, a module, a CPU flag, a kernel version, one template in ten,
back-references to earlier rules.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from typing import Any

from nfd.features import Features
from nfd.master.http.metrics import Metrics
from nfd.master.rules.evaluator import Evaluator
from nfd.master.rules.nodefeatures import Joining
from nfd.master.rules.ruleset import compile_object, exhaust
from nfd.master.rules.status import Tally, render_steps
from nfd.report import Report
from nfd.rules.policy import Policy

_random = random.Random(1)
KINDS = 8
FLAGS = [f"FLAG{number}" for number in range(60)]
MODULES = [f"module_{number}" for number in range(150)]
VENDORS = [f"{number:04x}" for number in (0x10DE, 0x8086, 0x15B3, 0x1002, 0x1AF4)]


def features(number: int) -> Features:
    devices = tuple({"vendor": _random.choice(VENDORS), "class": "0200", "device": f"{one:04x}"} for one in range(20))
    return Features(
        flags={
            "cpu.cpuid": frozenset(_random.sample(FLAGS, 40)),
            "kernel.loadedmodule": frozenset(MODULES[number % 9 :]),
        },
        attributes={"kernel.version": {"full": "6.8.0", "major": "6"}, "system.name": {"nodename": f"node-{number}"}},
        instances={"pci.device": devices},
    )


def rule(number: int) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = [
        {"feature": "pci.device", "matchExpressions": {"vendor": {"op": "In", "value": [VENDORS[number % 5]]},
                                                       "device": {"op": "Exists"}}},
        {"feature": "kernel.loadedmodule", "matchExpressions": {MODULES[number]: {"op": "Exists"}}},
        {"feature": "cpu.cpuid", "matchExpressions": {FLAGS[number % 60]: {"op": "Exists"}}},
        {"feature": "kernel.version", "matchExpressions": {"major": {"op": "Gt", "value": ["5"]}}},
        {"feature": "rule.matched", "matchExpressions": {f"label-{number - 3}": {"op": "Exists"}}},
    ]  # fmt: skip
    found = {"name": f"rule {number}", "labels": {f"label-{number}": "true"}, "matchFeatures": [kinds[number % 5]]}
    if number % 10 == 0:
        found["labelsTemplate"] = "{{ range .pci.device }}pci-{{ .device }}=present\n{{ end }}"
    return found


def timed(what: str, count: int, began: float) -> None:
    spent = time.process_time() - began
    print(f"{what}: {spent:.3f} s CPU, {spent / count * 1e6:.0f} µs a node")


def main(nodes: int, rules: int) -> None:
    policy = Policy()
    items = [
        {
            "metadata": {"name": f"object-{start:03d}", "generation": 1},
            "spec": {"rules": [rule(start + at) for at in range(5)]},
        }
        for start in range(0, rules, 5)
    ]
    evaluator = Evaluator(Joining(policy), Metrics("bench", 0.0), lambda: None, lambda: None)
    evaluator.bind([compile_object(item, policy) for item in items], ())
    reports = [Report(f"node-{number}", features=features(number)) for number in range(nodes)]
    began = time.process_time()
    for report in reports:
        evaluator.evaluation_of(report.node, report, ())
    asyncio.run(evaluator.evaluate_due(lambda node: None))
    timed(f"judging {nodes} nodes by {rules} rules", nodes, began)
    began = time.process_time()
    for report in reports:
        evaluator.evaluation_of(report.node, report, ())
    timed("again, with nothing changed", nodes, began)
    others = Evaluator(Joining(policy), Metrics("bench", 0.0), lambda: None, lambda: None)
    others.bind([compile_object(item, policy) for item in items], ())
    began = time.process_time()
    for number, report in enumerate(reports):
        kind = reports[number % KINDS].features
        named = {**kind.attributes, "system.name": {"nodename": report.node}}
        others.evaluation_of(report.node, Report(report.node, features=Features(kind.flags, named, kind.instances)), ())
    asyncio.run(others.evaluate_due(lambda node: None))
    timed(f"judging nodes of {KINDS} kinds", nodes, began)
    began = time.process_time()
    tally = Tally(evaluator.rule_set.rules, policy)
    for node in evaluator.names():
        if state := evaluator.get(node):
            tally.add(node, state.evaluation, state.joined)
    first = 0
    for sheet in evaluator.rule_set.compiled_objects:
        exhaust(render_steps(sheet, first, tally, ""))
        first += len(sheet.rules)
    timed("counting for the status", nodes, began)
    held = sum(tally.matching(index).nodes for index in range(len(evaluator.rule_set.rules)))
    print(f"rules that hold: {held / nodes:.1f} a node")


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:3]]
    main(*given, *(1000, 50)[len(given) :])
