"""What a client of the API server does not load."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from tests.children import run

KUBECONFIG = """
current-context: one
contexts: [{name: one, context: {cluster: one, user: one}}]
clusters: [{name: one, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: one, user: {token: some}}]
"""


def test_the_checks_of_objects_are_not_loaded(tmp_path: Path) -> None:
    """`kubernetes` imports kubernetes-validate where that is installed: with jsonschema, 20 MiB that nothing uses."""
    (tmp_path / "config").write_text(KUBECONFIG)
    read = "import asyncio, sys; from nfd.kube.client import connect; asyncio.run(connect(sys.argv[1]));"
    script = f"{read} print(*sys.modules)"
    loaded = set(run([sys.executable, "-c", script, str(tmp_path / "config")], timeout=60).stdout.split())
    assert find_spec("kubernetes_validate") is not None
    assert "kubernetes.aio" in loaded
    assert not loaded & {"kubernetes_validate", "jsonschema"}
