"""The model, which is written by hand, says of machines without faults what a scan of them finds."""

from __future__ import annotations

from argparse import Namespace
from itertools import combinations_with_replacement, product
from pathlib import Path

from nfd.cli.machine import plan_of, scan
from nfd.host.replay import Replay
from tests.chaos.machines import Machine
from tests.chaos.model import CLASSES, VENDORS, Truth, wanted_of

KINDS = list(product(CLASSES, VENDORS))


def test_the_labels_of_no_device_of_each_and_of_each_pair(tmp_path: Path) -> None:
    plan, _ = plan_of(Namespace(config="", sources=None))
    for number, kinds in enumerate([(), *((one,) for one in KINDS), *combinations_with_replacement(KINDS, 2)]):
        devices = {f"0000:{slot:02x}:00.0": kind for slot, kind in enumerate(kinds, 1)}
        machine = Machine(tmp_path / str(number), Truth("boot", devices=devices))
        machine.build()
        wanted = {key: text for keys in wanted_of(machine.truth, (), {}).values() for key, text in keys.items()}
        assert scan(Replay(machine.root, {}), plan).labels == wanted, devices
