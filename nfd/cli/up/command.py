"""Run worker and master on this machine, without a cluster: scan, report over gRPC on loopback, label a Node object in
a folder, show it, and follow changes until interrupted."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path

from nfd.cli.machine import add_machine_flags, add_scan_flags, config_of, host_of, plan_with
from nfd.cli.parsers import path
from nfd.cli.terminal_tables import Style, problems, style_of, table
from nfd.config import yamltext
from nfd.config.load import Contents
from nfd.config.reload import FilesInUse
from nfd.errors import NfdError
from nfd.features import Problem
from nfd.message_text import visible
from nfd.report import Reply, Report
from nfd.rpc.client import Reporter
from nfd.rules.policy import Policy, prefix_keys
from nfd.runtime import log
from nfd.runtime.file_watches import Folder
from nfd.runtime.signals import Signals
from nfd.store.file import check_node
from nfd.worker.agent import Agent, WorkerSettings
from nfd.worker.cli import config_folders, node_name

BEAT = 60.0


def add_flags(parser: ArgumentParser) -> None:
    add_machine_flags(parser)
    add_scan_flags(parser)
    folder = own_folder()
    about = f"folder of Node objects ({folder or 'required without $HOME and $XDG_STATE_HOME'})"
    parser.add_argument("--nodes", metavar="DIR", type=path, default=folder, required=not folder, help=about)
    parser.add_argument("--oneshot", action="store_true", help="end after the first pass")


def own_folder() -> str:
    """The user's folder for states (XDG Base Directory Specification); "" without a home directory."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111  it never raises
    return "" if state.startswith("~") else str(Path(state, "nfd/nodes"))


def run(args: Namespace) -> int:
    from nfd.cli.up.local_master import LOOPBACK, LocalMaster

    log.setup("warning")
    host, signals = host_of(args), Signals()
    node = node_name(host)
    in_use, contents = FilesInUse(), Contents(args.config or "")
    settings, odd = _settings(args, in_use)
    nodes = Path(args.nodes)
    with LocalMaster(nodes) as master:
        screen = Screen(nodes / f"{node}.yaml", node, style_of(sys.stdout), (*odd, *settings.plan.problems))
        reporter = Reporter(f"{LOOPBACK}:{master.port}", BEAT)

        unshown: list[Exception] = []

        def send(report: Report) -> Reply:
            reply = reporter.send(report)
            try:
                screen.show(report)
            except (NfdError, OSError) as error:  # an error of the screen, not of the worker, ends the command
                unshown.append(error)
                signals.stop = True
            return reply

        folders, live = _folders(args), not args.replay
        agent = Agent(
            host,
            node,
            settings,
            signals,
            send,
            lambda: _reload(args, in_use),
            folders=folders,
            changed=contents.changed,
            live=live,
        )
        screen.stays = not args.oneshot
        delivered = True
        if args.oneshot:
            delivered = agent.run_once()
        else:
            agent.run()
        if unshown:
            raise unshown[0]
        if args.oneshot:
            return 0 if delivered else 1
    if master.failed:
        return 1
    screen.end()
    return 0


def _folders(args: Namespace) -> tuple[Folder, ...]:
    """The folders in which a change of the configuration is noticed. A pipe cannot be read twice."""
    once = args.oneshot or args.config is None or not Path(args.config).is_file()
    return () if once else config_folders(args.config)


def _reload(args: Namespace, in_use: FilesInUse) -> WorkerSettings:
    """The reloaded settings; problems are logged, as a worker does."""
    settings, odd = _settings(args, in_use)
    for one in odd:
        log.get("worker").warning("configuration", path=one.subject, error=one.reason)
    return settings


def _settings(args: Namespace, in_use: FilesInUse) -> tuple[WorkerSettings, tuple[Problem, ...]]:
    config, odd = config_of(args, in_use)
    core = config.core
    return WorkerSettings(
        plan_with(config, args.sources), core.sleep_interval, unpublished=core.no_publish_features
    ), odd


class Screen:
    """Shows the Node object: a table at first, then changes."""

    def __init__(self, path: Path, node: str, style: Style, odd: tuple[Problem, ...]) -> None:
        self._path, self._node, self._style, self._odd = path, node, style, odd
        self._shown: Mapping[str, str] | None = None
        self.stays = False
        """Whether changes will be shown, too."""

    def show(self, report: Report) -> None:
        """Print the labels of the Node, or what changed since the last time."""
        labels = self._labels()
        if self._shown is None:
            self._show_all(labels, report)
        else:
            self._show_changes(self._shown, labels)
        self._shown = labels
        sys.stdout.flush()

    def end(self) -> None:
        """Say that the command ended normally, and where the labels are."""
        print(self._style.dim(f"ended; the labels stay in {self._path}"))

    def _labels(self) -> dict[str, str]:
        data = yamltext.parse(self._path.read_bytes(), str(self._path)).data
        return dict(check_node(data, self._node, path=str(self._path)).labels)

    def _show_all(self, labels: Mapping[str, str], report: Report) -> None:
        origins = prefix_keys(report.origins, Policy())
        parts = [f"{self._style.head(f'node {self._node}')}: {len(labels)} labels", table(labels, origins, self._style)]
        if self._odd:
            parts.append(problems(self._odd, self._style))
        print("\n\n".join([*parts, self._style.dim(f"the Node object is in {self._path}")]))
        if self.stays:
            print(self._style.dim("watching for changes; press Ctrl-C to stop"))

    def _show_changes(self, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        for key in sorted(before.keys() | now.keys()):
            if key not in now:
                print(self._style.bad(visible(f"- {key}={before[key]}")))
            elif before.get(key) != now[key]:
                print(self._style.value(visible(f"{'~' if key in before else '+'} {key}={now[key]}")))
