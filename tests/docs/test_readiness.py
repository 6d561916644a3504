"""docs/readiness.md quotes every reason why a Node keeps its startup taints, and quotes nothing that nobody says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nfd.master.node import startup_taints
from nfd.master.rules.nodefeatures import AWAITED, REPORTED_BEFORE
from tests.docs.messages import BLANK, is_said, texts_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/readiness.md").read_text()
TABLE = PAGE.partition("| it says |")[2].partition("\n\n")[0]
QUOTED = [text for row in TABLE.splitlines()[2:] for text in re.findall(r"`([^`]+)`", row.split("|")[1])]
CONSTANTS = [startup_taints.NO_REPORT, startup_taints.UNLABELLED, startup_taints.UNPUBLISHED, startup_taints.NO_BOOT]
NOTHING_TO_DO = {
    "use --master URL to see which of these are startup taints, and why they stay",
    "its labels are of the Node's own boot",
    f"{BLANK} was removed once the Node was labelled",
}


def of_function(file: str, name: str) -> list[str]:
    """The texts of a function that are sentences."""
    tree = ast.parse((ROOT / file).read_text())
    (found,) = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)
    return [text for text in texts_of(found) if len(text.split()) > 3]


def reasons() -> Iterator[str]:
    yield from (*CONSTANTS, REPORTED_BEFORE, AWAITED)
    yield from of_function("nfd/master/node/startup_taints.py", "reason_to_keep")
    yield "a rule sets …"
    yield "… rejects their removal: …"
    for name in ("_taints", "_remarks"):
        yield from of_function("nfd/cli/explain/node.py", name)


def pattern(quoted: str) -> str:
    return ".*".join(re.escape(part.strip()) for part in quoted.split(BLANK))


@pytest.mark.parametrize("reason", sorted({*reasons()} - NOTHING_TO_DO - {f"{BLANK} stays for now: {BLANK}"}))
def test_a_reason_is_in_the_table(reason: str) -> None:
    assert [text for text in QUOTED if re.match(pattern(text), reason)]


@pytest.mark.parametrize("quoted", QUOTED)
def test_a_program_says_what_the_table_quotes(quoted: str) -> None:
    assert is_said(quoted)


def test_the_page_says_how_to_reach_the_master_of_each_installation() -> None:
    kustomized = "port-forward deployment/nfd-master 8081"
    assert kustomized in PAGE
    assert "port-forward deployment/nfd-node-feature-discovery-master 8081" in PAGE
    assert "name: nfd-master\n" in (ROOT / "deploy/kustomize/base/master.yaml").read_text()
