"""Upper and lower case of keys in `sharing`: the worker reads them as `gpu-feature-discovery` alone does.

That does as the device plugin (k8s-device-plugin, `api/config/v1/replicas.go`): keys are exact within `timeSlicing` and
`mps`, and of any case above them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gfd.node_config import parse_chosen
from gfd.options import parse_options
from gfd.sharing import GPU, Shared, Sharing
from nfd.config.flags import configure, parse
from nfd.errors import ConfigError
from nfd.worker.cli import FLAGS
from nfd.worker.config import ENV_PREFIX, model

GOOD = Shared(4, "time-slicing")
ENTRY = "{name: gpu, replicas: 4}"
CASES = {
    "as documented": (f"timeSlicing: {{resources: [{ENTRY}]}}", GOOD),
    "section in lower case": (f"timeslicing: {{resources: [{ENTRY}]}}", GOOD),
    "section in Go's case": (f"TimeSlicing: {{resources: [{ENTRY}]}}", GOOD),
    "MPS": (f"MPS: {{resources: [{ENTRY}]}}", Shared(4, "mps")),
    "Resources": (f"timeSlicing: {{Resources: [{ENTRY}]}}", None),
    "Replicas": ("timeSlicing: {resources: [{name: gpu, Replicas: 4}]}", None),
    "Name": ("timeSlicing: {resources: [{Name: gpu, replicas: 4}]}", None),
    "both": ("timeSlicing: {resources: [{name: gpu, replicas: 4, Replicas: 9, NAME: x}]}", GOOD),
    "renameByDefault": (
        f"timeSlicing: {{renameByDefault: true, resources: [{ENTRY}]}}",
        Shared(4, "time-slicing", renamed=True),
    ),
    "renamebydefault": (f"timeSlicing: {{renamebydefault: true, resources: [{ENTRY}]}}", GOOD),
}


def in_worker(text: str, folder: Path) -> Sharing:
    file = folder / "worker.conf"
    file.write_text(f"sources: {{nvidia: {{sharing: {{{text}}}}}}}")
    parsed = parse("nfd-worker", ["--config", str(file)], FLAGS, model(), ENV_PREFIX, environment={})
    found = configure(model(), parsed)[0].sources.nvidia.sharing  # type: ignore[attr-defined]  # depends on plug-ins
    assert isinstance(found, Sharing)
    return found


def alone(text: str, folder: Path) -> Sharing:
    file = folder / "config.yaml"
    file.write_text(f"version: v1\nsharing: {{{text}}}\n")
    return parse_options([f"--config-file={file}"], {}).load().config.sharing


def named_by_the_node(text: str, folder: Path) -> Sharing:
    """A file of the device plugin that the worker reads."""
    found = parse_chosen(f"version: v1\nsharing: {{{text}}}\n".encode(), "a")["sharing"]
    assert found is not None
    return found


@pytest.mark.parametrize("read", [in_worker, alone, named_by_the_node])
@pytest.mark.parametrize("case", CASES)
def test_case_of_keys(case: str, read: object, tmp_path: Path) -> None:
    text, expected = CASES[case]
    assert callable(read)
    if expected is None:
        with pytest.raises(ConfigError, match=r"sharing\.timeSlicing"):
            read(text, tmp_path)
    else:
        assert read(text, tmp_path).of(GPU) == expected
