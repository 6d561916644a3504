"""The embedded node store: what it keeps, what it refuses, and what it hears."""

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nfd.errors import ConfigError, Conflict, Invalid, KubeError, NotFound
from nfd.store.base import Patch
from nfd.store.file import FileStore, merge

TEXT = """\
apiVersion: v1
kind: Node
metadata:
  name: n1
  creationTimestamp: 2026-01-01T00:00:00Z
  labels:
    zone: a
    octal: "0777"
    yes-no: "yes"
    number: "1e3"
  somethingNew: [1, 2.5, {deep: null}]
spec:
  taints:
  - {key: a, effect: NoSchedule, timeAdded: "2026-01-01T00:00:00Z"}
futureField: true
status:
  capacity: {cpu: 8, vendor.io/slots: 2}
"""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FileStore]:
    (tmp_path / "n1.yaml").write_text(TEXT)
    found = FileStore(tmp_path)
    found.heard = []  # type: ignore[attr-defined]
    await found.start(found.heard.append)  # type: ignore[attr-defined]
    yield found
    await found.close()


def labelled(**labels: str | None) -> Patch:
    return Patch({"metadata": {"labels": labels}})


async def heard(store: FileStore, name: str) -> None:
    async with asyncio.timeout(5):
        while name not in store.heard:  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)
    store.heard.clear()  # type: ignore[attr-defined]


async def test_foreign_content_survives_a_patch(store: FileStore, tmp_path: Path) -> None:
    before = yaml.load(TEXT, yaml.BaseLoader)
    node = await store.patch("n1", labelled(new="true", zone=None))
    assert node.labels == {"octal": "0777", "yes-no": "yes", "number": "1e3", "new": "true"}
    after = yaml.load((tmp_path / "n1.yaml").read_text(), yaml.BaseLoader)
    assert after["metadata"].pop("labels") == node.labels
    before["metadata"].pop("labels")
    assert after == before
    assert os.stat(tmp_path / "n1.yaml").st_mode & 0o777 == 0o644  # noqa: PTH116


async def test_subresources_take_what_is_theirs(store: FileStore) -> None:
    await store.patch(
        "n1", Patch({"spec": {"taints": None}, "status": {"capacity": {"vendor.io/slots": "3"}}}, "status")
    )
    node = await store.patch("n1", Patch({"status": {"capacity": {"vendor.io/slots": "4"}}}))
    assert node.resources == {"vendor.io/slots": "3"}
    assert len(node.taints) == 1


async def test_guards(store: FileStore) -> None:
    node = store.get("n1")
    assert node is not None
    with pytest.raises(Conflict, match="resourceVersion"):
        await store.patch("n1", Patch({"metadata": {"resourceVersion": "old", "labels": {"a": "1"}}}))
    with pytest.raises(Conflict, match="uid"):
        await store.patch("n1", Patch({"metadata": {"uid": "other", "labels": {"a": "1"}}}))
    guarded = Patch({"metadata": {"resourceVersion": node.version, "labels": {"a": "1"}}})
    assert (await store.patch("n1", guarded)).labels["a"] == "1"
    with pytest.raises(Conflict, match="resourceVersion"):
        await store.patch("n1", guarded)


async def test_patch_that_changes_nothing_writes_nothing(store: FileStore, tmp_path: Path) -> None:
    before = (tmp_path / "n1.yaml").stat()
    await store.patch("n1", labelled(zone="a"))
    after = (tmp_path / "n1.yaml").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


async def test_edits_are_heard(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "n1.yaml").write_text(TEXT.replace("zone: a", "zone: b"))
    await heard(store, "n1")
    node = store.get("n1")
    assert node is not None
    assert node.labels["zone"] == "b"
    (tmp_path / "n2.yaml").write_text("kind: Node\nmetadata: {name: n2}\n")
    await heard(store, "n2")
    assert set(store.names()) == {"n1", "n2"}
    (tmp_path / "n1.yaml").unlink()
    await heard(store, "n1")
    assert store.get("n1") is None
    with pytest.raises(NotFound):
        await store.patch("n1", labelled(a="1"))


async def test_names_are_a_view(store: FileStore) -> None:
    """A caller that asks for their number in a loop over all Nodes must not make a list each time."""
    names = store.names()
    await store.ensure("n2")
    assert (len(names), set(names)) == (2, {"n1", "n2"})


