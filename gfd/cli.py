"""`gpu-feature-discovery`: GPU labels alone, for NFD's local source or as a NodeFeature object.

Exit status: 0 after a single pass or a signal, 1 if the first pass fails, 2 for what is wrong on the command line, in
the environment or in the configuration file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gfd.process import hold_signals, rename_process
from nfd.stray import ignore_stray

if TYPE_CHECKING:
    from gfd.agent import Output
    from gfd.options import Choice, Loaded
    from nfd.host import Host


def main() -> None:
    """The entry point. Name and signals come first, before what takes time to import."""
    rename_process("gpu-feature-discovery")
    hold_signals()
    ignore_stray()
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

    if loaded["cleanup"]:
        clean_up(loaded)
        return 0
    tell_config(loaded)
    host = open_machine(loaded, environment)
    agent = Agent(host, choice, make_run(loaded, host.now()), open_output)
    agent.loop(LateOutput(loaded))
    return 0


def open_machine(loaded: Loaded, environment: Mapping[str, str]) -> Host:
    """The machine. A host root from the environment that is not mounted, as under NVIDIA's charts, is our own."""
    from nfd.host.replay import open_host

    root = loaded["host-root"]
    if root == environment.get("NFD_HOST_ROOT") and not os.path.isdir(os.path.join(root, "sys")):  # noqa: PTH112, PTH118
        root = "/"
    return open_host(root, loaded["replay"], environment)


def open_output(loaded: Loaded) -> Output:
    """Raises ConfigError, KubeError if the NodeFeature API cannot be used."""
    from gfd.writers import FileOutput, StandardOutput

    if loaded["use-node-feature-api"]:
        from gfd.nodefeature import open_node_feature

        found = open_node_feature(loaded)
        if found is not None:
            return found
    return FileOutput(loaded["output-file"]) if loaded["output-file"] else StandardOutput()


class LateOutput:
    """Opens the output when the devices have been read, so that a missing driver is told before a missing cluster."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
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
            self._output = open_output(self._loaded)
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
