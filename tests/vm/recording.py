"""A recording made in a guest by `nfd record`, brought here and replayed."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from nfd.sources.cpu.tables import hwcap
from tests.children import run
from tests.controlplane.process import without_proxy
from tests.e2e.programs import SCRIPTS
from tests.vm.guest import Guest

HOSTS = Path(__file__).parents[1] / "hosts"
TABLE = Path(__file__).with_name("cpuinfo.tsv")


@dataclass(frozen=True)
class Recording:
    folder: Path

    @classmethod
    def of(cls, guest: Guest, folder: Path) -> Recording:
        """Made in the worker's pod, as the worker's user; `nfd record` itself compares what it replays there."""
        root = f"/proc/{guest.worker_pid()}/root/dev/recording"
        guest.machine.run(f"mkdir -m 1777 {root}")
        guest.in_pod("/opt/nfd/bin/nfd", "record", "/dev/recording/it")
        packed = guest.machine.run(f"tar -C {root}/it -cz . | base64; rm -r {root}")
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(packed))) as archive:
            archive.extractall(folder, filter="data")
        return cls(folder)

    def discovered(self, settings: dict[str, Any], node: str = "") -> dict[str, Any]:
        """What `nfd discover -o json` says of it with that configuration, in this process's place."""
        config = self.folder.with_name(f"{self.folder.name}.conf")
        config.write_text(json.dumps(settings))
        command = [str(SCRIPTS / "nfd"), "discover", f"--replay={self.folder}", f"--config={config}", "-o", "json"]
        env = {**without_proxy(), "NODE_NAME": node}
        found: dict[str, Any] = json.loads(run(command, env=env).stdout)
        config.unlink()
        return found


def disagreements(flags: set[str], cpuinfo: str) -> tuple[list[str], int]:
    """Flags that we and the kernel both know, and that only one of us found without a reason; how many both found."""
    line = next(line for line in cpuinfo.splitlines() if line.split(":")[0].strip() in ("flags", "Features"))
    kernel = set(line.partition(":")[2].split())
    found, common = [], 0
    for row in known_to_both("arm64" if line.startswith("Features") else "amd64"):
        if row.ours in flags and row.kernels not in kernel and not row.ours_alone:
            found.append(f"{row.ours} is ours alone")
        if row.kernels in kernel and row.ours not in flags and not row.kernels_alone:
            found.append(f"{row.kernels} is the kernel's alone")
        common += row.ours in flags and row.kernels in kernel
    return found, common


class Flag(NamedTuple):
    """What we call it, what the kernel calls it, and why one of us may have it alone; "" if there is no reason."""

    ours: str
    kernels: str
    ours_alone: str = ""
    kernels_alone: str = ""


def known_to_both(arch: str) -> list[Flag]:
    """On arm64 the names differ in case alone."""
    if arch == "arm64":
        return [Flag(row.flag, row.flag.lower()) for row in hwcap(arch)]
    lines = (line for line in TABLE.read_text().splitlines() if not line.startswith("#"))
    return [Flag(*line.split("\t")) for line in lines]
