"""Compares a feature file with what nvidia-smi says of the machine. Exit status 1 and a line for each difference."""

import csv
import re
import sys
from collections import Counter
from pathlib import Path

from tests.children import run

FIELDS = ("name", "memory.total", "driver_version", "compute_cap", "mig.mode.current")
DISPLAY_ONLY = ("DGX Display", "NVIDIA DGX Display")


def query() -> list[dict[str, str]]:
    """One mapping for each GPU that nvidia-smi lists; memory in MiB."""
    command = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    text = run(command, timeout=60).stdout
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    return [dict(zip(FIELDS, row, strict=True)) for row in rows if row[0] not in DISPLAY_ONLY]


def cuda_version() -> str:
    text = run(["nvidia-smi"], timeout=60).stdout
    found = re.search(r"CUDA Version: *([0-9]+\.[0-9]+)", text)
    return found[1] if found else ""


def wanted(gpus: list[dict[str, str]], cuda: str) -> dict[str, str]:
    """What follows from nvidia-smi alone, without MIG and sharing, for the most numerous model."""
    counts = Counter(gpu["name"] for gpu in gpus)
    model = min(counts, key=lambda name: (-counts[name], name))
    gpu = next(gpu for gpu in gpus if gpu["name"] == model)
    major, _, minor = gpu["compute_cap"].partition(".")
    labels = {
        "gpu.count": str(counts[model]),
        "gpu.product": "-".join(re.sub(r"[^A-Za-z0-9_. -]", "", model).split()),
        "gpu.compute.major": major,
        "gpu.compute.minor": minor,
        "cuda.driver-version.full": gpu["driver_version"],
        "mig.capable": str(any(one["mig.mode.current"] in ("Enabled", "Disabled") for one in gpus)).lower(),
    }
    if gpu["memory.total"].isdigit():
        labels["gpu.memory"] = gpu["memory.total"]
    return labels | ({"cuda.runtime-version.full": cuda} if cuda else {})


def main() -> int:
    gpus = query()
    if not gpus:
        print("nvidia-smi lists no GPU", file=sys.stderr)
        return 2
    found = dict(line.split("=", 1) for line in Path(sys.argv[1]).read_text().splitlines())
    differences = [
        f"{key}: {found.get(f'nvidia.com/{key}')!r}, nvidia-smi says {value!r}"
        for key, value in wanted(gpus, cuda_version()).items()
        if found.get(f"nvidia.com/{key}") != value
    ]
    print("\n".join(differences) or f"{len(gpus)} GPUs: as nvidia-smi says")
    return bool(differences)


if __name__ == "__main__":
    sys.exit(main())
