"""The source `nvidia` in the worker's passes: from one state of the machine to the next."""

from pathlib import Path
from typing import Any

import pytest

from gfd import discover as reading
from gfd.config import Config
from gfd.source import SOURCE
from nfd.discovery import Discovery, Plan, discover
from nfd.host import Host
from nfd.host.replay import Replay
from nfd.runtime.prometheus import render
from nfd.sources import plug_ins
from nfd.worker.metrics import Metrics
from tests.gfd.machines import A100, DGX_DISPLAY, GEFORCE, H100, ONE_SLICE, Laid, at, carved, laid
from tests.nvml.asking import needs_compiler
from tests.nvml.machines import lay_out

pytestmark = needs_compiler

SINGLE = Config(mig_strategy="single")


def scan(host: Host, before: Discovery | None = None, config: Config = Config()) -> Discovery:  # noqa: B008  # frozen
    return discover(host, Plan((SOURCE,), (SOURCE,), {"nvidia": config}), before)


def short(found: Discovery, *names: str) -> list[str | None]:
    return [found.labels.get(f"nvidia.com/gpu.{name}") for name in names]


def test_it_is_a_plug_in() -> None:
    assert SOURCE in plug_ins()


def test_three_scans_keep_the_product(tmp_path: Path) -> None:
    """MIG on with no instance, a handle that fails, and all well."""
    states = [{"devices": [carved(H100)]}, {"devices": [{**H100, "errors": {"*": 15}}]}, {"devices": [H100]}]
    with laid({"states": states}, tmp_path) as machine:
        first = scan(machine.host)
        second = scan(machine.host, first)
        third = scan(machine.host, second)
    product = "NVIDIA-H100-80GB-HBM3"
    assert short(first, "product", "count", "memory", "state") == [product, "1", "81559", "mig-pending"]
    assert short(second, "product", "count", "memory", "state") == [product, "1", "81559", "degraded"]
    assert short(third, "product", "count", "memory", "state") == [product, "1", "81559", None]
    assert [bool(one.failed) for one in (first, second, third)] == [True, True, False], "MIG devices are not known"


