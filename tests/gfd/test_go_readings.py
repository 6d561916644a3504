"""What Go's decoders and flag parser accept besides the obvious, and what they make of it."""

import json
from typing import Any

import pytest

from gfd.options import parse_options
from tests.gfd.test_places import read

SPELLINGS: dict[str, dict[str, Any]] = {
    "flags: {migstrategy: single, migStrategy: mixed}": {"migStrategy": "single"},
    "flags: {migStrategy: mixed}\nFlags: {migStrategy: single}": {"migStrategy": "mixed"},
    "flags: {failOnInitError: false}\nFlags: {migStrategy: single}": {
        "migStrategy": "single",
        "failOnInitError": False,
    },
    "flags: {MIGSTRATEGY: single, migStrategy: null}": {},
}


@pytest.mark.parametrize("text", SPELLINGS)
def test_several_spellings_of_a_key(text: str) -> None:
    """The decoder sees the keys sorted, and merges what it finds."""
    assert read(text)[0].flags.model_dump(by_alias=True, exclude_defaults=True) == SPELLINGS[text]


UUID = "b1028956-cfa2-0990-bf4a-5da9abb51763"
UUIDS = (UUID, UUID.replace("-", ""), f"{{{UUID}}}", f"urn:uuid:{UUID}", UUID.upper())
DEVICE_LISTS = ([], [0, "1", "0:1", 2.0, None], *([f"GPU-{one}", f"MIG-{one}", f"MIG-GPU-{one}/3/0"] for one in UUIDS))


@pytest.mark.parametrize("devices", ["all", 3, 1.0, *DEVICE_LISTS])
def test_devices_that_may_be_listed(devices: Any) -> None:
    data = {
        "imex": {"channelIDs": [0, 1.0, None]},
        "flags": {"plugin": {"deviceListStrategy": [None, "envvar"]}},
        "sharing": {"timeSlicing": {"resources": [{"name": "gpu", "replicas": 2.0, "devices": devices}]}},
    }
    config, _ = read(json.dumps(data))
    assert config.sharing.of("nvidia.com/gpu").replicas == 2


@pytest.mark.parametrize("argv", [["help"], ["h"], ["--oneshot", "help"], ["--help"], ["-h=T"]])
def test_help_is_a_word_too(argv: list[str]) -> None:
    assert "--mig-strategy" in parse_options(argv, {}).answer


@pytest.mark.parametrize("argv", [["some", "help"], ["--", "--help"], ["--help=false"], ["-v=0"]])
def test_what_asks_for_nothing(argv: list[str]) -> None:
    assert not parse_options(argv, {}).answer


@pytest.mark.parametrize(("text", "burst"), [("1_000", 1000), ("0x_1f", 31), ("0_7", 7), ("-1_0", -10), ("010", 8)])
def test_integers(text: str, burst: int) -> None:
    assert parse_options(["--kube-api-burst", text], {}).load().config.kube_api_burst == burst
