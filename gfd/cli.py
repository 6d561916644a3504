"""`gpu-feature-discovery`: GPU labels alone, for NFD's local source or as a NodeFeature object.

Exit status: 0 after a single pass or a signal, 1 if the first pass fails, 2 for what is wrong on the command line, in
the environment or in the configuration file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gfd.process import STOP, rename_process
from nfd.signals import begin

if TYPE_CHECKING:
    from gfd.agent import Output
    from gfd.nodefeature import Guard
    from gfd.options import Choice, Loaded
    from nfd.host import Host


def main() -> None:
    """The entry point. Name and signals come first, before what takes time to import."""
    rename_process("gpu-feature-discovery")
    begin(STOP)
    sys.exit(run(sys.argv[1:], os.environ))


def run(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """The program; its exit status."""
    from gfd.options import parse_options
    from nfd import log
    from nfd.errors import ConfigError, NfdError
    from nfd.stdout import say

    try:
        choice = parse_options(argv, environment)
        if choice.answer:
            say(choice.answer)
            return 0
        loaded = choice.load()
        log.setup(loaded["log-level"])
        return work(choice, loaded, environment)
    except NfdError as error:
        log.complain("gpu-feature-discovery", error)
        return 2 if isinstance(error, ConfigError) else 1


def work(choice: Choice, loaded: Loaded, environment: Mapping[str, str]) -> int:
    """Label, or clean up. Raises NfdError."""
    from gfd.agent import Agent, make_run, tell_config
    from nfd.signals import Interrupted, Signals

    if loaded["cleanup"]:
        clean_up(loaded)
        return 0
    tell_config(loaded)
    host = open_machine(loaded, environment)
    signals = Signals(STOP)
    opening = partial(open_output, guard=signals.interruptible)
    agent = Agent(host, choice, make_run(loaded, host.now()), opening, signals)
    try:
        agent.loop(LateOutput(loaded, opening))
    except Interrupted:
        return int(loaded["oneshot"])
    return 0


def open_machine(loaded: Loaded, environment: Mapping[str, str]) -> Host:
    """The machine. A host root from the environment that is not mounted, as under NVIDIA's charts, is our own."""
    from nfd.host.replay import open_host

    root = loaded["host-root"]
    if root == environment.get("NFD_HOST_ROOT") and not os.path.isdir(os.path.join(root, "sys")):  # noqa: PTH112, PTH118
        root = "/"
    return open_host(root, loaded["replay"], environment)


def open_output(loaded: Loaded, guard: Guard) -> Output:
    """`guard` is around what waits for an API server. Raises ConfigError, KubeError if that cannot be used."""
    from gfd.writers import FileOutput, StandardOutput

    if loaded["use-node-feature-api"]:
        from gfd.nodefeature import open_node_feature

        found = open_node_feature(loaded, guard)
        if found is not None:
            return found
    return FileOutput(loaded["output-file"]) if loaded["output-file"] else StandardOutput()


class LateOutput:
    """Opens the output after the devices are read: a missing driver is reported before a missing cluster."""

    def __init__(self, loaded: Loaded, opening: Callable[[Loaded], Output]) -> None:
        self._loaded = loaded
        self._opening = opening
        self._output: Output | None = None

    @property
    def place(self) -> str:
        return self._opened().place

    @property
    def identity(self) -> object:
        return self._opened().identity

    def read(self) -> Mapping[str, str]:
        return self._opened().read()

    def write(self, labels: Mapping[str, str]) -> bool:
        return self._opened().write(labels)

    def remove(self) -> None:
        self._opened().remove()

    def _opened(self) -> Output:
        if self._output is None:
            self._output = self._opening(self._loaded)
        return self._output


def clean_up(loaded: Loaded) -> None:
    """Remove the labels that we made."""
    from gfd import output

    if loaded["use-node-feature-api"] and loaded["node-name"]:
        from gfd.nodefeature import remove_node_feature

        remove_node_feature(loaded)
    if loaded["output-file"]:
        output.remove(loaded["output-file"])


if __name__ == "__main__":
    main()
