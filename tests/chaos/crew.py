"""Several workers in one process: `python -m tests.chaos.crew HOST:PORT NODE=MACHINE…`.

Each is nfd-worker's own agent with its own flags, sources, events and reporter, in a thread; only signals reach it by
way of the main thread, since Python hands them to no other.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence

from nfd.config.flags import parse
from nfd.host.replay import open_host
from nfd.runtime.signals import Signals
from nfd.worker.agent import Agent
from nfd.worker.cli import FLAGS, load, reporter
from nfd.worker.config import ENV_PREFIX, model

INTERVAL = "10s"
LEAVE = 3.0
"""Seconds for reports under way when the process is told to end."""


class Bell(Signals):
    """Signals as an agent sees them, rung from another thread."""

    def __init__(self) -> None:
        self.stop = False
        self.reload = False
        self._interruptible = False
        self._pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def ring(self) -> None:
        self.stop = True
        os.write(self._pipe[1], b"!")


def make_agent(server: str, node: str, machine: str, bell: Bell) -> Agent:
    """As `nfd-worker --server=… --replay=…` makes it."""
    words = [
        f"--server={server}",
        f"--replay={machine}",
        "--config=",
        f"--options={{core: {{sleepInterval: {INTERVAL}}}}}",
    ]
    parsed = parse("nfd-worker", words, FLAGS, model(), ENV_PREFIX, about="")
    settings = load(parsed)
    host = open_host(parsed["host-root"], parsed["replay"], {"NODE_NAME": node})
    send = reporter(parsed, settings.interval)
    return Agent(host, node, settings, bell, send, lambda: load(parsed), live=False)


def main(argv: Sequence[str]) -> int:
    server, *members = argv
    bells, threads = [], []
    for member in members:
        node, _, machine = member.partition("=")
        bells.append(Bell())
        agent = make_agent(server, node, machine, bells[-1])
        threads.append(threading.Thread(target=agent.run, name=node, daemon=True))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    for thread in threads:
        thread.start()
    signal.sigwait({signal.SIGTERM})
    for bell in bells:
        bell.ring()
    for thread in threads:
        thread.join(LEAVE)
    sys.stderr.flush()
    os._exit(0)  # a report that is still under way would hold us up for its deadline


if __name__ == "__main__":
    main(sys.argv[1:])
