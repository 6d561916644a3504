"""What `make check` checks besides ruff, mypy and the import contracts: generated files, length of files, tasks, words.

`python -m tests.checks` says what is wrong and exits 1; `--write` brings the generated files up to date.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gfd.options import Config as GfdConfig
from nfd.cli.reference import page
from nfd.config import render
from nfd.config.section import Section
from nfd.master.config import Config as MasterConfig
from nfd.topology.cli import Config as TopologyConfig
from nfd.worker.config import model as worker_model
from tests.children import run
from tests.consumers import page as consumers
from tests.deploy import monitoring
from tests.docs import labels, vendor_labels
from tests.faults import injected
from tests.fleet import dra_table
from tests.peers import results
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


def chart_schema() -> dict[str, str]:
    """The chart's schema with those of the configuration files: Helm refuses what `nfd config validate` does."""
    name = "deploy/helm/node-feature-discovery/values.schema.json"
    whole = json.loads((ROOT / name).read_text())
    worker = config_schema(worker_model())
    worker["properties"]["sources"]["additionalProperties"] = True  # a plug-in's source
    whole["$defs"] |= {
        "masterConfig": config_schema(MasterConfig),
        "topologyUpdaterConfig": config_schema(TopologyConfig),
        "workerConfig": worker,
    }
    return {name: json.dumps(whole, indent=2, ensure_ascii=False) + "\n"}


def config_schema(model: type[Section]) -> dict[str, Any]:
    """A program's schema without what only editors show; a file may also be empty, and have keys of former releases."""
    found: dict[str, Any] = without_texts(json.loads(render.schema("", model)))
    add_former(model, found)
    return {**found, "type": ["object", "null"]}


def add_former(model: type[Section], schema: dict[str, Any]) -> None:
    """Keys that a program only warns of."""
    properties = schema.setdefault("properties", {})
    properties |= {key: {} for key in model.former}
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            key = field.alias or name
            add_former(field.annotation, properties.setdefault(key, {"type": ["object", "null"]}))


def without_texts(schema: Any) -> Any:
    """Without `$schema`, `title`, `description`, `default`, `deprecated` of the schema; properties may be called so."""
    if not isinstance(schema, dict):
        return [without_texts(one) for one in schema] if isinstance(schema, list) else schema
    texts = ("$schema", "title", "description", "default", "deprecated")
    return {
        key: {name: without_texts(one) for name, one in value.items()} if key == "properties" else without_texts(value)
        for key, value in schema.items()
        if key not in texts
    }


def tables() -> dict[str, str]:
    """Tables that stand in pages written by hand."""
    found = {consumers.NAME: consumers.page((ROOT / consumers.NAME).read_text()), labels.NAME: labels.page()}
    found |= {name: results.page(name, found.get(name) or (ROOT / name).read_text()) for name in results.PAGES}
    found[injected.PAGE] = injected.page((ROOT / injected.PAGE).read_text())
    found[vendor_labels.NAME] = vendor_labels.page()
    found[dra_table.NAME] = dra_table.page((ROOT / dra_table.NAME).read_text())
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
    wanted = grpc_code() | reference() | tables() | chart_schema()
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
