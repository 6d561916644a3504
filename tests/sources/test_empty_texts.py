"""A file of the machine that is empty gives no label with an empty value; who writes an empty value means it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nfd.discovery import Discovery, Plan, discover
from nfd.features import Features
from nfd.host import MAX_FILE
from nfd.host.replay import RECORD, Replay
from nfd.rules.policy import ANNOTATION, LABEL, Allowed, Policy, allow
from nfd.sources import BUILT_IN, custom, fake, local
from tests.sources.hosts import make_host, scan

HOSTS = Path(__file__).parents[1] / "hosts"
MACHINES = sorted(path.parent.name for path in HOSTS.glob("*/expected"))
WRITTEN = (custom.SOURCE, fake.SOURCE, local.SOURCE)


class Blank(Replay):
    """A machine of which some files have nothing in them: all, or the one that is named."""

    def __init__(self, folder: Path, path: str = "") -> None:
        self.path, self.read = path, set[str]()
        super().__init__(folder, {})

    def data(self, path: str, limit: int = MAX_FILE) -> bytes | None:
        data = super().data(path, limit)
        if data is not None:
            self.read.add(path)
        return data if data is None or path == RECORD or self.path not in ("", path) else b"\n"


def labels(host: Replay) -> Discovery:
    try:
        return discover(host, Plan(BUILT_IN, BUILT_IN, {source.name: source.config() for source in BUILT_IN}))
    finally:
        host._tree.close()


@pytest.mark.parametrize("machine", MACHINES)
def test_no_label_is_empty_where_all_files_are(machine: str) -> None:
    found = labels(Blank(HOSTS / machine))
    assert [key for key, value in found.labels.items() if not value] == []


def test_no_label_is_empty_where_one_file_is() -> None:
    folder = HOSTS / "rhel-9.4-cascade-lake"
    whole = Blank(folder, "nothing")
    labels(whole)
    assert len(whole.read) > 50
    for path in sorted(whole.read):
        found = labels(Blank(folder, path)).labels
        assert [key for key, value in found.items() if not value] == [], path


@pytest.mark.parametrize("source", BUILT_IN, ids=lambda source: source.name)
def test_sources_whose_values_somebody_wrote(source: object) -> None:
    assert getattr(source, "written") == (source in WRITTEN)  # noqa: B009


def test_what_somebody_wrote_is_kept(tmp_path: Path) -> None:
    host = make_host(tmp_path, {f"{local.FOLDER}/a": "mine=\n"})
    assert scan(host, local.SOURCE).labels == {"mine": ""}
    rules = [{"name": "r", "labels": {"mine": ""}}]
    assert scan(host, custom.SOURCE, rules=rules).labels == {"mine": ""}
    assert scan(host, fake.SOURCE, labels={"x.example/mine": ""}).labels["x.example/mine"] == ""


def test_a_reference_to_an_empty_text_is_no_label() -> None:
    features = Features(attributes={"system.dmiid": {"sku": "", "name": "box"}})

    def lookup(feature: str, element: str) -> str | None:
        return features.attributes.get(feature, {}).get(element)

    wanted = {f"feature.node.kubernetes.io/{name}": f"@system.dmiid.{name}" for name in ("sku", "name")}
    given = allow(LABEL, {**wanted, "feature.node.kubernetes.io/mine": ""}, lookup, Policy())
    assert given.values == {"feature.node.kubernetes.io/name": "box", "feature.node.kubernetes.io/mine": ""}
    assert [one.reason for one in given.dropped] == ["reference '@system.dmiid.sku': the attribute is an empty text"]
    notes: Allowed = allow(ANNOTATION, wanted, lookup, Policy())
    assert notes.values["feature.node.kubernetes.io/sku"] == ""
