"""What a machine boots from, kept in the user's cache: kernel, initramfs, the disk of the host and that of the pod."""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.children import run, run_binary
from tests.controlplane.build import locked, print_line
from tests.vm.packages import CACHE, dependencies, refresh, sources, unpack

GUEST = Path(__file__).parent / "inside"
FORMAT = "1"
"""Changes when disks of older runs cannot be used any more."""
PACKAGES = ("busybox-static", "runc", "libseccomp2", "libc6", "libgcc-s1", "base-files")
FIRST_MODULES = ("virtio_pci", "virtio_blk", "ext4", "crc32c_generic", "virtio_console")
"""What the initramfs needs to find the disk, where the kernel has it not built in."""
BUSYBOX = "usr/bin/busybox"


@dataclass(frozen=True)
class Disks:
    """Of one kernel package, by the name it has without version: `amd64`, `cloud-amd64`, `arm64`."""

    flavour: str

    @property
    def arch(self) -> str:
        return self.flavour.rpartition("-")[2]

    @property
    def folder(self) -> Path:
        return CACHE / f"{self.flavour}-{FORMAT}"

    @property
    def kernel(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def host(self) -> Path:
        return self.folder / "host.ext4"

    @property
    def tree(self) -> Path:
        """The files of the host."""
        return self.folder / "host"

    @property
    def release(self) -> str:
        """What uname says there."""
        (modules,) = (self.tree / "usr/lib/modules").iterdir()
        return modules.name

    def ensure(self) -> None:
        """Make what is not there, half a minute once."""
        with locked(CACHE / "lock", print_line):
            if not self.host.exists():
                shutil.rmtree(self.folder, ignore_errors=True)
                self._unpack()
                make_disk(self.tree, self.host)

    def _unpack(self) -> None:
        refresh(self.arch)
        (package,) = (name for name in dependencies(f"linux-image-{self.flavour}", self.arch) if "linux-image" in name)
        unpack([*PACKAGES, package], self.arch, self.tree)
        boot, busybox = self.tree / "boot", self.tree / BUSYBOX
        next(boot.glob("vmlinuz-*")).rename(self.kernel)
        next(boot.glob("System.map-*")).unlink()
        if not busybox.exists():
            raise RuntimeError(f"no {BUSYBOX} in the package busybox-static")
        for name in run(["busybox", "--list"]).stdout.split():
            if not (self.tree / "usr/bin" / name).exists():
                (self.tree / "usr/bin" / name).symlink_to("busybox")
        for place in ("pod", "proc", "sys", "dev", "run", "tmp", "root", "etc"):
            (self.tree / place).mkdir(exist_ok=True)
        run(["busybox", "depmod", "-b", str(self.tree), self.release])

    def initramfs(self, seed: Mapping[str, bytes]) -> bytes:
        """A first file system in memory, with the files that this boot adds to the host."""
        with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
            root = Path(temporary)
            put(root / "bin/busybox", (self.tree / BUSYBOX).read_bytes(), 0o755)
            put(root / "init", (GUEST / "initramfs").read_bytes(), 0o755)
            loads = []
            for module in self.first_modules():
                put(root / "modules" / module.name, module.read_bytes())
                loads.append(f"busybox insmod /modules/{module.name}\n")
            put(root / "load-modules", "".join(loads).encode())
            for path, data in seed.items():
                put(root / "seed" / path.lstrip("/"), data, 0o755 if data.startswith(b"#!") else 0o644)
            names = b"\0".join(os.fsencode(path.relative_to(root)) for path in sorted(root.rglob("*"))) + b"\0"
            command = ["cpio", "--null", "--create", "--format=newc", "--quiet", "--owner=0:0"]
            archive = run_binary(command, input=names, cwd=root).stdout
        return gzip.compress(archive, 1)

    def first_modules(self) -> Iterator[Path]:
        """Module files in the order in which they must be loaded."""
        modules = self.tree / "usr/lib/modules" / self.release
        needs = dict(line.split(":") for line in (modules / "modules.dep").read_text().splitlines())
        by_name = {Path(path).name.removesuffix(".ko").replace("-", "_"): path for path in needs}
        wanted = [by_name[name] for name in FIRST_MODULES if name in by_name]
        ordered: dict[str, None] = {}
        for path in wanted:
            ordered.update(dict.fromkeys([*reversed(needs[path].split()), path]))
        return (modules / path for path in ordered)


def put(path: Path, data: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def make_disk(tree: Path, disk: Path) -> None:
    """An ext4 file system with these files, a tenth and 64 MiB larger than they are."""
    taken = sum(path.lstat().st_size + 4096 for path in tree.rglob("*"))
    new = disk.with_suffix(".new")
    new.parent.mkdir(parents=True, exist_ok=True)
    new.unlink(missing_ok=True)
    command = [
        "mkfs.ext4",
        "-q",
        "-F",
        "-O",
        "^has_journal",
        "-d",
        str(tree),
        str(new),
        f"{taken * 11 // 10240 + 65536}k",
    ]
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    run(command, env={**os.environ, "PATH": path})
    new.rename(disk)


PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "cpio": "cpio",
    "mkfs.ext4": "e2fsprogs",
    "busybox": "busybox-static",
}
"""What machines are made with, and the Debian packages that have it."""


def obstacle() -> str:
    """Why no machine can be made here; "" if one can."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    absent = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if absent:
        return f"machines boot with {', '.join(absent)}: apt-get install {' '.join(PROGRAMS[one] for one in absent)}"
    return "" if sources() else "machines are made of Debian's packages, whose apt sources are not here"
