"""The machines of the fleet: small trees that are brought to what the model says, one atomic step per source."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.chaos.model import AMD, AMD_DEVICE, DEVICE, Truth, wave_keys

FEATURES_D = "etc/kubernetes/node-feature-discovery/features.d"
PCI = "sys/bus/pci/devices"
CPUINFO = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nflags\t\t: fpu\n"
PLACES = {"pci": PCI, "local": FEATURES_D, "system": "etc/os-release"}
"""Of each source that can fail, the link that it reads through: to turn it is one step, as it is for a ConfigMap."""


@dataclass
class Machine:
    """One tree below `root`; `truth` is what it has at present, `spoilt` the sources that cannot read it."""

    root: Path
    truth: Truth
    spoilt: set[str] = field(default_factory=set)

    def build(self) -> None:
        for source, place in PLACES.items():
            (self.root / place).parent.mkdir(parents=True, exist_ok=True)
            if source != "system":
                (self.root / "real" / source).mkdir(parents=True)
            self._turn(source, f"/real/{source}")
        self._write("proc/cpuinfo", CPUINFO)
        self.become(self.truth)

    def become(self, truth: Truth) -> None:
        """Change what differs: each file in one step, devices one by one."""
        before, self.truth = self.truth, truth
        self._write("proc/sys/kernel/random/boot_id", f"{truth.boot}\n")
        self._write("proc/sys/kernel/osrelease", "{}.{}.{}-chaos\n".format(*truth.kernel))
        self._write("real/system", 'ID=chaos\nVERSION_ID="{}.{}"\n'.format(*truth.release))
        wave = self.root / "real/local/wave"
        if truth.wave is None:
            wave.unlink(missing_ok=True)
        else:
            self._write("real/local/wave", "".join(f"{key}={truth.wave}\n" for key in wave_keys()))
        there = {path.name for path in (self.root / "real/pci").iterdir()}
        for address in there - (truth.devices or {}).keys():
            self._unplug(address)
        for address, kind in (truth.devices or {}).items():
            if address not in there or (before.devices or {}).get(address) != kind:
                self._plug(address, *kind)

    def spoil(self, source: str, how: int) -> None:
        """The source meets something that cannot be read: a link that leads to itself, or the wrong kind of file."""
        self.spoilt.add(source)
        wrong = "/real/system/no-folder" if source == "system" else "/proc/cpuinfo"
        self._turn(source, f"/{PLACES[source]}" if how % 2 or source == "system" else wrong)

    def heal(self, source: str) -> None:
        self._turn(source, f"/real/{source}")
        self.spoilt.discard(source)

    def rebooted(self, boot: str) -> Truth:
        major, minor, revision = self.truth.kernel
        return replace(self.truth, boot=boot, kernel=(major, minor, revision + 1))

    def _plug(self, address: str, kind: str, vendor: str) -> None:
        folder = self.root / "to-be" / address
        folder.mkdir(parents=True)
        device = AMD_DEVICE if vendor == AMD else DEVICE
        values = {"class": kind, "vendor": vendor, "device": device, "subsystem_vendor": vendor}
        for name, digits in {**values, "subsystem_device": "0000"}.items():
            (folder / name).write_text(f"0x{digits}\n")
        (folder / "uevent").write_text("DRIVER=amdgpu\n" if vendor == AMD else "")
        folder.rename(self.root / "real/pci" / address)

    def _unplug(self, address: str) -> None:
        """What was there is kept, so that its inode number stays its own, as numbers in sysfs do."""
        gone = self.root / "gone"
        gone.mkdir(exist_ok=True)
        (self.root / "real/pci" / address).rename(gone / str(len(list(gone.iterdir()))))

    def _turn(self, source: str, target: str) -> None:
        new = self.root / "new-link"
        new.symlink_to(target)
        new.replace(self.root / PLACES[source])

    def _write(self, path: str, text: str) -> None:
        place = self.root / path
        if place.is_file() and place.read_text() == text:
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        new = self.root / "new"
        new.write_text(text)
        new.replace(place)
