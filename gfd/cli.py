"""`gpu-feature-discovery`: GPU labels alone, for NFD's local source or as a NodeFeature object.

Exit status: 0 after a single pass or a signal, 1 if the first pass fails, 2 for what is wrong on the command line, in
the environment or in the configuration file.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nfd.runtime.signals import begin

if TYPE_CHECKING:
    from gfd.nodefeature import Guard
    from gfd.options import Choice, Config, Loaded
    from gfd.output import Output
    from nfd.host import Host


STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
"""Signals that end the program, as upstream's."""

_PR_SET_NAME = 15
_ARG_START, _ARG_END = 47, 48
"""Places in /proc/PID/stat, counted from 0 (proc(5), "arg_start", "arg_end")."""
_AFTER_NAME = 2
"""The place of the first one after the name, which may hold blanks."""


def rename_process(name: str) -> None:
    """Show `name` as argv[0], before the words of the command line, and as the name of the process.

    The kernel shows the memory in which it put argv at the start; Python has long made copies of it. Where the name
    does not fit, or /proc is not there, nothing is changed.
    """
    encoded = name.encode()
    ctypes.CDLL(None).prctl(_PR_SET_NAME, encoded, 0, 0, 0)
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        before = Path("/proc/self/cmdline").read_bytes()
    except OSError:
        return
    start, end = (int(fields[place - _AFTER_NAME]) for place in (_ARG_START, _ARG_END))
    shown = renamed(before, encoded)
    if start and len(before) == end - start and len(shown) <= len(before):
        ctypes.memmove(start, shown.ljust(len(before), b"\0"), len(before))


def renamed(command_line: bytes, name: bytes) -> bytes:
    """A command line, words ended by NULs, that began with an interpreter and the path of a program of that name."""
    words = command_line.split(b"\0")
    at = next((index for index, word in enumerate(words) if word.rpartition(b"/")[2] == name), None)
    return b"\0".join([name, *words[at + 1 :]]) if at is not None else name + b"\0"


def main() -> None:
    """The entry point. Name and signals come first, before what takes time to import."""
    rename_process("gpu-feature-discovery")
    begin(STOP)
    sys.exit(run(sys.argv[1:], os.environ))


def run(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """The program; its exit status."""
    from gfd.options import parse_options
    from nfd.errors import ConfigError, NfdError
    from nfd.runtime import log
    from nfd.runtime.stdout import say

    try:
        choice = parse_options(argv, environment)
        if choice.answer:
            say(choice.answer)
            return 0
        loaded = choice.load()
        log.setup(loaded.config.log_level)
        return work(choice, loaded, environment)
    except NfdError as error:
        log.complain("gpu-feature-discovery", error)
        return 2 if isinstance(error, ConfigError) else 1


def work(choice: Choice, loaded: Loaded, environment: Mapping[str, str]) -> int:
    """Label, or clean up. Raises NfdError."""
    from gfd.agent import Agent, log_config, make_run
    from nfd.runtime.signals import Interrupted, Signals

    if loaded.config.cleanup:
        clean_up(loaded.config)
        return 0
    log_config(loaded)
    host = open_machine(loaded, environment)
    signals = Signals(STOP)
    opening = partial(open_output, guard=signals.interruptible)
    try:
        Agent(host, choice, make_run(loaded, host.now()), opening, signals).loop()
    except Interrupted:
        return int(loaded.config.flags.gfd.oneshot)
    return 0


def open_machine(loaded: Loaded, environment: Mapping[str, str]) -> Host:
    """The machine. A host root from the environment that is not mounted, as in NVIDIA's charts, means the own file
    system."""
    from nfd.host.replay import open_host

    root = loaded.config.host_root
    if root == environment.get("NFD_HOST_ROOT") and not os.path.isdir(os.path.join(root, "sys")):  # noqa: PTH112, PTH118
        root = "/"
    return open_host(root, loaded.config.replay, environment)


def open_output(loaded: Loaded, guard: Guard) -> Output:
    """`guard` is around what waits for an API server. Raises ConfigError, KubeError if that cannot be used."""
    from gfd.output import FileOutput, StandardOutput

    flags = loaded.config.flags
    if flags.use_node_feature_api:
        from gfd.nodefeature import open_node_feature

        found = open_node_feature(loaded.config, guard)
        if found is not None:
            return found
    return FileOutput(flags.gfd.output_file) if flags.gfd.output_file else StandardOutput()


def clean_up(config: Config) -> None:
    """Remove the labels that this program wrote."""
    from gfd.output import FileOutput

    if config.flags.use_node_feature_api and config.node_name:
        from gfd.nodefeature import make_output

        make_output(config).remove()
    if config.flags.gfd.output_file:
        FileOutput(config.flags.gfd.output_file).remove()


if __name__ == "__main__":
    main()
