"""The table of docs/dra.md: what `nfd gpus` counts on the nodes of the tests, which run on a real API server."""

from __future__ import annotations

import re

from tests.fleet.dra_objects import CASES, Case

NAME = "docs/dra.md"
ABOUT = {
    "full-gpus": "8 GPUs. Two pods share a claim for 2 GPUs. Another claim holds 1 GPU, and no pod uses it",
    "static-mig": "2 GPUs. One was divided into 7 MIG devices before the driver started. "
    "Two claims hold one MIG device each",
    "mig-on-demand": "one GPU. The driver creates a MIG device when a claim requests it. "
    "A claim holds a MIG device `3g.40gb`, so the GPU counts as allocated",
    "time-sliced": "2 GPUs. Three pods share one of them through one claim",
    "shared-capacity": "2 GPUs that several claims can share. Two claims take 20 GiB and 40 GiB "
    "of the memory of the same GPU. The memory is counted in MiB",
    "admin-access": "one GPU, and a claim with `adminAccess`",
    "missing-slice": "one of two ResourceSlices is missing",
    "two-generations": "a ResourceSlice of an older generation exists. The newest has 2 GPUs, and a claim holds one",
    "tainted": "one of 2 GPUs has a taint",
    "extended-resource": "2 GPUs. A pod requests `nvidia.com/gpu`, and the scheduler created a claim for it",
    "both-kinds": "the device plugin and the DRA driver run on one node",
    "amd-gpus": "3 GPUs. One of them has a taint, and a claim holds another one",
    "amd-partitions": "2 GPUs that were divided before the driver started. A claim holds 2 partitions",
    "amd-partitions-on-demand": "2 GPUs. The driver creates partitions on demand (AutoPartition). Claims hold 3 "
    "partitions of the first GPU, in memory mode NPS4. So the first GPU counts as allocated. The driver now sets "
    "taints on both GPUs: on all partitions with a memory mode other than NPS4, and on the device for the whole GPU. "
    "So claims can get only partitions with NPS4, also on the second GPU",
    "intel-gpus": "4 GPUs, and a claim for 2 of them",
    "gaudi": "8 Gaudi devices, all in one claim",
    "several-vendors": "one GPU of NVIDIA and 2 devices of AWS, with the same names in both drivers. A claim holds a "
    "device of AWS",
}


def page(text: str) -> str:
    """The page with its table as it must be."""
    lines = ["| node | allocated/available, of all | problem |", "| --- | --- | --- |"]
    lines += [f"| {ABOUT[name]} | {_rows(case)} | {'; '.join(case.problems)} |" for name, case in CASES.items()]
    begin, end = "<!-- counted -->\n", "<!-- end of counted -->"
    table = "\n".join(lines)
    return re.sub(f"{begin}.*?{end}", lambda _: f"{begin}{table}\n{end}", text, flags=re.DOTALL)


def _rows(case: Case) -> str:
    rows = (f"`{name}` {taken}/{offered}, of {capacity}" for name, capacity, offered, taken in case.rows)
    return "; ".join(rows) or "nothing"
