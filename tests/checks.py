"""What `make check` checks besides ruff, mypy and the import contracts: generated files, length of files, tasks, words.

`python -m tests.checks` says what is wrong and exits 1; `--write` brings the generated files up to date.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gfd.options import Config as GfdConfig
from nfd.cli.reference import page
from nfd.config import render
from nfd.master.config import Config as MasterConfig
from nfd.worker.config import model as worker_model
from tests.children import run
from tests.consumers import page as consumers
from tests.deploy import monitoring
from tests.docs import labels
from tests.faults import injected
from tests.unsupervised import unsupervised
from tests.wording import EXCEPTIONS, shrunk, wording

ROOT = Path(__file__).parents[1]
MAX_LINES = 500
SHORT = 12
"""Characters; the first cell of several rows may be such a word."""
SOURCES = {".py", ".c", ".h", ".proto", ".sh"}


PROTOCOLS = ("nfd/rpc/labeler", "nfd/topology/podresources")


def grpc_code() -> dict[str, str]:
    """The Python form of the worker→master contract, and of the kubelet's."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "grpc_tools.protoc", "-I."]
        command += [f"--python_out={folder}", f"--pyi_out={folder}", *(f"{name}.proto" for name in PROTOCOLS)]
        run(command, cwd=ROOT)
        return {str(path.relative_to(folder)): path.read_text() for path in Path(folder).rglob("*_pb2.py*")}


def reference() -> dict[str, str]:
    """One page, one example and one schema for each program's configuration."""
    pages: dict[str, str] = {}
    for name, model in (("nfd-worker", worker_model()), ("nfd-master", MasterConfig)):
        prefix = name.upper().replace("-", "_")
        pages[f"docs/reference/{name}.md"] = render.reference(f"Configuration of {name}", model, prefix)
        pages[f"deploy/examples/{name}.conf"] = render.example(model)
        pages[f"docs/reference/{name}.schema.json"] = render.schema(f"Configuration of {name}", model)
    pages["docs/reference/gpu-feature-discovery.md"] = render.reference("Options of gpu-feature-discovery", GfdConfig)
    pages["docs/reference/gpu-feature-discovery.schema.json"] = render.schema(
        "Configuration of gpu-feature-discovery and the device plugin", GfdConfig
    )
    pages["docs/reference/nfd.md"] = page()
    return pages


def tables() -> dict[str, str]:
    """Tables that stand in pages written by hand."""
    found = {consumers.NAME: consumers.page((ROOT / consumers.NAME).read_text()), labels.NAME: labels.page()}
    found[injected.PAGE] = injected.page((ROOT / injected.PAGE).read_text())
    return found | monitoring.pages()


def repeated_rows() -> Iterator[str]:
    """A merge that keeps both sides leaves an old row beside its new form."""
    for path in sorted((ROOT / "docs").glob("*.md")):
        if str(path.relative_to(ROOT)) != labels.NAME:  # a label that two sources give has two rows
            yield from (f"{path.relative_to(ROOT)}:{row}" for row in repeated(path.read_text()))


def repeated(page: str) -> Iterator[str]:
    """`LINE: ...` for each row that begins with the same cell as an earlier one of its table."""
    seen: set[str] = set()
    for number, line in enumerate(page.splitlines(), 1):
        first = line.removeprefix("| ").partition(" | ")[0]
        seen = seen if line.startswith("| ") else set()
        if first in seen and len(first) > SHORT:
            yield f"{number}: the table already has a row that begins with: {first}"
        seen.add(first)


def long_files() -> Iterator[str]:
    listed = run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT)
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in SOURCES and "_pb2" not in name and path.is_file():
            lines = len(path.read_text().splitlines())
            if lines > MAX_LINES:
                yield f"{name}: {lines} lines, at most {MAX_LINES} are wanted"


def main() -> int:
    wanted = grpc_code() | reference() | tables()
    if "--write" in sys.argv:
        wanted[EXCEPTIONS] = shrunk(ROOT)
    old = [name for name, text in wanted.items() if not (ROOT / name).exists() or (ROOT / name).read_text() != text]
    if "--write" in sys.argv:
        for name in old:
            (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / name).write_text(wanted[name])
            print(f"wrote {name}")
        old = []
    wrong = [f"{name}: not what `make generate` writes" for name in old]
    wrong += [*long_files(), *repeated_rows(), *unsupervised(ROOT), *wording(ROOT)]
    print(
        "\n".join(wrong)
        if wrong
        else "generated files are up to date, no file is too long, tasks are supervised, texts have no unwanted word"
    )
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
