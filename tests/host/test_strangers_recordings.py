"""Recordings are what strangers send: none decides what our programs load, open outside it, or connect to."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.cli.plan.recorded import folders_of
from nfd.errors import ConfigError, HostError
from nfd.host import Host
from nfd.host.record import Recorder
from nfd.host.replay import LIBRARY_VARIABLE, RECORDED_VARIABLES, Replay
from tests import children
from tests.nvml.library import compiler

VARIABLES = (
    LIBRARY_VARIABLE,
    "NFD_HOST_ROOT",
    "NFD_WORKER_SERVER",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "KUBECONFIG",
    "KUBERNETES_SERVICE_HOST",
    "NODE_ADDRESS",
    "HTTPS_PROXY",
    "http_proxy",
    "SSL_CERT_FILE",
    "PYTHONPATH",
    "GRPC_PROXY",
)
TRAP = '__attribute__((constructor)) static void sprung(void) { fclose(fopen(TRACE, "w")); }\n'
RULE = "apiVersion: nfd.k8s-sigs.io/v1alpha1\nkind: NodeFeatureRule\nmetadata: {name: r}\nspec: {rules: [{name: a}]}\n"
PROGRAMS = {
    "discover": ["-m", "nfd.cli", "discover", "--replay", "DIR"],
    "explain": ["-m", "nfd.cli", "explain", "--replay", "DIR", "-", "nvidia.com/gpu.count"],
    "plan": ["-m", "nfd.cli", "plan", "--replay", "DIR", "--rules", "RULES"],
    "record": ["-m", "nfd.cli", "record", "--replay", "DIR", "COPY"],
    "up": ["-m", "nfd.cli", "up", "--oneshot", "--replay", "DIR", "--nodes", "STATE"],
    "worker": ["-m", "nfd.worker.cli", "--oneshot", "--no-publish", "--replay", "DIR"],
    "gfd": ["-m", "gfd.cli", "--oneshot", "--output-file=", "--replay", "DIR"],
}


def recording(folder: Path, variables: dict[str, str]) -> Path:
    """A machine with an NVIDIA GPU on PCI whose record says that."""
    device = folder / "sys/bus/pci/devices/0000:3b:00.0"
    device.mkdir(parents=True)
    for name, text in {"vendor": "0x10de", "device": "0x20b0", "class": "0x030200"}.items():
        (device / name).write_text(f"{text}\n")
    (folder / "host.json").write_text(json.dumps({"environment": variables}))
    return folder


@pytest.fixture
def trap(tmp_path: Path) -> tuple[Path, Path]:
    """A library, and the file that it makes as soon as it is loaded."""
    source, library, trace = tmp_path / "trap.c", tmp_path / "libtrap.so", tmp_path / "sprung"
    source.write_text("#include <stdio.h>\n" + TRAP)
    words = [compiler() or "cc", "-shared", "-fPIC", f'-DTRACE="{trace}"', "-o", str(library), str(source)]
    children.run(words, timeout=60)
    return library, trace


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_program_loads_what_a_recording_names(program: str, trap: tuple[Path, Path], tmp_path: Path) -> None:
    """The caller's own variable does: that shows that the library would be loaded."""
    library, trace = trap
    folder = recording(tmp_path / "machine", dict.fromkeys(VARIABLES, str(library)))
    (tmp_path / "rules.yaml").write_text(RULE)
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])}

    def run(environment: dict[str, str]) -> None:
        fresh = tmp_path / f"with {len(environment)} variables"
        places = {"DIR": folder, "RULES": tmp_path / "rules.yaml", "COPY": fresh, "STATE": fresh}
        words = [str(places.get(word, word)) for word in PROGRAMS[program]]
        subprocess.run([sys.executable, *words], env=environment, capture_output=True, timeout=60, check=False)

    run(own)
    assert not trace.exists()
    run(own | {LIBRARY_VARIABLE: str(library)})
    assert trace.exists()


@given(st.dictionaries(st.sampled_from((*VARIABLES, "NODE_NAME")) | st.text(max_size=20), st.text(max_size=20)))
def test_a_recording_sets_no_other_variable(tmp_path_factory: pytest.TempPathFactory, said: dict[str, str]) -> None:
    folder = tmp_path_factory.mktemp("machine")
    (folder / "host.json").write_text(json.dumps({"environment": said}))
    host = Replay(folder)
    assert {name for name in said if host.env(name)} <= RECORDED_VARIABLES == {"NODE_NAME"}
    assert Replay(folder, {"NODE_NAME": "own"}).env("NODE_NAME") == "own"


def test_nothing_else_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()
    recorder = Recorder(Host(tmp_path / "machine", dict.fromkeys((*VARIABLES, "NODE_NAME"), "x")))
    assert [recorder.env(name) for name in VARIABLES] == ["x"] * len(VARIABLES)
    assert recorder.env("NODE_NAME") == "x"
    recorder.write(tmp_path / "out")
    assert json.loads((tmp_path / "out/host.json").read_text())["environment"] == {"NODE_NAME": "x"}


def test_no_link_leads_out(tmp_path: Path) -> None:
    """Of a machine links stay inside; of a folder of machines, those that lead out are refused."""
    (tmp_path / "secret/sys").mkdir(parents=True)
    (tmp_path / "secret/sys/key").write_text("secret")
    machine = tmp_path / "all/machine"
    (machine / "etc").mkdir(parents=True)
    (machine / "sys").symlink_to(tmp_path / "secret/sys")
    (machine / "etc/up").symlink_to("../" * 9 + f"{tmp_path}/secret/sys/key")
    (machine / "host.json").symlink_to(tmp_path / "secret/sys/key")
    host = Replay(machine)
    assert [host.text(path) for path in ("sys/key", "etc/up", f"../../..{tmp_path}/secret/sys/key")] == [None] * 3
    assert [path.name for path in folders_of([str(tmp_path / "all")])] == ["machine"]
    (tmp_path / "all/other").symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigError, match="other is a link to a place outside"):
        folders_of([str(tmp_path / "all")])
    assert [path.name for path in folders_of([str(tmp_path / "all/other")])] == ["secret"]


def test_devices_and_pipes_are_not_opened(tmp_path: Path) -> None:
    """To open a watchdog's device would start it; the kernel tells of whatever is opened (inotify(7), IN_OPEN)."""
    (tmp_path / "etc").mkdir()
    pipe = tmp_path / "etc/os-release"
    os.mkfifo(pipe)
    libc = ctypes.CDLL(None)
    events = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(events, os.fsencode(pipe), 0x20) > 0
    host = Replay(tmp_path)
    for read in (host.data, lambda path: host.head(path, 1)):
        with pytest.raises(HostError, match="is not a regular file"):
            read("etc/os-release")
    with pytest.raises(BlockingIOError):
        os.read(events, 4096)
    os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
    assert os.read(events, 4096)
    os.close(events)


@pytest.mark.parametrize("time", ["NaN", "Infinity", "-1", "1e300", "1" + "0" * 400])
def test_a_time_that_no_calendar_has_is_refused(tmp_path: Path, time: str) -> None:
    (tmp_path / "host.json").write_text(f'{{"time": {time}}}')
    with pytest.raises(ConfigError, match="seconds since the epoch"):
        Replay(tmp_path)
