"""Machines in a directory, copied from the recordings, whose parts can be taken out and put back."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from tests.children import run
from tests.controlplane.process import without_proxy
from tests.e2e.programs import SCRIPTS

HOSTS = Path(__file__).parents[1] / "hosts"
PCI = "sys/bus/pci/devices"
FEATURES_D = "etc/kubernetes/node-feature-discovery/features.d"


@dataclass
class Machine:
    """A copy of a recording below `root`, which no other test has, with a boot id of its own."""

    root: Path
    boot_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @classmethod
    def like(cls, recording: str, root: Path) -> Machine:
        shutil.copytree(HOSTS / recording, root, symlinks=True)
        shutil.rmtree(root / "expected", ignore_errors=True)
        machine = cls(root)
        machine.write("proc/sys/kernel/random/boot_id", f"{machine.boot_id}\n")
        machine.write("proc/stat", "btime 1735689600\n")
        return machine

    def write(self, path: str, text: str) -> None:
        """Replace a file as a whole."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        new = self.root / "new"
        new.write_text(text)
        new.replace(self.root / path)

    def plug(self, address: str, kind: str, vendor: str, device: str = "0001") -> None:
        """Put a PCI device in; `kind` is its class, six digits (kernel ABI/testing/sysfs-bus-pci)."""
        folder = self.root / "devices-to-be" / address
        folder.mkdir(parents=True)
        values = {"class": kind, "vendor": vendor, "device": device, "subsystem_vendor": vendor}
        for name, digits in {**values, "subsystem_device": "0000"}.items():
            (folder / name).write_text(f"0x{digits}\n")
        (self.root / PCI).mkdir(parents=True, exist_ok=True)
        folder.rename(self.root / PCI / address)

    def unplug(self, address: str) -> None:
        """Take a device out that `plug` put in, or a recorded one: at once, as the kernel does."""
        entry = self.root / PCI / address
        if entry.is_symlink():
            entry.unlink()
            return
        gone = entry.rename(self.root / f"gone-{uuid.uuid4()}")
        shutil.rmtree(gone)

    def spoil(self, path: str) -> None:
        """Put a file where a folder was: what is below cannot be listed any more."""
        (self.root / path).rename(self.kept(path))
        (self.root / path).write_text("")

    def mend(self, path: str) -> None:
        """Undo `spoil`."""
        (self.root / path).unlink()
        self.kept(path).rename(self.root / path)

    def kept(self, path: str) -> Path:
        return self.root / f"kept-{path.replace('/', '-')}"


def discovered(*flags: str) -> dict[str, str]:
    """What `nfd discover` prints: the labels that a master with default settings puts on the Node."""
    command = [str(SCRIPTS / "nfd"), "discover", *flags, "-o", "labels"]
    return parse_labels(run(command, env=without_proxy()).stdout)


def expected_labels(recording: str) -> dict[str, str]:
    """What the recording says the machine must be labelled."""
    return parse_labels((HOSTS / recording / "expected/labels.txt").read_text())


def parse_labels(text: str) -> dict[str, str]:
    """KEY=VALUE lines."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {key: value for key, _, value in pairs}
