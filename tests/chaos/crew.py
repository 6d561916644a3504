"""Several workers in one process: `python -m tests.chaos.crew HOST:PORT FOLDER NODE=MACHINE…`.

Each is nfd-worker's own agent with its own flags, sources, events and reporter, in a thread; only signals reach it by
way of the main thread, since Python hands them to no other. FOLDER has what their pods mount, and `acknowledged`, to
which each answer of a master adds a line.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from nfd.config.flags import parse
from nfd.host.replay import open_host
from nfd.report import Reply, Report
from nfd.report_request import ENTRY
from nfd.runtime.signals import Signals
from nfd.worker.agent import Agent, Send
from nfd.worker.cli import FLAGS, load, reporter
from nfd.worker.config import ENV_PREFIX, model
from nfd.worker.report_request_file import EpochFile
from tests.chaos.stamps import Acknowledged, stamp_of, write_line

INTERVAL = "10s"
LEAVE = 3.0
"""Seconds for reports under way when the process is told to end."""
MOUNT, TOKENS, ACKNOWLEDGED = "mount", "tokens", "acknowledged"
"""In the folder of a crew: the ConfigMap, a token for each node, and what masters have answered."""
NAME = "nfd-master"
"""In the certificates of all masters."""


class Bell(Signals):
    """Signals as an agent sees them, rung from another thread."""

    def __init__(self) -> None:
        super().__init__(stop=())

    def ring(self) -> None:
        self.stop = True
        os.write(self._pipe[1], b"!")


def make_agent(server: str, folder: Path, node: str, machine: str, bell: Bell) -> Agent:
    """As `nfd-worker --replay=…` makes it with the flags of the manifests."""
    words = [
        f"--server={server}",
        f"--server-name-override={NAME}",
        f"--server-ca-file={folder / MOUNT / 'ca.crt'}",
        f"--epoch-file={folder / MOUNT / ENTRY}",
        f"--token-file={folder / TOKENS / node}",
        f"--replay={machine}",
        "--config=",
        f"--options={{core: {{sleepInterval: {INTERVAL}}}}}",
    ]
    parsed = parse("nfd-worker", words, FLAGS, model(), ENV_PREFIX, about="")
    settings = load(parsed)
    host = open_host(parsed["host-root"], parsed["replay"], {"NODE_NAME": node})
    send, epoch = recorded(reporter(parsed, settings.interval), folder / ACKNOWLEDGED), EpochFile(parsed["epoch-file"])
    return Agent(host, node, settings, bell, send, lambda: load(parsed), live=False, epoch=epoch)


def recorded(send: Send, file: Path) -> Send:
    """The same, with a line in that file for each report that a master has answered."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def deliver(report: Report) -> Reply:
        reply = send(report)
        os.write(descriptor, write_line(Acknowledged(report.node, stamp_of(report), time.monotonic())))
        return reply

    return deliver


def main(argv: Sequence[str]) -> int:
    server, folder, *members = argv
    bells, threads = [], []
    for member in members:
        node, _, machine = member.partition("=")
        bells.append(Bell())
        agent = make_agent(server, Path(folder), node, machine, bells[-1])
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
