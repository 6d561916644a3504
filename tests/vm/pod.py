"""The worker's pod in a guest: the image on a disk, and the OCI bundle that tests/deploy makes of the manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.controlplane.build import locked, print_line
from tests.deploy.images import Images, name_of
from tests.deploy.pods import Pod
from tests.vm.disks import make_disk
from tests.vm.machine import MASTER
from tests.vm.packages import CACHE

PROGRAM = "nfd-worker"
ROOT = Path("/pod")
RUN = """{{
runc --root=/run/runc run --bundle={bundle} --pid-file=/run/worker.pid worker
echo $? >/run/worker.status
}} >>/run/worker.log 2>&1 3>&- &"""


def disk_of(store: Images, arch: str) -> Path:
    """A disk with the files of the worker's image as it is now; that of an older image is removed."""
    image = store.build(PROGRAM, arch)
    disk = CACHE / f"pod-{arch}-{store.number(image)}.ext4"
    with locked(CACHE.with_suffix(".lock"), print_line):
        if not disk.exists():
            for old in CACHE.glob(f"pod-{arch}-*"):
                old.unlink()
            with store.mounted(image) as root:
                make_disk(root, disk)
    return disk


def config_of(store: Images, arch: str) -> dict[str, Any]:
    """User, Env and Entrypoint of the same image."""
    return store.config(name_of(PROGRAM, arch))


@dataclass
class GuestPod(Pod):
    """Not started here: its files go with the machine, and runc starts it there. `settings` is nfd-worker.conf."""

    settings: str = ""

    def seed(self, image: Mapping[str, Any]) -> dict[str, bytes]:
        """The bundle with all it mounts, under the paths they have here."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "config.json").write_text(json.dumps(self.bundle(dict(image), ROOT, ())))
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost\n{MASTER} nfd-master\n")
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return {"etc/hostname": f"{self.node}\n".encode(), **{str(path): path.read_bytes() for path in files}}

    @property
    def run_command(self) -> str:
        return RUN.format(bundle=self.folder)

    def config_map(self, name: str) -> dict[str, str]:
        found = super().config_map(name)
        return dict.fromkeys(found, self.settings) if "nfd-worker.conf" in found else found
