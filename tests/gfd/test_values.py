"""The pure parts: names, tables, round trips, and what hostile bytes and files may not do."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfd.cli import renamed
from gfd.families import built_in, family_of, overlay, parse_capability
from gfd.inventory import (
    Driver,
    Gpu,
    Inventory,
    MigDevice,
    Node,
    Trouble,
    from_features,
    from_json,
    to_features,
    to_json,
)
from gfd.labels import label
from gfd.labels.gpus import keys
from gfd.labels.productname import compose, is_product_of, product, sanitize
from gfd.labels.settings import MIG_STRATEGIES, LabelSettings
from gfd.last_reading import resume
from gfd.nvml.mig import gigabytes, parse_profile, profile_name
from gfd.options import Config
from gfd.pci import parse_names, parse_vgpu
from nfd import names
from nfd.config.options import options
from nfd.config.section import parse_interval
from nfd.errors import ConfigError
from tests.gfd.test_places import read

MIB = 1024 * 1024

PROFILES = [
    # GPU's MiB, profile numbers, MB, name
    (40960, (0, 0), 4864, "1g.5gb"),
    (40960, (7, 0), 4864, "1g.5gb.me"),
    (40960, (2, 0), 20096, "1c.3g.20gb"),
    (81559, (9, 0), 20096, "1g.20gb"),
    (143771, (3, 3), 71424, "4g.71gb"),
    (183359, (0, 0), 22528, "1g.23gb"),
    (183359, (4, 4), 182272, "7g.180gb"),
    (189471, (1, 1), 47296, "2g.47gb"),
    (275040, (2, 2), 137408, "3g.135gb"),
    (97887, (13, 0), 24192, "1g.24gb-me"),
    (97887, (15, 0), 24192, "1g.24gb.me.all"),
    (97887, (12, 3), 97280, "4g.96gb.gfx"),
    (97887, (17, 2), 72000, "3g.72gb.gfx"),
]


@pytest.mark.parametrize(("total", "numbers", "memory", "name"), PROFILES)
def test_profile_names(total: int, numbers: tuple[int, int], memory: int, name: str) -> None:
    assert profile_name(*numbers, memory, total * MIB) == name


@pytest.mark.parametrize(("total_gib", "eighths", "rounded"), [(180, 1, 23), (186, 2, 47), (141, 4, 71), (269, 4, 135)])
def test_halves_are_rounded_up(total_gib: int, eighths: int, rounded: int) -> None:
    assert gigabytes(total_gib * 1024 * eighths // 8, total_gib * 1024 * MIB) == rounded


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("NVIDIA TITAN X (Pascal)", "NVIDIA-TITAN-X-Pascal"),
        ("Quadro RTX 6000/8000", "Quadro-RTX-60008000"),
        ("  a   b  ", "a-b"),
        ("x ( y )z", "x-y-z"),
        ("A\tB\nC", "ABC"),
        ("", ""),
    ],
)
def test_sanitize(text: str, wanted: str) -> None:
    assert sanitize(text) == wanted


def test_product_parts() -> None:
    assert product("Orin (nvgpu)", "MIG", "1g.5gb") == "Orin-nvgpu-MIG-1g.5gb"
    assert product("()", "MIG", "1g.5gb") == "-MIG-1g.5gb"
    assert product("", "MIG") == "MIG"


LONG = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
"""55 characters as a label."""


@pytest.mark.parametrize("model", [LONG, LONG.replace("Max-Q ", ""), "x" * 100, "NVIDIA L4", "()", "A- -B" * 20])
def test_no_end_that_tells_products_apart_is_lost(model: str) -> None:
    """For each model every profile, shared or not: legal as it is, and unlike the others."""
    profiles = ["", *(name for *_, name in PROFILES), "1c.7g.180gb", "1g.24gb.gfx", "2g.24gb.gfx"]
    found: dict[str, str] = {}
    for profile in dict.fromkeys(profiles):
        for suffix in ("", "-SHARED"):
            text = names.clean(compose(model, profile, suffix))
            assert text not in found or not (profile or suffix), f"{text}: {found.get(text)}"
            found[text] = profile + suffix
            if profile or suffix:
                assert len(text) <= names.MAX_NAME
                assert text.endswith(f"MIG-{profile}{suffix}" if profile else "SHARED")
            assert is_product_of(text, model) or not sanitize(model)
    assert len(found) == 2 * len(dict.fromkeys(profiles))


def test_a_long_model_is_shortened_in_its_middle() -> None:
    assert compose(LONG, "1g.24gb.gfx") == "NVIDIA-RTX-PRO-6000-Bla..-Q-Workstation-Edition-MIG-1g.24gb.gfx"
    assert compose(LONG, suffix="-SHARED") == sanitize(LONG) + "-SHARED"
    assert compose(LONG) == sanitize(LONG)
    assert compose("x" * 70) == "x" * 70, "what is not composed is cut at its end, as ever"
    assert not is_product_of(compose(LONG, "1g.24gb.gfx"), LONG.replace("Max-Q ", ""))
    assert not is_product_of("NVIDIA-L40S", "NVIDIA L4")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("MIG 1g.10gb", "1g.10gb"),
        ("MIG 1g.10gb+me", "1g.10gb.me"),
        ("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", "1c.3g.20gb"),
        ("MIG 1g.24gb-me", "1g.24gb-me"),
        ("MIG 1g.24gb+me.all", "1g.24gb.me.all"),
        ("NVIDIA A100-SXM4-40GB", ""),
        ("", ""),
        ("MIG \ufffd", ""),
    ],
)
def test_a_profile_in_a_name(text: str, name: str) -> None:
    assert parse_profile(text) == name


@pytest.mark.parametrize(
    ("capability", "family"),
    [
        ("1.3", "tesla"),
        ("4.0", ""),
        ("7.4", "volta"),
        ("7.5", "turing"),
        ("8.8", "ampere"),
        ("8.9", "ada-lovelace"),
        ("9.10", "hopper"),
        ("11.0", "blackwell"),
        ("12.1", "blackwell"),
        ("13.0", "rubin"),
        ("14.0", ""),
    ],
)
def test_families(capability: str, family: str) -> None:
    assert family_of(built_in(), *parse_capability(capability)) == family


def test_families_can_be_laid_over() -> None:
    table = overlay({"14.0": "vera", "9.0": ""})
    assert family_of(table, 14, 3) == "vera"
    assert family_of(table, 9, 0) == ""
    assert family_of(table, 8, 9) == "ada-lovelace"
    with pytest.raises(ValueError, match="'nine' is not a compute capability"):
        overlay({"nine": "x"})
    with pytest.raises(ValueError, match="'not a value' must be letters"):
        overlay({"9.0": "not a value"})


TEXTS = st.text(max_size=20)
GPUS = st.builds(
    Gpu,
    index=st.integers(0, 3),
    name=st.sampled_from(["NVIDIA L4", "Tesla T4", "NVIDIA DGX Display", "", "()", "x" * 80]),
    uuid=st.sampled_from(["", "GPU-1", "GPU-2"]),
    pci_class=st.sampled_from(["", "0x030000", "0x030200"]),
    memory=st.none() | st.integers(0, 300_000),
    memory_unified=st.booleans(),
    compute_major=st.none() | st.integers(0, 20),
    compute_minor=st.none() | st.integers(0, 9),
    mig_capable=st.none() | st.booleans(),
    mig_enabled=st.booleans(),
    mig_changing=st.booleans(),
    clique=st.sampled_from(["", "a.1", "b.2"]),
    failing=st.sampled_from(["", "GPU is lost"]),
    unread=st.sampled_from(["", "memory", "mig", "clique name"]),
    mute=st.integers(0, 2),
)
PROFILE_NAMES = st.sampled_from(["1g.5gb", "1c.3g.20gb"])
MIGS = st.builds(MigDevice, gpu=st.integers(0, 3), profile=PROFILE_NAMES, memory=st.integers(0, 9))
NODES = st.builds(
    Node,
    machine=TEXTS,
    timestamp=st.none() | st.integers(0),
    pci_gpus=st.integers(0, 4),
    vgpu_present=st.none() | st.booleans(),
)
INVENTORIES = st.builds(
    Inventory,
    backend=st.sampled_from(["nvml", "cuda"]),
    driver=st.builds(Driver, TEXTS, st.none() | st.integers(0, 99999)),
    gpus=st.lists(GPUS, max_size=3).map(tuple),
    migs=st.lists(MIGS, max_size=3).map(tuple),
    node=NODES,
    trouble=st.none() | st.sampled_from(Trouble),
    reason=TEXTS,
    stale=st.booleans(),
)


@given(INVENTORIES)
def test_round_trips(inventory: Inventory) -> None:
    assert from_json(json.loads(json.dumps(to_json(inventory)))) == inventory
    assert from_features(to_features(inventory)) == inventory


@given(INVENTORIES, st.sampled_from(MIG_STRATEGIES), st.booleans())
def test_every_label_has_a_legal_key(inventory: Inventory, strategy: str, alone: bool) -> None:
    found = label(inventory, LabelSettings(strategy, alone=alone))
    assert all(names.key_problem(key) is None for key in found.labels)
    parts = [part for key in found.labels for part in key.removeprefix("nvidia.com/").split(".")]
    assert all(names.name_problem(part) is None for part in parts)
    assert all(isinstance(value, str) for value in found.labels.values())


@given(INVENTORIES, INVENTORIES)
def test_what_was_known_is_not_forgotten_over_a_failed_reading(last: Inventory, other: Inventory) -> None:
    fresh = Inventory(trouble=Trouble.DRIVER_ERROR, node=Node(pci_gpus=9))
    if last.gpus:
        held = resume(fresh, last)
        assert held.gpus == last.gpus
        assert held.stale
    if other.trouble is None and other.gpus:
        assert [gpu.index for gpu in resume(other, last).gpus] == [gpu.index for gpu in other.gpus]


@pytest.mark.parametrize("data", [None, [], "text", {"gpus": 5}, {"gpus": [{"name": "x"}]}, {"trouble": "odd"}])
def test_what_is_no_inventory(data: Any) -> None:
    with pytest.raises(ValueError, match="not a"):
        from_json(data)


def test_model_keys_are_short_and_unlike() -> None:
    found = keys(["A" * 80, "A" * 79, "()", "B"])
    assert len(set(found)) == 4
    assert all(len(f"gpu.model.{key}.replicas") <= 63 for key in found)


@pytest.mark.parametrize(
    ("products", "wanted"),
    [
        (["()", "", "[]"], ["unnamed", "unnamed-2", "unnamed-3"]),
        (["-", "--", "unnamed"], ["unnamed", "unnamed-2", "unnamed-3"]),
        (["RTX.-5", "RTX.5", "a..b", "a-._b"], ["RTX.5", "RTX.5-2", "a.b", "a.b-2"]),
        (["A" * 44 + ".x", "A" * 44 + ".y"], ["A" * 44, "A" * 42 + "-2"]),
        (["NVIDIA-GeForce-RTX-4090"], ["NVIDIA-GeForce-RTX-4090"]),
    ],
)
def test_model_keys(products: list[str], wanted: list[str]) -> None:
    assert keys(products) == wanted


@given(st.lists(st.text(st.sampled_from("aB9-_. ()"), max_size=60), max_size=5))
def test_no_model_key_has_an_empty_or_dangling_part(products: list[str]) -> None:
    found = keys([product(text) for text in products])
    assert len(set(found)) == len(products)
    for key in found:
        assert all(names.name_problem(part) is None for part in (f"gpu.model.{key}.replicas", *key.split(".")))


def space(capability: bytes, at: int = 0xD0, status: int = 0x10) -> bytes:
    found = bytearray(256)
    found[0x06], found[0x34] = status, at
    found[at : at + len(capability)] = capability
    return bytes(found)


VERSION = b"\x00\x16" + b"460.16".ljust(10, b"\0") + b"r460_00".ljust(10, b"\0")


def test_vgpu() -> None:
    assert parse_vgpu(space(b"\x09\x68\x1bVF" + VERSION)) == ("460.16", "r460_00")
    assert parse_vgpu(space(b"\x09\x68\x21VF\x05\x06abcd" + VERSION)) == ("460.16", "r460_00")
    assert parse_vgpu(space(b"\x09\x00\x14\x01\x00" + VERSION)) is None
    assert parse_vgpu(space(b"\x09\x68\x1bVF" + VERSION, status=0)) is None


@given(st.binary(min_size=256, max_size=256), st.integers(0x40, 0xFF))
def test_no_configuration_space_is_too_odd(data: bytes, at: int) -> None:
    odd = bytearray(data)
    odd[0x06], odd[0x34] = 0x10, at
    odd[at : at + 5] = b"\x09\x40\xffVF"[: 256 - at]
    parse_vgpu(bytes(odd[:256]))


WORDS = ["version", "flags", "gfd", "migStrategy", "sharing", "timeSlicing", "mps", "resources", "name", "replicas"]
WORDS += ["rename", "devices", "imex", "channelIDs", "gpus", "mig", "pattern", "sleepInterval", "renameByDefault"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_no_configuration_is_too_odd(data: Any) -> None:
    """It is read, or refused in one line that names the file."""
    with suppress(ConfigError):
        try:
            read(json.dumps(data))
        except ConfigError as error:
            lines = str(error).splitlines()
            if len(lines) != 1 or not lines[0].startswith("config.yaml"):
                raise AssertionError(lines) from error
            raise


SLEEPS: list[tuple[Any, float]] = [
    ("60s", 60.0),
    ("0", 0.0),
    ("-5s", 0.0),
    ("1h30m", 5400.0),
    (5_000_000_000, 5.0),
    ("infinite", float("inf")),
]


@pytest.mark.parametrize(("value", "seconds"), SLEEPS)
def test_sleep(value: Any, seconds: float) -> None:
    assert parse_interval(value) == seconds


PCI_IDS = """# a comment
10dd  Other
\t2335  wrong
10de  NVIDIA Corporation
\t2335  GH100 [H200 SXM 141GB]
\t\t10de 1234  board
10df  Next
\t2335  wrong
"""


def test_pci_names() -> None:
    assert parse_names(PCI_IDS) == {"2335": "GH100 [H200 SXM 141GB]"}


def test_command_lines() -> None:
    name = b"gpu-feature-discovery"
    line = b"/usr/bin/python3\0/usr/bin/" + name + b"\0--oneshot\0-o\0\0"
    assert renamed(line, name) == name + b"\0--oneshot\0-o\0\0"
    assert renamed(b"python3\0-m\0gfd.cli\0", name) == name + b"\0"


def test_every_option_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text()
    missing = [one.mark.name for one in options(Config) if one.mark.name and f"`--{one.mark.name}`" not in page]
    assert not missing
