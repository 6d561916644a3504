"""A variable of an empty text, for every option of every program: it ends none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gfd.options import Config as GfdConfig
from gfd.options import parse_options
from nfd.config.flags import Extra, configure, parse
from nfd.config.options import Kind, Option, options
from nfd.config.section import Section
from nfd.master import cli as master_cli
from nfd.master.config import Config as MasterConfig
from nfd.topology import cli as topology_cli
from nfd.worker import cli as worker_cli
from nfd.worker.config import model as worker_model

PROGRAMS = ((GfdConfig, ""), (MasterConfig, "NFD_MASTER"), (worker_model(), "NFD_WORKER"))
TEXTS = {"GFD_OUTPUT_FILE", "GFD_MACHINE_TYPE_FILE", "DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"}
"""Of gpu-feature-discovery: the empty text is another value than the default."""


def names() -> list[tuple[type[Section], str, Option, str]]:
    return [(one, prefix, leaf, name) for one, prefix in PROGRAMS for leaf in options(one, prefix) for name in leaf.env]


@pytest.mark.parametrize(
    ("model", "prefix", "leaf", "name"), names(), ids=lambda one: one if isinstance(one, str) and "_" in one else ""
)
def test_it_stands_for_the_default_or_for_nothing(
    model: type[Section], prefix: str, leaf: Option, name: str, tmp_path: Path
) -> None:
    extras = worker_cli.FLAGS[:2]
    words = ["--config", f"{tmp_path}/none"]
    parsed = parse("prog", words, extras, model, prefix, environment={name: ""})
    config, findings = configure(model, parsed)
    known = configure(model, parse("prog", words, extras, model, prefix, environment={})).findings
    assert findings == known
    if parsed.layers:
        assert leaf.shape.kind in (Kind.TEXT, Kind.BOOL, Kind.LIST, Kind.MAP, Kind.PATTERN)
    if model is GfdConfig and leaf.shape.kind is Kind.TEXT and name not in TEXTS:
        assert config == model()


def test_the_next_variable_counts() -> None:
    loaded = parse_options([], {"GFD_MIG_STRATEGY": "", "MIG_STRATEGY": "mixed", "GFD_LOG_LEVEL": ""}).load()
    assert (loaded.config.flags.mig_strategy, loaded.config.log_level) == ("mixed", "info")


@pytest.mark.parametrize("flags", [worker_cli.FLAGS, topology_cli.FLAGS, master_cli.FLAGS], ids=["w", "t", "m"])
def test_flags_outside_the_configuration(flags: tuple[Extra, ...]) -> None:
    for extra in flags:
        found = parse("prog", [], flags, environment=dict.fromkeys(extra.env, ""))
        assert found[extra.name] in (extra.default, "", False)
        assert extra.name != "host-root" or found[extra.name] == "/"
