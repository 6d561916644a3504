"""The table of docs/dra.md: what `nfd gpus` counts on the nodes of the tests, which run on a real API server."""

from __future__ import annotations

import re

from tests.fleet.dra_objects import CASES, Case

NAME = "docs/dra.md"
ABOUT = {
    "full-gpus": "8 GPUs; two pods share a claim of 2; a claim of 1 has no pod at the moment",
    "static-mig": "2 GPUs, one of them divided into 7 MIG devices",
    "mig-on-demand": "one GPU whose MIG devices are made by claims; one is taken",
    "time-sliced": "2 GPUs; pods share one of them through one claim",
    "shared-capacity": "GPUs of which claims take an amount of memory",
    "admin-access": "a claim with `adminAccess`",
    "incomplete": "one slice of two is missing",
    "two-generations": "slices of an older generation are still there",
    "tainted": "one of 2 GPUs has a taint",
    "extended-resource": "a pod requests `nvidia.com/gpu`, and the scheduler made a claim for it",
    "both-kinds": "device plugin and DRA driver on one node",
    "amd-gpus": "3 GPUs, one with a taint",
    "amd-partitions": "2 GPUs, divided before the driver started",
    "amd-partitions-on-demand": "2 GPUs with AutoPartition; claims have 3 partitions of one, in the memory mode NPS4",
    "intel-gpus": "4 GPUs, a claim of 2",
    "gaudi": "8 Gaudi, all in one claim",
    "several-vendors": "drivers of NVIDIA and AWS, whose devices have the same names",
}


def page(text: str) -> str:
    """The page with its table as it must be."""
    lines = ["| what is there | allocated/available, of all | problem |", "| --- | --- | --- |"]
    lines += [f"| {ABOUT[name]} | {_rows(case)} | {'; '.join(case.problems)} |" for name, case in CASES.items()]
    begin, end = "<!-- counted -->\n", "<!-- end of counted -->"
    table = "\n".join(lines)
    return re.sub(f"{begin}.*?{end}", lambda _: f"{begin}{table}\n{end}", text, flags=re.DOTALL)


def _rows(case: Case) -> str:
    rows = (f"`{name}` {taken}/{offered}, of {capacity}" for name, capacity, offered, taken in case.rows)
    return "; ".join(rows) or "nothing"
