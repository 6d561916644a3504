"""`python -m tests.chaos`: a run of random faults, reproducible by its seed; exit status 1 if anything was violated."""

from __future__ import annotations

import argparse
import shutil
import sys
from itertools import groupby, islice

from tests.chaos import knowledge
from tests.chaos.checker import KINDS, Violation, render_versions
from tests.chaos.driver import Run, RunOptions
from tests.chaos.schedule import CHANGES, FAULTS
from tests.controlplane.cluster import ControlPlane

BEFORE = 45.0
"""Seconds of history that are told with a violation."""
MOST = 20
"""Versions of Nodes whose violations are told in full."""


def parse(argv: list[str]) -> RunOptions:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long faults are injected (default: 600)")
    parser.add_argument("--seed", type=int, default=1, help="what decides the schedule (default: 1)")
    parser.add_argument("--nodes", type=int, default=200, help="how many nodes (default: 200)")
    parser.add_argument("--crew", type=int, default=20, help="workers in one process (default: 20)")
    given = parser.parse_args(argv)
    return RunOptions(given.seed, given.seconds, given.nodes, given.crew)


def say(line: str) -> None:
    print(line, flush=True)


def main(argv: list[str]) -> int:
    options = parse(argv)
    with ControlPlane() as plane:
        return carry_out(Run(options, say, plane))


def carry_out(run: Run) -> int:
    """The exit status; logs and machines stay where something was wrong."""
    try:
        run.start()
        run.disturb()
        run.calm()
        report(run)
    finally:
        run.close()
    if run.violations() or run.wrong:
        run.say(f"logs are in {run.folder}")
        return 1
    shutil.rmtree(run.folder)
    return 0


def report(run: Run) -> None:
    """Counts of everything, and each violation with what had just happened."""
    for title, kinds in (("faults", FAULTS), ("changes", CHANGES)):
        run.say(f"{title}: {sum(run.injected[kind] for kind in kinds)}")
        for kind in kinds:
            left_out = f" ({run.impossible[kind]} impossible at the time)" if run.impossible[kind] else ""
            run.say(f"  {run.injected[kind]:5d} {kind}{left_out}")
    sent = sum(unit.proxy.count("PATCH", "/nodes/") for unit in run.fleet.masters if unit.proxy is not None)
    run.say(f"states of Nodes seen: {run.checker.states}; patches sent: {sent}, written: {run.checker.written}")
    run.say("restarts: " + ", ".join(f"{number} {kind}" for kind, number in sorted(run.restarts.items())))
    if run.fleet.library is None:
        run.say("clocks were not stepped: there is no C compiler")
    tell_terms(run)
    violations = run.violations()
    together = groupby(violations, key=lambda one: (one.kind, one.node, one.version))
    for _, found in islice(together, MOST):
        tell(run, list(found))
    for kind in (*KINDS, *knowledge.KINDS):
        run.say(f"  {sum(one.kind == kind for one in violations):5d} {kind}")
    for line in run.wrong:
        run.say(f"wrong: {line}")
    run.say(f"violations: {len(violations) + len(run.wrong)}")


def tell_terms(run: Run) -> None:
    """What leaders knew of what was acknowledged, and what was done to them in detail."""
    for line in run.knowledge.summary(run.begun):
        run.say(line)
    asked, unanswered = sum(run.observer.asked.values()), run.observer.unanswered
    run.say(f"  all workers asked to report: {asked:.0f} times; looks that a leader did not answer: {unanswered}")
    for what, number in sorted(run.faults.details.items()):
        run.say(f"  {number:5d} {what}")


def tell(run: Run, violations: list[Violation]) -> None:
    """Those of one version of a Node, and what had just happened to it, its worker, the masters and the API server."""
    one = violations[0]
    run.say(f"VIOLATION at {one.at:.2f} s: {one.kind}: node {one.node}, version {one.version or 'at the end'}")
    for key, seen, wanted in ((each.key, each.seen, each.wanted) for each in violations):
        run.say(f"  {key}: {seen}; it should be {wanted}")
    for at, text in render_versions(one.versions):
        run.say(f"    {at:8.2f} {text}")
    crew = next((unit.name for unit in run.fleet.crews if one.node in unit.members), "")
    masters = [unit.name for unit in run.fleet.masters]
    for line in run.history:
        if one.at - BEFORE <= line.at <= one.at and line.whom in ("", one.node, crew, *masters):
            run.say(f"    {line.at:8.2f} {line.whom or 'API server'}: {line.text}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
