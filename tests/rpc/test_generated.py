"""The generated Python form of `labeler.proto` is what `make generate` writes now."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.children import run

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["labeler_pb2.py", "labeler_pb2.pyi"])
def test_generated_code_is_up_to_date(tmp_path: Path, name: str) -> None:
    words = (
        "-m",
        "grpc_tools.protoc",
        "-I.",
        f"--python_out={tmp_path}",
        f"--pyi_out={tmp_path}",
        "nfd/rpc/labeler.proto",
    )
    run((sys.executable, *words), cwd=ROOT)
    assert (tmp_path / "nfd/rpc" / name).read_text() == (ROOT / "nfd/rpc" / name).read_text()
