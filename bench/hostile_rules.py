"""Rules that mean harm: how long probes and reports take, what is suspended, and whether all others are labelled.

    python -m bench.hostile_rules [--nodes N] [--seconds S]

A real API server with N nodes and a real nfd-master with the security of a cluster. All workers have reported. Then,
while probes and reports (each with a changed label) go on at a steady pace, the rules of `HOSTILE` come, one object
every two seconds, and one good rule. A report's time is that until its answer, which comes once its node is written.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from typing import Any

import aiohttp

from bench.fleet.__main__ import ca_of
from bench.fleet.cluster import rule_object
from bench.fleet.gauges import cpu_seconds, resident
from bench.fleet.machines import node_name
from bench.fleet.run import Run, setting
from bench.fleet.speaker import Speaker, Tally
from nfd.kube.paths import RULES

F = "feature.node.kubernetes.io/"
TARGET = 0.25
PER_SECOND = 8.0
"""Reports; probes are as many."""
ALWAYS = {"feature": "kernel.version"}
Json = dict[str, Any]


def template(name: str, text: str) -> Json:
    return {"name": name, "labelsTemplate": text, "matchFeatures": [ALWAYS]}


def regexp(name: str, pattern: str, feature: str = "kernel.config") -> Json:
    term = {"feature": feature, "matchName": {"op": "InRegexp", "value": [pattern]}}
    return {"name": name, "labels": {name: "1"}, "matchFeatures": [term]}


def vendor(number: str) -> Json:
    return {"feature": "pci.device", "matchExpressions": {"vendor": {"op": "In", "value": [number]}}}


DIGITS = "{{ $t := repeat 5000 `0123456712` }}"
EXPENSIVE = "`[0-7].{900}x`"
HOSTILE: dict[str, list[Json]] = {
    "recursion": [template("r", '{{ define "a" }}' + "{{ if . }}" * 10 + '{{ template "a" . }}' + "{{ end }}" * 11
                           + '{{ template "a" . }}')],
    "regex": [template("r", f"{DIGITS}{{{{ regexMatch {EXPENSIVE} $t }}}}")],
    "regex-thirty": [template("r", f"{DIGITS}" + f"{{{{ regexMatch {EXPENSIVE} (substr 0 500 $t) }}}}" * 30)],
    "plain": [regexp(f"plain-{number}", f"[0-9A-Z_].{{{600 + number}}}x") for number in range(300)],
    "endless": [template("r", "{{ range 1000 }}{{ range 1000 }}x{{ end }}{{ end }}")],
    "letters": [template(f"r{number}", "{{ range until 100 }}{{ snakecase (repeat 3000 `aB1_`) }}{{ end }}")
                for number in range(20)],
    "many-alternatives": [{"name": "r", "labels": {"many": "1"}, "matchAny": [
        {"matchFeatures": regexp("r", f"^NO.*{number}$")["matchFeatures"]} for number in range(400)
    ]}],
    "slow-patterns": [regexp(f"slow-{number}", "(?i)" + "[\\x{100}-\\x{fff}]" * 800 + f"x{number}")
                      for number in range(60)],
    "unknown": [{"name": f"u{number}", "labels": {f"u{number}": "1"},
                 "matchFeatures": [{"feature": f"vendor.unknown_feature_{number:050d}"}]} for number in range(500)],
    "huge": [{"name": f"h{number}", "labels": {f"huge-{number}": "1"}, "matchFeatures": [vendor(f"{number:04x}")]}
             for number in range(4000)],
}  # fmt: skip
GOOD = [{"name": "good", "labels": {"good": "1"}, "matchFeatures": [ALWAYS]}]


class Prober:
    """Asks `/healthz` at a steady pace, over a connection of its own each time, as a kubelet does."""

    def __init__(self, port: int) -> None:
        self.times: list[float] = []
        self._url = f"http://127.0.0.1:{port}/healthz"

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._ask())
                await asyncio.sleep(1 / PER_SECOND)

    async def _ask(self) -> None:
        began = time.monotonic()
        async with aiohttp.ClientSession() as session, session.get(self._url) as answer:
            assert answer.status == 200
        self.times.append(time.monotonic() - began)


class Reporting:
    """Workers that report a changed label, one after the other in no order."""

    def __init__(self, run: Run, speaker: Speaker, nodes: int) -> None:
        self.times: list[float] = []
        self._run, self._speaker = run, speaker
        self._idle = set(range(nodes))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                if self._idle:
                    number = random.choice(sorted(self._idle))
                    self._idle.discard(number)
                    group.create_task(self._report(number))
                await asyncio.sleep(1 / PER_SECOND)

    async def _report(self, number: int) -> None:
        worker = self._speaker.worker(number)
        worker.changes = {f"{F}cpu-changed": f"v{time.time_ns()}"}
        began = time.monotonic()
        await self._speaker._deliver(worker, self._run.target, Tally())
        self.times.append(time.monotonic() - began)
        self._idle.add(number)


async def measure(nodes: int, seconds: float) -> bool:
    """Whether all is as it should be."""
    async with setting(1) as run:
        await run.grow(nodes)
        await run.start_master()
        speaker = Speaker(await asyncio.to_thread(ca_of, run), run.tokens)
        speaker.read_tokens()
        await asyncio.gather(
            *(speaker._deliver(speaker.worker(number), run.target, Tally()) for number in range(nodes))
        )
        prober, reporting = Prober(run.master.http_port), Reporting(run, speaker, nodes)
        tasks = [asyncio.create_task(one.run()) for one in (prober, reporting)]
        await asyncio.sleep(10)
        quiet = (list(prober.times), list(reporting.times))
        prober.times.clear()
        reporting.times.clear()
        before = cpu_seconds([run.master.pid])
        run.watcher.expect(map(node_name, range(nodes)), lambda labels: labels.get(F + "good") == "1")
        began = time.monotonic()
        for name, rules in (*HOSTILE.items(), ("zz-good", GOOD)):
            await asyncio.to_thread(create, run, name, rules)
            await asyncio.sleep(2)
        shown = await run.watcher.shown(seconds)
        await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))
        spent = cpu_seconds([run.master.pid]) - before
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        statuses = {name: status(run, name) for name in HOSTILE}
        return show(run, quiet, (prober.times, reporting.times), statuses, len(shown), nodes, spent)


def create(run: Run, name: str, rules: list[Json]) -> None:
    run.plane.request("POST", RULES, rule_object(name, *rules))


def status(run: Run, name: str) -> list[str]:
    """What the status says of its rules, each text once."""
    found = run.plane.request("GET", f"{RULES}/{name}").get("status", {}).get("rules", [])
    return sorted({problem["message"][:90] for rule in found for problem in rule.get("problems", ())})[:3]


def show(
    run: Run, quiet: Any, hostile: Any, statuses: dict[str, list[str]], labelled: int, nodes: int, spent: float
) -> bool:
    good = True
    for what, calm, busy in zip(("/healthz", "a report"), quiet, hostile, strict=True):
        good = good and percentile(busy, 99) <= TARGET
        for name, times in (("quiet", calm), ("hostile rules", busy)):
            shown = ", ".join(f"{one * 1e3:.0f}" for one in (percentile(times, 50), percentile(times, 99), max(times)))
            run.table.add(
                f"{what}, {name}: p50, p99, most", f"{shown} ms", f"{TARGET * 1e3:.0f}", f"{len(times)} times"
            )
    run.table.add("nodes with the good rule's label", f"{labelled}", f"{nodes}")
    run.table.add("master, CPU", f"{spent:.1f} s")
    run.table.add("master, memory", f"{resident(run.master.pid):.0f} MiB")
    run.table.show()
    for name, messages in statuses.items():
        print(f"{name}: {'; '.join(messages) or 'no problem'}")
    text = run.master.text()
    print("\n".join(line for line in text.splitlines() if "suspended" in line)[:6000])
    assert "Traceback" not in text, text[-3000:]
    return good and labelled == nodes


def percentile(times: list[float], part: int) -> float:
    return statistics.quantiles(times, n=100, method="inclusive")[part - 1]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench hostile_rules", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0, help="from the first hostile rule on")
    given = parser.parse_args()
    return int(not asyncio.run(measure(given.nodes, given.seconds)))


if __name__ == "__main__":
    raise SystemExit(main())
