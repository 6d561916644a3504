"""When an Xid counts, and when it is over (pure)."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from gfd.inventory import Driver, Gpu, Inventory, Node, Trouble
from gfd.labels import label
from gfd.labels.settings import LabelSettings
from gfd.recent_xids import ANY, SAFE, SETTLES, Xids

WELL = Gpu(0, name="x", uuid="GPU-1", recovery="none")
OTHER = Gpu(1, name="x", uuid="GPU-2", recovery="none")
SILENT = Gpu(0, mute=1)
LATER = SETTLES + 1


def reading(*gpus: Gpu, missing: int = 0, trouble: Trouble | None = None) -> Inventory:
    return Inventory("nvml", Driver("580", 13000), gpus, node=Node(pci_gpus=2, pci_missing=missing), trouble=trouble)


@pytest.mark.parametrize(
    ("fresh", "seconds", "over"),
    [
        (reading(WELL, OTHER), LATER, True),
        (reading(WELL, OTHER), SETTLES - 1, False),
        (reading(replace(WELL, recovery="gpu-reset"), OTHER), LATER, False),
        (reading(replace(WELL, recovery=""), OTHER), 1e6, False),  # a driver that does not report it
        (reading(replace(WELL, unread="recovery", recovery="none"), OTHER), LATER, False),
        (reading(replace(WELL, mute=1), OTHER), LATER, False),
        (reading(SILENT, OTHER), LATER, False),  # the one that is silent may be it
        (reading(OTHER, missing=1), LATER, False),  # on PCI and not in the driver's list, as after Xid 79
        (reading(OTHER), LATER, True),  # another GPU is in its place
        (reading(trouble=Trouble.NO_DRIVER), 1, True),  # the driver has been unloaded
        (reading(trouble=Trouble.DRIVER_ERROR), LATER, False),
        (reading(trouble=Trouble.MISMATCH), LATER, False),
    ],
)
def test_an_xid_is_over_when_a_reading_shows_it(fresh: Inventory, seconds: float, over: bool) -> None:
    xids = Xids()
    xids.add("GPU-1", 48, 100.0)
    xids.review(fresh, 100.0 + seconds)
    marked = xids.mark(reading(WELL, OTHER), SAFE)
    assert [gpu.xid for gpu in marked.gpus] == ["" if over else "48", ""]


def test_the_last_event_of_a_gpu_counts() -> None:
    xids = Xids()
    assert xids.add("GPU-1", 48, 0.0)
    assert not xids.add("GPU-1", 48, 50.0), "nothing new to label"
    xids.review(reading(WELL), 50.0 + SETTLES - 1)
    assert xids.mark(reading(WELL), SAFE).gpus[0].xid == "48"
    assert xids.due(50.0) == SETTLES
    assert xids.due(50.0 + SETTLES) == inf


def test_an_event_of_an_unknown_gpu_counts_for_all_of_them() -> None:
    xids = Xids()
    xids.add(ANY, 79, 0.0)
    xids.add("GPU-1", 48, 0.0)
    assert [gpu.xid for gpu in xids.mark(reading(WELL, OTHER), SAFE).gpus] == ["79 48", "79"]
    xids.review(reading(WELL, replace(OTHER, recovery="gpu-reset")), LATER)
    assert [gpu.xid for gpu in xids.mark(reading(WELL, OTHER), SAFE).gpus] == ["79", "79"]
    xids.review(reading(WELL, OTHER), LATER)
    assert xids.mark(reading(WELL, OTHER), SAFE) == reading(WELL, OTHER)


def test_xids_that_are_not_listed_any_more_are_forgotten() -> None:
    xids = Xids()
    xids.add("GPU-1", 48, 0.0)
    xids.keep((79,))
    xids.keep((79, 48))
    assert xids.mark(reading(WELL), (79, 48)).gpus[0].xid == ""


@pytest.mark.parametrize(
    ("listed", "texts", "value"),
    [(SAFE, ["48", "79 46"], "79"), ((48, 79), ["48", "79"], "48"), ((31,), ["31", ""], "31"), (SAFE, ["", ""], None)],
)
def test_the_label_names_the_xid_that_is_first_in_the_list(
    listed: tuple[int, ...], texts: list[str], value: str | None
) -> None:
    gpus = (replace(WELL, xid=texts[0]), replace(OTHER, xid=texts[1]))
    found = label(reading(*gpus), LabelSettings(alone=True, xids=listed))
    assert found.labels.get("nvidia.com/gpu.xid") == value
    assert found.labels.get("nvidia.com/gpu.state") == ("degraded" if value else None)
