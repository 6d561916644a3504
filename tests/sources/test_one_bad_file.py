"""Of many files in a folder one that cannot be used costs no other: what it gave before stays, the rest goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from nfd.config.section import Section
from nfd.discovery import Discovery, Plan, discover
from nfd.errors import HostError
from nfd.features import Features
from nfd.host import CUSTOM_D, Host
from nfd.host.replay import Replay
from nfd.report import State
from nfd.source import Source
from nfd.sources import custom, local
from nfd.worker.report_content import derive_states

START, EXPIRED = 1_717_200_000.0, "2024-06-01T00:10:00Z"
"""Ten minutes before that time."""


class Machine(Replay):
    """With a clock of its own."""

    time = START

    def now(self) -> float:
        return self.time


class LiveMachine(Host):
    """As a worker in a pod has it."""

    time = START

    def now(self) -> float:
        return self.time


@dataclass(frozen=True)
class Kind:
    """A source with a folder of files, and how a file says that a label has a value."""

    source: Source
    folder: str
    write: Callable[[str, str], str]


def feature_file(name: str, value: str) -> str:
    return f"{name}={value}\n# +expiry-time={EXPIRED}\nsoon-{name}=1\n"


def rule_file(name: str, value: str) -> str:
    """Each but the first looks at what the one before gave."""
    before = chr(ord(name) - 1)
    terms = "" if name == "a" else f"  matchFeatures: [{{feature: rule.matched, matchExpressions: [{before}]}}]\n"
    return f"- name: {name}\n  labels: {{{name}: '{value}'}}\n{terms}"


KINDS = {
    "local": Kind(local.SOURCE, local.FOLDER, feature_file),
    "custom": Kind(custom.SOURCE, CUSTOM_D, rule_file),
}


def too_large(path: Path) -> None:
    path.write_bytes(b"#" * (17 * 2**20))


def link_to_itself(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path.name)


def malformed(path: Path) -> None:
    path.write_text("- name: [\n")


def with_a_mistake(path: Path) -> None:
    path.write_text("- name: odd\n  labels: {odd: '1'}\n  surprise: 1\n")


SPOIL = [
    ("local", too_large),
    ("local", link_to_itself),
    ("custom", too_large),
    ("custom", link_to_itself),
    ("custom", malformed),
    ("custom", with_a_mistake),
]


@dataclass
class Node:
    """A machine whose files are a, b and c; b is the one that is spoilt."""

    kind: Kind
    root: Path

    def __post_init__(self) -> None:
        (self.root / self.kind.folder).mkdir(parents=True)
        for name in "abc":
            self.put(name, "1")
        self.restart()

    def put(self, name: str, value: str) -> None:
        self.path(name).unlink(missing_ok=True)
        self.path(name).write_text(self.kind.write(name, value))

    def path(self, name: str) -> Path:
        return self.root / self.kind.folder / name

    def restart(self) -> None:
        """Another process of the worker."""
        self.host: Machine | LiveMachine = Machine(self.root)
        self.found = Discovery()

    def scan(self) -> tuple[dict[str, str], State]:
        plan = Plan((self.kind.source,), (self.kind.source,), {self.kind.source.name: self.kind.source.config()})
        self.found = discover(self.host, plan, self.found)
        labels = {key: value for key, value in self.found.labels.items() if not key.startswith("rdma")}
        return labels, derive_states(plan, self.found)[self.kind.source.name]


@pytest.fixture
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    return Node(KINDS[request.param], tmp_path)


def soon(node: Node, *names: str) -> dict[str, str]:
    """What a feature file has for ten minutes."""
    return {f"soon-{name}": "1" for name in names} if node.kind.source is local.SOURCE else {}


@pytest.mark.parametrize(("node", "spoil"), SPOIL, indirect=["node"])
def test_a_spoilt_file_keeps_its_own_and_no_others(node: Node, spoil: Callable[[Path], None]) -> None:
    assert node.scan() == ({"a": "1", "b": "1", "c": "1", **soon(node, "a", "b", "c")}, State.FRESH)
    spoil(node.path("b"))
    node.put("a", "2")
    assert node.scan() == ({"a": "2", "b": "1", "c": "1", **soon(node, "a", "b", "c")}, State.FRESH)
    assert "b" in node.found.failed[node.kind.source.name], "and it is told"
    node.path("c").unlink()
    assert node.scan() == ({"a": "2", "b": "1", **soon(node, "a", "b")}, State.FRESH)
    node.host.time += 601
    assert node.scan() == ({"a": "2", "b": "1"}, State.FRESH)
    node.put("b", "3")
    assert node.scan() == ({"a": "2", "b": "3"}, State.FRESH)
    assert not node.found.failed
    spoil(node.path("b"))
    node.scan()
    node.path("b").unlink()
    assert node.scan() == ({"a": "2"}, State.FRESH)
    assert not node.found.failed
    spoil(node.path("b"))
    assert node.scan() == ({"a": "2"}, State.FAILED), "nobody knows what this one gave"


@pytest.mark.parametrize(("node", "spoil"), SPOIL, indirect=["node"])
def test_of_a_file_that_was_never_read_nothing_may_be_removed(node: Node, spoil: Callable[[Path], None]) -> None:
    """What it gave before this process began is on the Node."""
    spoil(node.path("c"))
    node.put("d", "1")
    node.restart()
    labels = {"a": "1", "b": "1", **soon(node, "a", "b")}
    given = {**labels, **({"d": "1", "soon-d": "1"} if node.kind.source is local.SOURCE else {})}
    assert node.scan() == (given, State.FAILED)
    node.path("b").unlink()
    assert "b" not in node.scan()[0], "here it is gone"
    node.put("c", "1")
    assert node.scan()[1] is State.FRESH


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("node", KINDS, indirect=True)
def test_a_folder_that_cannot_be_listed_holds_everything(node: Node, live: bool) -> None:
    if live:
        node.host = LiveMachine(node.root)
    before, _ = node.scan()
    folder = node.root / node.kind.folder
    folder.rename(folder.with_name("away"))
    folder.symlink_to(folder.name)
    labels, state = node.scan()
    assert state is State.FAILED
    if node.kind.source is local.SOURCE:
        assert labels == before
    folder.unlink()
    folder.with_name("away").rename(folder)
    assert node.scan() == (before, State.FRESH)


@pytest.mark.parametrize("node", ["local"], indirect=True)
def test_a_file_that_others_leave_no_room(node: Node) -> None:
    """What it said before had room, then."""
    node.scan()
    node.path("a").write_text("\n".join(f"x{number}" for number in range(local.MAX_ENTRIES)))
    labels, state = node.scan()
    assert state is State.FAILED
    assert {"b", "c"} <= labels.keys()


def test_rules_of_before_hold_while_features_are_unknown(tmp_path: Path) -> None:
    """The features of a source that has not been read yet may be what a rule needs."""
    node = Node(KINDS["custom"], tmp_path)
    node.scan()
    malformed(node.path("b"))

    def never(host: Replay, config: object) -> Features:
        raise HostError("sys", "cannot be read")

    unread = Source("unread", Section, never, lambda features, config: {})
    sources = (custom.SOURCE, unread)
    plan = Plan(sources, sources, {source.name: source.config() for source in sources})
    assert "custom" in discover(node.host, plan).doubtful