def test_mig_devices_are_held_while_a_gpu_is_carved_anew(tmp_path: Path) -> None:
    big = {**ONE_SLICE, "profile": "1g.20gb", "gi_enum": 9, "gi_profile_id": 15, "memory_mb": 20096}
    states = [
        {"devices": [carved(H100, *[ONE_SLICE] * 7)]},
        {"devices": [carved(H100)]},
        {"devices": [carved(H100, big)]},
    ]
    with laid({"states": states}, tmp_path) as machine:
        carved_once = scan(machine.host, config=SINGLE)
        empty = scan(machine.host, carved_once, SINGLE)
        carved_again = scan(machine.host, empty, SINGLE)
    before = short(carved_once, "product", "count", "memory", "slices.gi")
    assert before == ["NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "7", "9984", "1"]
    assert short(empty, "product", "count", "memory", "slices.gi") == before
    assert short(empty, "state") == ["mig-pending"]
    assert short(carved_again, "product", "count", "memory") == ["NVIDIA-H100-80GB-HBM3-MIG-1g.20gb", "1", "20096"]
    assert short(carved_again, "state") == [None]


def test_an_invalid_layout_is_said_and_wipes_nothing(tmp_path: Path) -> None:
    with laid({"devices": [at(1, carved(H100, ONE_SLICE)), at(2, H100)]}, tmp_path) as machine:
        found = scan(machine.host, config=SINGLE)
    assert short(found, "state", "product", "memory", "family") == [
        "mig-invalid",
        "NVIDIA-H100-80GB-HBM3",
        "81559",
        "hopper",
    ]
    assert not found.failed


def eight(lost: int | None = None) -> dict[str, Any]:
    broken = {"errors": {"nvmlDeviceGetHandleByIndex": 15}}
    return {"devices": [at(n, A100, **(broken if n == lost else {})) for n in range(8)]}


def test_a_lost_gpu_counts_for_one_more_reading(tmp_path: Path) -> None:
    with laid({"states": [eight(), eight(lost=3), eight(lost=3), eight()]}, tmp_path) as machine:
        passes = [scan(machine.host)]
        for _ in range(3):
            passes.append(scan(machine.host, passes[-1]))
    wanted = ("count", "count.present", "count.failing", "state", "product")
    name = "NVIDIA-A100-SXM4-80GB"
    assert [short(one, *wanted) for one in passes] == [
        ["8", None, None, None, name],
        ["8", None, "1", "degraded", name],
        ["7", "8", "1", "degraded", name],
        ["8", None, None, None, name],
    ]
    assert not any(one.failed for one in passes)
    assert {"present": 8, "usable": 7, "failing": 1}.items() <= passes[2].devices["nvidia"].items()
    metrics = Metrics("1", "n", 0.0)
    metrics.scanned(passes[1], 0.1, full=True)
    text = render(metrics.families(0.0), openmetrics=True)
    assert 'nfd_worker_devices{source="nvidia",state="failing"} 1\n' in text


def test_a_lost_gpu_from_the_start_removes_nothing(tmp_path: Path) -> None:
    with laid(eight(lost=3), tmp_path) as machine:
        found = scan(machine.host)
    assert short(found, "count", "count.present", "count.failing", "state") == ["7", "8", "1", "degraded"]
    assert found.failed


def test_the_majority_does_not_flip_when_one_is_silent(tmp_path: Path) -> None:
    l4 = {"name": "NVIDIA L4", "memory_mib": 23034, "compute": "8.9"}
    t4 = {"name": "Tesla T4", "memory_mib": 15360, "compute": "7.5"}
    devices = [at(1, l4), at(2, l4), at(3, t4)]
    silent = [at(1, l4), at(2, l4, errors={"*": 15}), at(3, t4)]
    with laid({"states": [{"devices": devices}, *[{"devices": silent}] * 3]}, tmp_path) as machine:
        passes = [scan(machine.host)]
        for _ in range(3):
            passes.append(scan(machine.host, passes[-1]))
    assert {short(one, "product")[0] for one in passes} == {"NVIDIA-L4"}
    assert [short(one, "count")[0] for one in passes] == ["2", "2", "1", "1"]


@pytest.mark.parametrize("code", [9, 12, 18, 999])
def test_labels_survive_a_driver_upgrade(code: int, tmp_path: Path) -> None:
    with laid(
        {"states": [{"devices": [H100]}, {"errors": {"nvmlInit": code}}, {"devices": [H100]}]}, tmp_path
    ) as machine:
        first = scan(machine.host)
        away = scan(machine.host, first)
        back = scan(machine.host, away)
    stamp = "nvidia.com/gfd.timestamp"
    state = "driver-mismatch" if code == 18 else "stale"
    assert dict(away.labels, **{stamp: ""}) == {**first.labels, "nvidia.com/gpu.state": state, stamp: ""}
    assert dict(back.labels, **{stamp: ""}) == {**first.labels, stamp: ""}
    assert int(back.labels[stamp]) >= int(first.labels[stamp])


def test_the_time_stamp_stays_while_nothing_changes(tmp_path: Path) -> None:
    with laid({"devices": [H100]}, tmp_path, {"proc/stat": "cpu 0\nbtime 1700000000\n"}) as machine:
        first = scan(machine.host)
        second = scan(machine.host, first)
        assert first.labels == second.labels
        assert first.features == second.features
        assert first.labels["nvidia.com/gfd.timestamp"] == "1700000000"
        machine.becomes({"devices": [H100], "driver": "590.44.01"})
        third = scan(machine.host, second)
    assert int(third.labels["nvidia.com/gfd.timestamp"]) > 1700000000


def test_a_removed_gpu_takes_its_labels_along(tmp_path: Path) -> None:
    with laid({"devices": [H100]}, tmp_path / "with") as machine:
        found = scan(machine.host)
    bare = Host(lay_out({"machine": {}}, tmp_path / "without"), {})
    gone = scan(bare, found)
    assert found.labels
    assert not gone.labels
    assert not gone.failed


NOTEBOOK = {
    "cuda.driver.major": "525",
    "cuda.driver.minor": "78",
    "cuda.driver.rev": "01",
    "cuda.runtime.major": "12",
    "cuda.runtime.minor": "0",
    "gpu.compute.major": "6",
    "gpu.compute.minor": "1",
    "gpu.count": "1",
    "gpu.family": "pascal",
    "gpu.machine": "4810CW0100",
    "gpu.memory": "2048",
    "gpu.product": "NVIDIA-GeForce-MX150",
}


def test_the_notebook_of_a_user(tmp_path: Path) -> None:
    """A node whose labels its owner published (GFD 0.7), replayed with an NVML library of these facts."""
    mx150 = {"name": "NVIDIA GeForce MX150", "memory_mib": 2048, "compute": "6.1"}
    notebook = Path(__file__).parents[1] / "hosts" / "notebook"
    with laid({"driver": "525.78.01", "cuda": 12000, "devices": [mx150]}, tmp_path) as machine:
        found = scan(Replay(notebook, machine.libraries.env))
    wanted = {f"nvidia.com/{name}": value for name, value in NOTEBOOK.items()}
    assert wanted.items() <= found.labels.items()
    assert len(found.labels["nvidia.com/gfd.timestamp"]) == 10


def order(machine: Laid) -> dict[str, str]:
    labels = dict(scan(machine.host).labels)
    del labels["nvidia.com/gfd.timestamp"]
    return labels


def test_the_order_of_devices_does_not_matter(tmp_path: Path) -> None:
    """Four A100 and a DGX Display, in five orders; three GeForce in six."""
    stations = []
    for place in range(5):
        devices = [A100] * 4
        devices.insert(place, DGX_DISPLAY)
        with laid({"devices": [at(n, one) for n, one in enumerate(devices)]}, tmp_path / f"dgx{place}") as machine:
            stations.append(order(machine))
    assert stations == [stations[0]] * 5
    assert stations[0]["nvidia.com/gpu.count"] == "4"
    assert "nvidia.com/gpu.mixed" not in stations[0]
    assert "nvidia.com/gpu.count.present" not in stations[0]
    geforces = []
    for number, names in enumerate((("3080", "3090", "4090"), ("4090", "3080", "3090"), ("3090", "4090", "3080"))):
        devices = [at(n, GEFORCE[name]) for n, name in enumerate(names)]
        with laid({"devices": devices}, tmp_path / f"geforce{number}") as machine:
            geforces.append(order(machine))
    assert geforces == [geforces[0]] * 3
    assert geforces[0]["nvidia.com/gpu.product"] == "NVIDIA-GeForce-RTX-3080"
    assert geforces[0]["nvidia.com/gpu.mixed"] == "true"
    assert geforces[0]["nvidia.com/gpu.model.NVIDIA-GeForce-RTX-4090.memory"] == "24564"


def test_each_model_has_the_replicas_of_its_gpus(tmp_path: Path) -> None:
    """None where all of its GPUs are in MIG mode; DRA has none at all."""
    shared = Config.model_validate(
        {"profile": "device-plugin", "sharing": {"timeSlicing": {"resources": [{"name": "gpu", "replicas": 4}]}}}
    )
    with laid({"devices": [at(1, GEFORCE["3090"]), at(2, carved(A100, ONE_SLICE))]}, tmp_path) as machine:
        replicas, with_dra = scan(machine.host, config=shared), scan(machine.host, config=Config(profile="dra"))
    assert short(replicas, "replicas") == ["4"]
    assert short(replicas, "model.NVIDIA-GeForce-RTX-3090.replicas") == ["4"]
    assert short(replicas, "model.NVIDIA-A100-SXM4-80GB.replicas") == ["0"]
    assert not [key for key in with_dra.labels if key.endswith(".replicas")]


def test_a_model_out_of_mig_mode_speaks_before_those_in_it(tmp_path: Path) -> None:
    """`nvidia.com/gpu` is the resource of whole GPUs; with all of them in MIG mode the most numerous model speaks."""
    geforce, carved_a100, carved_h100 = GEFORCE["3090"], carved(A100, ONE_SLICE), carved(H100, ONE_SLICE)
    found = []
    for number, devices in enumerate(([carved_a100, carved_a100, geforce], [carved_h100, carved_a100, carved_a100])):
        with laid({"devices": [at(n, one) for n, one in enumerate(devices)]}, tmp_path / str(number)) as machine:
            found.append(short(scan(machine.host), "product", "count", "replicas"))
    assert found == [["NVIDIA-GeForce-RTX-3090", "1", "1"], ["NVIDIA-A100-SXM4-80GB", "2", "0"]]


def test_nvml_is_open_only_during_a_scan(tmp_path: Path) -> None:
    with laid({"devices": [H100]}, tmp_path) as machine:
        first = scan(machine.host)
        calls = [call.function for call in machine.libraries.calls()]
        assert calls[0] == "nvmlInitWithFlags"
        assert calls[-1] == "nvmlShutdown"
        scan(machine.host, first)
        calls = [call.function for call in machine.libraries.calls()]
    assert calls.count("nvmlInitWithFlags") == calls.count("nvmlShutdown") == 2


def test_a_hanging_driver_does_not_block_the_scan(tmp_path: Path) -> None:
    """The device before it is read, and while the call is stuck no other one is begun."""
    devices = [at(1, H100), at(2, H100, hang={"nvmlDeviceGetName": 2})]
    config = Config(timeout="300ms")  # type: ignore[arg-type]  # as written in a file
    with laid({"devices": devices}, tmp_path) as machine:
        first = scan(machine.host, config=config)
        inits = len([call for call in machine.libraries.calls() if call.function == "nvmlInitWithFlags"])
        second = scan(machine.host, first, config)
        assert len([call for call in machine.libraries.calls() if call.function == "nvmlInitWithFlags"]) == inits
        reading._late[0].join(10)
    assert short(first, "product", "count", "count.failing", "state") == ["NVIDIA-H100-80GB-HBM3", "1", "1", "degraded"]
    assert "did not answer within 0.3 s" in " ".join(problem.reason for problem in first.problems)
    assert short(second, "product", "state") == ["NVIDIA-H100-80GB-HBM3", "stale"]
    assert first.scans["nvidia"].seconds < 1.5
    assert second.scans["nvidia"].seconds < 1.0
