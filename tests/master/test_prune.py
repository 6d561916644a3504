"""`nfd-master --prune`: nothing of ours is left, everything else stays."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.master.conftest import BOOT, Masters, Worker, send
from tests.master.places import Folder, Place, labels_of, notes_of

F = "feature.node.kubernetes.io/"
N = "nfd.node.kubernetes.io/"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Folder(tmp_path)


async def nfd_master(*argv: str) -> tuple[int, str, str]:
    """The program itself: exit status, stdout, stderr."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "nfd.master.cli", *argv),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 30)
    return process.returncode or 0, out.decode(), err.decode()


async def test_prune(place: Folder, masters: Masters, name: str) -> None:
    place.create(name, {"zone": "a", F + "foreign": "1"}, {"note": "b", N + "worker.version": "0.13"}, BOOT)
    place.create("untouched", {F + "foreign": "1"}, {}, BOOT)
    master = await masters.start()
    await send(master, Worker(name).report({F + "cpu-a": "1", "nvidia.com/gpu.count": "8"}))
    await master.stop()
    before = place.get(name)
    where = f"file:{place.path}"
    status, listed, _ = await nfd_master("--prune", "--dry-run", "--node-store", where)
    assert status == 0
    assert place.get(name) == before
    assert f"{name} labels {F}cpu-a" in listed.splitlines()
    status, done, _ = await nfd_master("-prune", f"-node-store={where}")
    assert (status, done) == (0, listed)
    assert labels_of(place, name) == {"zone": "a", F + "foreign": "1"}
    assert notes_of(place, name) == {"note": "b"}
    assert (await nfd_master("--prune", "--node-store", where))[:2] == (0, "")


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--node-store", "etcd"], "must be `kubernetes` or `file:DIR`"),
        (["--port", "70000"], "is not a port number"),
        (["--instance", "-x"], "-instance"),
        (["--ca-file", "x"], "all three or none"),
        (["--no-such"], "unknown flag"),
        (["--options", "nfdApiParallelism: 0"], "nfdApiParallelism"),
        (["--nfd-api-parallelism", "999999999999"], "nfd-api-parallelism"),
        (["--options", "denyLabelNs: ["], "--options"),
        (["--feature-gates", "Nothing=true"], "is not a feature gate"),
    ],
)
async def test_usage_errors_are_one_line_and_exit_2(argv: list[str], reason: str) -> None:
    status, out, err = await nfd_master(*argv)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert reason in err


async def test_flags_of_both_generations(tmp_path: Path) -> None:
    flags = (
        "-config=/nonexistent -options= -kubeconfig= -port=8080 -instance= -extra-label-ns=a,b -deny-label-ns=*c "
        "-label-whitelist=. -enable-taints -resync-period=1h -nfd-api-parallelism=10 -informer-page-size=200 "
        "-feature-gates=NodeFeatureAPI=true,DisableAutoPrefix=false,NodeFeatureGroupAPI=false -metrics=8081 "
        "-grpc-health=8082 -crd-controller=true -featurerules-controller=true -enable-nodefeature-api=false "
        "-resource-labels=x -verify-node-name=false -ca-file= -cert-file= -key-file= -v=1 -logtostderr -prune"
    )
    status, out, err = await nfd_master(*flags.split(), f"-node-store=file:{tmp_path}")
    assert (status, out) == (0, ""), err
