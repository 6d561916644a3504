"""The list of guards fits the code: each line is there once, its test exists, and what is left still compiles."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.guards.__main__ import broken
from tests.guards.guard import Guard
from tests.guards.lines import GUARDS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: f"{guard.file}:{guard.text.split()[0]}")
def test_guard_is_where_the_list_says(guard: Guard) -> None:
    whole = (ROOT / guard.file).read_text()
    assert ast.dump(ast.parse(broken(guard, whole))) != ast.dump(ast.parse(whole))
    file, _, name = guard.test.partition("::")
    tree = ast.parse((ROOT / file).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_a_guard_that_is_gone_is_told() -> None:
    with pytest.raises(ValueError, match="is there 0 times"):
        broken(GUARDS[0], "nothing")
