"""A machine: QEMU in software emulation with a network that leads to one port of ours and nowhere else."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.controlplane.process import Process, free_ports
from tests.e2e.programs import eventually
from tests.vm.agent import ANSWER_SECONDS, Agent, KernelEvents
from tests.vm.disks import Disks
from tests.vm.qmp import Qmp

MASTER = "10.0.2.100"
"""Where the guest finds what listens on a port of our loopback."""
BOOT_SECONDS = 900
SYSTEMS = {"amd64": "qemu-system-x86_64", "arm64": "qemu-system-aarch64"}
TPM = "-chardev socket,id=tpm,path={} -tpmdev emulator,id=tpm,chardev=tpm -device tpm-tis,tpmdev=tpm"
RELAY = (
    "import os,socket,sys,threading\n"
    "link=socket.create_connection(('127.0.0.1',int(sys.argv[1])))\n"
    "def send():\n"
    " while data:=os.read(0,65536): link.sendall(data)\n"
    " link.shutdown(socket.SHUT_WR)\n"
    "threading.Thread(target=send,daemon=True).start()\n"
    "while data:=link.recv(65536): os.write(1,data)\n"
)
"""QEMU starts it for each connection of the guest."""


@dataclass(frozen=True)
class Hardware:
    """What a machine is made of, in the words of QEMU's command line."""

    cpu: str = "max"
    smp: str = "2"
    memory: str = "1G"
    flavour: str = "amd64"
    board: str = ""
    devices: tuple[str, ...] = ()
    """Further words, those that follow an option in the same string."""
    kernel: str = ""
    """Words for the kernel's command line."""
    tpm: bool = False
    """A TPM 2.0, by swtpm."""


@dataclass
class Machine:
    """One machine; what it leaves behind (console, sockets) lies in `folder`."""

    hardware: Hardware
    pod_disk: Path
    folder: Path
    master_port: int
    seed: Mapping[str, bytes] = field(default_factory=dict)
    http_port: int = 0
    qmp: Qmp = field(init=False, repr=False)
    agent: Agent = field(init=False, repr=False)
    events: KernelEvents = field(init=False, repr=False)
    _closing: ExitStack = field(default_factory=ExitStack, repr=False)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Boot, and wait until commands can be given."""
        self.disks.ensure()
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.http_port,) = free_ports(1)
        (self.folder / "initramfs").write_bytes(self.disks.initramfs({**machine_files(), **self.seed}))
        if self.hardware.tpm:
            self._start_tpm()
        process = Process("qemu", self.command(), self.folder / "qemu.log")
        process.start()
        self._closing.callback(process.stop, grace=0)
        try:
            self.qmp = self._closing.enter_context(closing(Qmp(self.folder / "qmp")))
            self.agent = self._closing.enter_context(closing(Agent(self.folder / "agent")))
            self.events = self._closing.enter_context(closing(KernelEvents(self.folder / "events")))
            self.qmp.ask("cont")
            self.wait_for_boot()
        except BaseException as error:
            error.add_note(process.tail() + "\n" + self.console()[-3000:])
            self.stop()
            raise

    def wait_for_boot(self) -> None:
        self.agent.hello(BOOT_SECONDS)

    def stop(self) -> None:
        """As if the power failed."""
        self._closing.close()

    def run(self, command: str, seconds: float = ANSWER_SECONDS) -> str:
        """What a shell command prints in the guest, where root runs it. Raises: GuestError if it fails."""
        return self.agent.run(command, seconds)

    def read(self, path: str) -> str:
        return self.run(f"cat {shlex.quote(path)}")

    def console(self) -> str:
        path = self.folder / "console"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def disks(self) -> Disks:
        return Disks(self.hardware.flavour)

    def command(self) -> list[str]:
        arm = self.disks.arch == "arm64"
        program = shutil.which(SYSTEMS[self.disks.arch])
        assert program, f"there is no {SYSTEMS[self.disks.arch]}"
        words = [
            *(program, "-S", "-nodefaults", "-no-user-config", "-display", "none", "-accel", "tcg,thread=multi"),
            *("-machine", self.hardware.board or ("virt,gic-version=3" if arm else "q35")),
            *("-cpu", self.hardware.cpu, "-smp", self.hardware.smp, "-m", self.hardware.memory),
            *("-kernel", str(self.disks.kernel), "-initrd", str(self.folder / "initramfs")),
            *(
                "-append",
                f"console={'ttyAMA0' if arm else 'ttyS0'} loglevel=4 net.ifnames=0 panic=1 {self.hardware.kernel}",
            ),
            *("-serial", f"file:{self.folder / 'console'}"),
            *("-qmp", f"unix:{self.folder / 'qmp'},server=on,wait=off"),
            *("-device", "virtio-serial-pci,id=lines", *self._line("agent", "virtserialport")),
            *self._line("events", "virtconsole"),
            *self._disk("host", self.disks.host, "snapshot=on"),
            *self._disk("pod", self.pod_disk, "snapshot=on"),
            *("-netdev", self._network(), "-device", "virtio-net-pci,netdev=net,romfile="),
        ]
        devices = [*self.hardware.devices, *([TPM.format(self.folder / "tpm.socket")] if self.hardware.tpm else [])]
        return [*words, *(word for each in devices for word in each.split())]

    def _start_tpm(self) -> None:
        program = shutil.which("swtpm")
        assert program, "there is no swtpm"
        state, link = self.folder / "tpm", self.folder / "tpm.socket"
        state.mkdir()
        command = [program, "socket", "--tpm2", "--tpmstate", f"dir={state}", "--ctrl", f"type=unixio,path={link}"]
        process = Process("swtpm", command, self.folder / "tpm.log")
        process.start()
        self._closing.callback(process.stop, grace=0)
        eventually(link.exists)

    def _line(self, name: str, device: str) -> list[str]:
        chardev = f"socket,id={name},path={self.folder / name},server=on,wait=off"
        return ["-chardev", chardev, "-device", f"{device},chardev={name},name={name}"]

    def _disk(self, name: str, path: Path, how: str) -> list[str]:
        return ["-drive", f"file={path},format=raw,if=none,id={name},{how}", "-device", f"virtio-blk-pci,drive={name}"]

    def _network(self) -> str:
        relay = self.folder / "relay.py"
        relay.write_text(RELAY)
        to_master = f"{sys.executable} -I -S {relay} {self.master_port}"
        here = f"hostfwd=tcp:127.0.0.1:{self.http_port}-:8081"
        return f"user,id=net,restrict=on,{here},guestfwd=tcp:{MASTER}:8080-cmd:{to_master}"


def machine_files() -> dict[str, bytes]:
    """Our programs of the guest."""
    guest = Path(__file__).parent / "inside"
    return {"usr/sbin/init": (guest / "init").read_bytes(), "usr/sbin/hotplug": (guest / "hotplug").read_bytes()}
