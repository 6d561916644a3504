"""A null in `sharing`: in the worker's configuration it means not shared, in each layer."""

from __future__ import annotations

from pathlib import Path

import pytest

from gfd.options import parse_options
from gfd.sharing import GPU, Shared, Sharing
from nfd.config.flags import configure, parse
from nfd.errors import ConfigError
from nfd.worker.cli import FLAGS
from nfd.worker.config import ENV_PREFIX, model

SLICED = "{timeSlicing: {resources: [{name: gpu, replicas: 4}]}}"
MPS = "{mps: {resources: [{name: gpu, replicas: 3}]}}"
CASES = [
    ("null", "", Shared()),
    ("{timeSlicing: null}", "", Shared()),
    ("{mps: null}", "", Shared()),
    ("{timeSlicing: null, mps: null}", "", Shared()),
    ("{timeSlicing: null, mps: {resources: [{name: gpu, replicas: 3}]}}", "", Shared(3, "mps")),
    (SLICED, "{}", Shared(4, "time-slicing")),
    (SLICED, "null", Shared()),
    (SLICED, "{timeSlicing: null}", Shared()),
    (MPS, "null", Shared()),
    (MPS, "{mps: null}", Shared()),
    ("null", SLICED, Shared(4, "time-slicing")),
    ("{timeSlicing: null}", SLICED, Shared(4, "time-slicing")),
]


def sharing(tmp_path: Path, text: str, over: str) -> Sharing:
    file = tmp_path / "worker.conf"
    file.write_text(f"sources: {{nvidia: {{sharing: {text}}}}}")
    words = ["--config", str(file), *(["--options", f"sources: {{nvidia: {{sharing: {over}}}}}"] if over else [])]
    config, findings = configure(model(), parse("nfd-worker", words, FLAGS, model(), ENV_PREFIX, environment={}))
    assert findings == ()
    found = config.sources.nvidia.sharing  # type: ignore[attr-defined]  # the model depends on the plug-ins
    assert isinstance(found, Sharing)
    return found


@pytest.mark.parametrize(("text", "over", "expected"), CASES)
def test_null_means_not_shared(text: str, over: str, expected: Shared, tmp_path: Path) -> None:
    assert sharing(tmp_path, text, over).of(GPU) == expected


def test_the_file_of_the_device_plugin_refuses_it_as_go_does(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("version: v1\nsharing: {timeSlicing: null}\n")
    with pytest.raises(ConfigError, match=r"sharing\.timeSlicing: must be a mapping with resources"):
        parse_options([f"--config-file={file}"], {}).load()
