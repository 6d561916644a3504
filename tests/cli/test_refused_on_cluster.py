"""`nfd explain` and `nfd nodes` name the key that is not written, and who is in the way: with a real master."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from nfd.cli import main
from nfd.names import API_VERSION
from nfd.rpc.client import Reporter
from tests.controlplane.cluster import ControlPlane
from tests.e2e.programs import Program, port_of
from tests.fleet20.place import running_master
from tests.master.admission import Admission
from tests.master.conftest import BOOT, Worker
from tests.master.places import Cluster, labels_of, until

BAD, GOOD, PRESENT = (
    "feature.node.kubernetes.io/cpu-bad",
    "feature.node.kubernetes.io/cpu-good",
    "nvidia.com/gpu.present",
)


@pytest.fixture
def program(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Program]:
    with running_master(control_plane, tmp_path, "--serve-reports") as found:
        yield found


@pytest.fixture
async def admission(control_plane: ControlPlane) -> AsyncIterator[Admission]:
    found = Admission(control_plane, "told-")
    found.set_up()
    yield found
    found.clear()


async def test_what_is_refused_is_explained(
    control_plane: ControlPlane,
    program: Program,
    admission: Admission,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    place, name = Cluster(control_plane), "told-node"
    place.create(name, {}, {}, BOOT)
    place.edit(name, {"metadata": {"labels": {PRESENT: "false"}}})
    expression = f"!has(object.metadata.labels) || !('{BAD}' in object.metadata.labels)"
    await admission.forbid("no-bad", expression, {"metadata": {"labels": {BAD: "1"}}}, "Invalid", "ask the team")
    report = Worker(name).report({BAD: "1", GOOD: "1", PRESENT: "true"})
    await asyncio.to_thread(Reporter(f"127.0.0.1:{port_of(program)}").send, report)
    await until(lambda: labels_of(place, name) == {GOOD: "1", PRESENT: "false"})
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    monkeypatch.setenv("COLUMNS", "400")
    master = ["--master", f"http://localhost:{program.http_port}"]

    async def shown(*words: str) -> str:
        assert await asyncio.to_thread(main, [*words]) == 0
        return capsys.readouterr().out

    policy = "ValidatingAdmissionPolicy told-no-bad"
    text = await shown("explain", name, BAD, *master)
    assert f"{BAD} is missing" in text
    assert f"the master cannot write label {BAD} here: {policy}: " in text
    assert "ask the team" in text
    assert "use --master URL to see" in await shown("explain", name, BAD)
    assert "cannot write" not in await shown("explain", name, GOOD, *master)
    text = await shown("explain", name, PRESENT, *master)
    assert "not managed by nfd; set by somebody" in text
    assert "somebody: somebody set it to 'false', but 'true' was found" in text
    text = await shown("nodes", name, "--problems", *master)
    assert f"label {BAD} not written: {policy}" in text
    assert f"label {PRESENT} not written: somebody" in text
    rules = tmp_path / "rules.yaml"
    spec = {"rules": [{"name": "r", "labels": {GOOD: "2"}}]}
    item = {"apiVersion": API_VERSION, "kind": "NodeFeatureRule", "metadata": {"name": "told-more"}, "spec": spec}
    rules.write_text(json.dumps(item))
    plan = json.loads(await shown("plan", "--rules", str(rules), "-o", "json", *master))
    assert plan["nodes"][name] == {"labels": {"change": {GOOD: {"before": "1", "after": "2"}}}}
    (reason,) = (one["reason"] for one in plan["notDone"] if (one["kind"], one["key"]) == ("label", BAD))
    assert reason.startswith(f"rejected by {policy}: ")
    await admission.allow("no-bad", {"metadata": {"labels": {BAD: "1"}}})
    await until(lambda: BAD in labels_of(place, name))
    assert BAD not in await shown("nodes", name, *master)
    place.delete(name)
