"""Which writes to the kubelet's folder ask for a scan."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from nfd.topology.triggers import Triggers

NAMES = ("cpu_manager_state", "device-plugins/kubelet_internal_checkpoint")


def replace(path: Path, text: str) -> None:
    """As the kubelet writes."""
    hidden = path.with_name(f".{path.name}1")
    hidden.write_text(text)
    hidden.rename(path)


async def woken(triggers: Triggers, seconds: float) -> bool:
    try:
        await asyncio.wait_for(triggers.wait(math.inf), seconds)
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("change", "asks"),
    [
        (lambda file: replace(file, "{}"), False),
        (lambda file: file.touch(), False),
        (lambda file: file.chmod(0o600), False),
        (lambda file: file.with_name("pods_status_manager_state").write_text("new"), False),
        (lambda file: replace(file, '{"a": 1}'), True),
        (lambda file: file.unlink(), True),
    ],
)
async def test_what_is_new_alone_asks_for_a_scan(
    tmp_path: Path, name: str, change: Callable[[Path], object], asks: bool
) -> None:
    (tmp_path / "device-plugins").mkdir()
    for one in NAMES:
        (tmp_path / one).write_text("{}")
    triggers = Triggers(str(tmp_path))
    try:
        change(tmp_path / name)
        assert await woken(triggers, 5 if asks else 0.3) == asks
        replace(tmp_path / name, "[]")
        assert await woken(triggers, 5)
    finally:
        triggers.close()
