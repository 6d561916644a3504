"""Counts that must not grow unnoticed: requests, bytes, Python calls and retained memory, compared with a baseline.

    python -m bench.guard [--write]

Nothing in here is a time. Calls (of functions in nfd/) and memory (by tracemalloc) depend on Python's minor version and
are compared for the baseline's own; requests and bytes always are.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import rules
from bench.fleet import cluster, machines
from nfd.features import Features
from nfd.master.http.metrics import Metrics
from nfd.master.node.desired import derive_desired, derive_freshness
from nfd.master.node.outcome import NO_RULES, DesiredCache, evaluate_report
from nfd.master.node.patch import patches
from nfd.master.node.plan import Goal, plan_node
from nfd.master.node.reconcile import ReconcileOptions, Reconciler
from nfd.master.reports.store import ReportInterner, ReportStore
from nfd.master.rules.evaluation import Limits
from nfd.master.rules.evaluator import Evaluator
from nfd.master.rules.nodefeatures import Joining
from nfd.master.rules.ruleset import compile_object
from nfd.master.rules.time_slices import Slices
from nfd.report import Report
from nfd.rpc import convert
from nfd.rpc.feature_cache import FeatureCache
from nfd.rules.policy import Policy
from nfd.rules.time_limit import Clocks
from nfd.store.base import trim
from nfd.store.file import FileStore

BASELINE = Path(__file__).with_name("baseline.json")
ROOM = 0.05
"""What a count may be above its baseline; a change that is meant writes a new one."""
NODES = 64
STILL = Clocks(lambda: 0.0, lambda: 0.0)
"""Nothing is interrupted, however slow the machine is."""
VERSION = "{}.{}".format(*sys.version_info)


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets decides how many elements are looked at
        os.execve(
            sys.executable, [sys.executable, "-m", "bench.guard", *sys.argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"}
        )
    fixed, ours = measure()
    if "--write" in sys.argv:
        BASELINE.write_text(json.dumps({"python": VERSION, "fixed": fixed, "python's": ours}, indent=2) + "\n")
        return 0
    known = json.loads(BASELINE.read_text())
    wrong = compare(fixed, known["fixed"])
    if known["python"] == VERSION:
        wrong += compare(ours, known["python's"])
    else:
        print(f"calls and memory are not compared: the baseline is that of Python {known['python']}")
    print("\n".join(wrong) if wrong else f"{len(fixed) + len(ours)} counts are as in {BASELINE.name}")
    return bool(wrong)


def compare(found: dict[str, int], known: dict[str, int]) -> list[str]:
    advice = "if that is meant, `python -m bench.guard --write`"
    grown = [
        f"{name}: {found[name]}, not {known.get(name)}; {advice}"
        for name in found
        if _grown(found[name], known.get(name))
    ]
    return grown + [f"{name}: no longer counted; {advice}" for name in known.keys() - found.keys()]


def _grown(count: int, known: int | None) -> bool:
    return known is None or count > known * (1 + ROOM)


def measure() -> tuple[dict[str, int], dict[str, int]]:
    """Counts that are the same everywhere, and those of this Python."""
    sent = [machines.Worker(number).speak() for number in range(NODES)]
    blobs, reports = FeatureCache(), list[Report]()
    missing = [take(blobs, one, reports) for one in sent]
    pool = ReportInterner()
    shared = [pool.share(report, None) for report in reports]
    beat = take(blobs, machines.Worker(0, sequence=1).speak(), [])
    items = [cluster.node(number) | {} for number in range(NODES)]
    nodes = [trim(item) for item in items]
    goals = [Goal(derive_desired(report, Policy()), derive_freshness(report)) for report in shared]
    bodies = [patches(plan_node(goal, node)) for goal, node in zip(goals, nodes, strict=True)]
    fixed = {
        "bytes of a beat": max(len(one.request) for one in sent),
        "bytes of features that a fleet's first report brings": missing[0],
        "bytes of features that another of its kind brings": missing[len(machines.kinds())],
        "bytes of features that a beat brings": beat,
        "requests that label a node": max(map(len, bodies)),
        "bytes of the PATCH that labels a node": max(
            len(json.dumps(one[0].body, separators=(",", ":"))) for one in bodies
        ),
        **asyncio.run(passes(shared[0])),
    }
    ours = {
        "calls: reading a report": calls(lambda: convert.decode(sent[0].request)),
        "calls: trimming a Node": calls(lambda: trim(items[1])),
        "calls: desired state": calls(lambda: derive_desired(shared[0], Policy())),
        "calls: desired state, known": known_state(shared[:: len(machines.kinds())]),
        "calls: plan of a bare node": calls(lambda: plan_node(goals[0], nodes[0])),
        "calls: 50 rules on a node": judged(fresh=True),
        "calls: 50 rules on a node like another": judged(fresh=False),
        "memory: a Node": retained(lambda: [trim(item) for item in items]),
        "memory: a report": retained(lambda: keep(sent, blobs)),
    }
    return fixed, ours


def take(blobs: FeatureCache, outgoing: convert.Outgoing, reports: list[Report]) -> int:
    """What a server does with a report; the bytes of features it had to ask for."""
    with blobs.use(convert.decode(outgoing.request)) as missing:
        wanted = outgoing.with_blobs(missing)
    incoming = convert.decode(wanted)
    with blobs.use(incoming) as missing:
        assert not missing
        reports.append(convert.complete(incoming.report, blobs.contents(incoming)))
        blobs.hold(incoming.report.node, incoming)
    return len(wanted) - len(outgoing.request)


def keep(sent: list[convert.Outgoing], blobs: FeatureCache) -> list[Report]:
    pool, kept = ReportInterner(), list[Report]()
    for one in sent:
        found: list[Report] = []
        take(blobs, one, found)
        kept.append(pool.share(found[0], None))
    return kept


async def passes(report: Report) -> dict[str, int]:
    """Writes, and functions called, of the first pass over a node, of the one after it and of a beat."""
    with tempfile.TemporaryDirectory() as folder:
        store, metrics, reports = FileStore(Path(folder)), Metrics("guard", 0.0), ReportStore()
        await store.start(lambda name: None)
        reconciler = Reconciler(store, reports, ReconcileOptions(), metrics)
        found = {}
        for name in ("a first pass", "the pass after it", "a beat"):
            before = metrics["node_patches"]
            reports.take(report, store.get(report.node), "")
            await reconciler.reconcile(report.node)
            found[f"writes of {name}"] = metrics["node_patches"] - before
        await store.close()
        return found


def known_state(alike: list[Report]) -> int:
    derivations = DesiredCache()
    first, second = (evaluate_report(report, NO_RULES, Policy()) for report in alike[:2])
    derivations.derive(first)
    return calls(lambda: derivations.derive(second))


def judged(*, fresh: bool) -> int:
    """Fifty rules on a second node, of another kind or of the first one's."""
    policy = Policy()
    evaluator = Evaluator(
        Joining(policy), Metrics("guard", 0.0), lambda: None, lambda: None, Slices(STILL), Limits(STILL)
    )
    evaluator.bind(
        [compile_object({"metadata": {"name": "o"}, "spec": {"rules": [*map(rules.rule, range(50))]}}, policy)], ()
    )
    first, second = rules.features(1), rules.features(2)
    evaluator.evaluation_of("one", Report("one", features=first), ())
    features = second if fresh else Features(first.flags, first.attributes, first.instances)
    return calls(lambda: evaluator.evaluation_of("two", Report("two", features=features), ()))


def calls(work: Callable[[], object]) -> int:
    """How many functions of nfd/ it calls, once it is warm."""
    count = 0

    def note(frame: Any, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and "/nfd/" in frame.f_code.co_filename

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def retained(make: Callable[[], list[Any]]) -> int:
    """Bytes that each value keeps, what all share included."""
    make()
    tracemalloc.start()
    values = make()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size // len(values)


if __name__ == "__main__":
    raise SystemExit(main())