async def test_own_writes_are_not_told(store: FileStore, tmp_path: Path) -> None:
    await store.patch("n1", labelled(a="1"))
    (tmp_path / "n2.yaml").write_text("kind: Node\nmetadata: {name: n2}\n")
    async with asyncio.timeout(5):
        while "n2" not in store.heard:  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)
    assert "n1" not in store.heard  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not YAML"),
        ("", "kind: Node"),
        ("[]", "kind: Node"),
        ("kind: Pod\nmetadata: {name: n2}", "kind: Node"),
        ("kind: Node\nmetadata: {name: other}", "the file name says"),
        ("kind: Node\nmetadata: []", "metadata: expected a mapping"),
        ("kind: Node\nmetadata: {name: n2, labels: {a: 1}}", "'a': 1 is not text"),
        ("kind: Node\nmetadata: {name: n2, annotations: [x]}", "annotations: expected a mapping"),
        ("kind: Node\nmetadata: {name: n2}\nspec: {taints: {}}", "spec.taints"),
        *(
            (f"kind: Node\nmetadata: {{name: n2}}\nstatus: {{conditions: {conditions}}}", f"status.conditions{place}")
            for conditions, place in [
                ("{Ready: 'True'}", ": expected a list"),
                ("Ready", ": expected a list"),
                ("[Ready]", r"\[0\]: expected a mapping"),
                ("[{type: Ready}, {status: 'True'}]", r"\[1\]: .* a text `type`"),
                ("[{type: [Ready], status: 'True'}]", r"\[0\]: .* a text `type`"),
            ]
        ),
        ("a: &a [*a]", "alias"),
        ("[" * 5000, "nest"),
        ("x: " + "y" * 2_000_000, "larger"),
    ],
)
async def test_corrupt_file_harms_its_node_alone(
    store: FileStore, tmp_path: Path, text: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "n2.yaml").write_text(text)
    async with asyncio.timeout(5):
        while not {"node file is invalid", "node file cannot be read"} & set(caplog.messages):
            await asyncio.sleep(0.01)
    for call in (store.read("n2"), store.ensure("n2"), store.patch("n2", labelled(a="1"))):
        with pytest.raises(KubeError, match=reason):
            await call
    assert (tmp_path / "n2.yaml").read_text() == text
    assert (await store.patch("n1", labelled(a="1"))).labels["a"] == "1"
    (tmp_path / "n2.yaml").write_text("kind: Node\nmetadata: {name: n2}\n")
    await heard(store, "n2")
    assert (await store.patch("n2", labelled(a="1"))).labels == {"a": "1"}


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EMFILE, errno.ENOMEM, errno.ESTALE])
@pytest.mark.parametrize("call", ["read_bytes", "Path.stat"])
async def test_a_file_that_cannot_be_read_for_a_while(
    store: FileStore, tmp_path: Path, number: int, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Node stays as it was last, a new one comes as soon as it can be read, and neither needs another change."""

    def fail(*args: object) -> bytes:
        raise OSError(number, os.strerror(number))

    before = store.get("n1")
    (tmp_path / "n1.yaml").write_text(TEXT.replace("zone: a", "zone: b"))
    (tmp_path / "n2.yaml").write_text("kind: Node\nmetadata: {name: n2}\n")
    with monkeypatch.context() as failing:
        failing.setattr(f"nfd.store.file.{call}", fail)
        store._look()
        assert (store.get("n1"), store.get("n2"), store.heard) == (before, None, [])  # type: ignore[attr-defined]
        for name in ("n1", "n2"):
            for refused in (store.read(name), store.ensure(name), store.patch(name, labelled(a="1"))):
                with pytest.raises(KubeError, match=re.escape(os.strerror(number))):
                    await refused
    store._look()
    assert sorted(store.heard) == ["n1", "n2"]  # type: ignore[attr-defined]
    node = store.get("n1")
    assert node is not None
    assert node.labels["zone"] == "b"
    assert store.get("n2") is not None


BROKEN: dict[str, Callable[[Path], None]] = {
    "link to itself": lambda path: path.symlink_to(path.name),
    "folder": lambda path: path.mkdir(),
    "pipe": lambda path: os.mkfifo(path),
    "link to nothing": lambda path: path.symlink_to("nothing"),
    "link with a name that is too long": lambda path: path.symlink_to("x" * 300),
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_an_entry_that_is_no_file_harms_its_node_alone(
    store: FileStore, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    BROKEN[kind](tmp_path / "n0.yaml")
    for number in range(3):
        (tmp_path / "n1.yaml").write_text(TEXT.replace("zone: a", f"zone: {'bcd'[number]}"))
        store._look()
        node = store.get("n1")
        assert node is not None
        assert node.labels["zone"] == "bcd"[number]
    assert caplog.messages.count("node file cannot be read") == (kind != "link to nothing")
    other = FileStore(tmp_path)
    await other.start(lambda name: None)
    assert set(other.names()) == {"n1"}
    await other.close()


@pytest.mark.parametrize("name", ["", "..", "../n1", "a/b", "/etc/passwd", "UPPER", "x" * 254, "a\0b"])
async def test_names_do_not_lead_out(store: FileStore, tmp_path: Path, name: str) -> None:
    for call in (store.read(name), store.ensure(name), store.patch(name, labelled(a="1"))):
        with pytest.raises(Invalid, match="node name"):
            await call
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".yaml") == ["n1.yaml"]


async def test_ensure_makes_a_node_once(store: FileStore) -> None:
    made = await store.ensure("n3")
    assert made is not None
    assert made.uid
    assert await store.ensure("n3") == made


async def test_readers_never_see_a_partial_file(store: FileStore, tmp_path: Path) -> None:
    async def look() -> None:
        for _ in range(300):
            assert yaml.load((tmp_path / "n1.yaml").read_text(), yaml.CSafeLoader)["kind"] == "Node"
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    for number in range(50):
        await store.patch("n1", labelled(number=str(number)))
        await asyncio.sleep(0)
    await looking
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".n")] == []


async def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="node store"):
        await FileStore(tmp_path / "file" / "nodes").start(lambda name: None)


values = st.recursive(
    st.text() | st.booleans() | st.integers(), lambda inner: st.dictionaries(st.text(max_size=2), inner), max_leaves=8
)


@given(st.dictionaries(st.text(max_size=2), values), st.dictionaries(st.text(max_size=2), values | st.none()))
def test_merge_patch(target: dict[str, object], patch: dict[str, object]) -> None:
    """RFC 7386: nulls remove, what the patch does not name stays, and twice is once."""
    merged = merge(target, patch)
    assert merge(merged, patch) == merged
    assert {key: merged.get(key) for key in target.keys() - patch.keys()} == {
        key: target[key] for key in target.keys() - patch.keys()
    }
    assert not [key for key, value in patch.items() if value is None and key in merged]
