"""`config-manager`: which configuration it links, and whom it signals."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gfd.config_manager import VARIABLES, link, read_flags, read_settings
from gfd.node_config import choose
from nfd.errors import ConfigError
from tests.controlplane.cluster import ControlPlane
from tests.gfd.test_agent import wait_for

PROGRAM = [sys.executable, "-m", "gfd.config_manager"]
LABEL = "nvidia.com/device-plugin.config"

CHOICES = {
    "label": (("big", "small", ("empty",), ("big", "small")), "big"),
    "default": (("", "small", ("empty",), ("big", "small")), "small"),
    "named": (("", "", ("named", "single"), ("big", "default")), "default"),
    "single": (("", "", ("named", "single"), ("big",)), "big"),
    "empty": (("", "", ("named", "single", "empty"), ("big", "small")), ""),
}


@pytest.mark.parametrize("case", CHOICES)
def test_choice(case: str) -> None:
    arguments, wanted = CHOICES[case]
    assert choose(*arguments) == wanted


@pytest.mark.parametrize("arguments", [("odd", "", ("empty",), ("big",)), ("", "", ("named",), ("big", "small"))])
def test_nothing_fits(arguments: tuple[str, str, tuple[str, ...], tuple[str, ...]]) -> None:
    with pytest.raises(ConfigError):
        choose(*arguments)


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"NODE_NAME": ""}, "NODE_NAME"),
        ({"CONFIG_FILE_DST": ""}, "CONFIG_FILE_DST"),
        ({"ONESHOT": "maybe"}, "ONESHOT"),
        ({"FALLBACK_STRATEGIES": "named,odd"}, "FALLBACK_STRATEGIES"),
    ],
)
def test_what_is_wrong_with_the_environment(changed: dict[str, str], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        read_settings({"NODE_NAME": "n", "CONFIG_FILE_SRCDIR": "/a", "CONFIG_FILE_DST": "/b", **changed})


def test_a_link_is_made_once(tmp_path: Path) -> None:
    at = tmp_path / "config.yaml"
    assert link("/a/big", at)
    assert not link("/a/big", at)
    assert link("/dev/null", at)
    assert str(at.readlink()) == "/dev/null"


def test_a_pipe_or_a_device_is_not_replaced(tmp_path: Path) -> None:
    at = tmp_path / "config.yaml"
    os.mkfifo(at)
    with pytest.raises(OSError, match="is not a regular file"):
        link("/a/big", at)
    assert at.is_fifo()
    assert list(tmp_path.iterdir()) == [at]


def make(tmp_path: Path, plane: ControlPlane, node: str) -> dict[str, str]:
    source = tmp_path / "available"
    source.mkdir()
    for name in ("big", "small"):
        (source / name).write_text("version: v1\n")
    (source / "..data").mkdir()
    return os.environ | {
        "NODE_NAME": node,
        "CONFIG_FILE_SRCDIR": str(source),
        "CONFIG_FILE_DST": str(tmp_path / "config.yaml"),
        "DEFAULT_CONFIG": "small",
        "KUBECONFIG": str(plane.kubeconfig_for("admin")),
        "PROCESS_TO_SIGNAL": f"reader-{node}",
    }


def test_it_follows_the_label_and_signals(control_plane: ControlPlane, node_name: str, tmp_path: Path) -> None:
    control_plane.create_node(node_name)
    environment = make(tmp_path, control_plane, node_name)
    at = tmp_path / "config.yaml"
    once = subprocess.run(PROGRAM, env=environment | {"ONESHOT": "true", "SEND_SIGNAL": "false"}, check=False)
    assert once.returncode == 0
    assert at.readlink().name == "small"
    script = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {1}); print(1, flush=True); signal.sigwait({1})"
    command = [f"reader-{node_name}", "-c", script]
    reader = subprocess.Popen(command, executable=sys.executable, stdout=subprocess.PIPE, text=True)
    follower = subprocess.Popen(PROGRAM, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "1\n"
        control_plane.request("PATCH", f"/api/v1/nodes/{node_name}", {"metadata": {"labels": {LABEL: "big"}}})
        wait_for(lambda: at.readlink().name == "big", "the link leads to big")
        assert reader.wait(20) == 0, "it got the hangup"
        control_plane.request("PATCH", f"/api/v1/nodes/{node_name}", {"metadata": {"labels": {LABEL: "odd"}}})
        assert follower.wait(20) == 1
        assert follower.stderr is not None
        assert "no configuration 'odd'" in follower.stderr.read()
    finally:
        for one in (reader, follower):
            one.kill()
            one.communicate()


def test_an_unknown_node_fails(control_plane: ControlPlane, tmp_path: Path) -> None:
    environment = make(tmp_path, control_plane, "nobody")
    done = subprocess.run(PROGRAM, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "nobody" in done.stderr
    assert signal.SIGHUP == 1


@pytest.mark.parametrize("flag", ["--help", "-h", "--version", "-v"])
def test_questions_need_no_environment(flag: str) -> None:
    done = subprocess.run([*PROGRAM, flag], env={}, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "config-manager" in done.stdout
    assert not done.stderr
    assert ("FALLBACK_STRATEGIES" in done.stdout) == ("h" in flag)


@pytest.mark.parametrize("argv", [["--surprise"], ["stray"], ["--node-name"], ["--oneshot=maybe"]])
def test_usage_errors_are_one_line(argv: list[str]) -> None:
    done = subprocess.run([*PROGRAM, *argv], env={}, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert argv[0].lstrip("-").partition("=")[0] in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_flags_win_over_variables() -> None:
    answer, given = read_flags(["--node-name=n", "-oneshot", "--config-file-srcdir", "/a", "--config-file-dst=/b"])
    settings = read_settings({"NODE_NAME": "other", "ONESHOT": "false", **given})
    assert not answer
    assert (settings.node, settings.oneshot, settings.source, settings.target) == ("n", True, "/a", "/b")


def test_every_variable_has_a_flag() -> None:
    wanted = {name: "1" for name in VARIABLES if name != "FALLBACK_STRATEGIES"}
    argv = [f"--{name.lower().replace('_', '-')}={text}" for name, text in wanted.items()]
    assert read_settings(read_flags(argv)[1]) == read_settings(wanted)
