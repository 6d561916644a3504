"""Changed trees: JSON, which is YAML too, with values replaced, moved, doubled, renamed or taken out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

from tests.fuzz.mutate import below, pick

SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, 0.5, 1e308, float("nan"), float("inf"),
    "", " ",
    "true", "0300", "1e3", "y", "null", "*", "@a.b.c", "a/b", "A", "a" * 64, "a" * 300, "x\ny", "\0", "é", "\u2028",
    "[", "(", "^$", "{{ . }}", "{{", "12h", "-1s", [], {}, [[]], {"": {}}, ["a"], {"a": "b"},
)  # fmt: skip


class Trees:
    """A Maker of changed JSON; `words` are keys and values of the format. What is no JSON is taken as a text."""

    def __init__(self, *words: Any) -> None:
        self._values = (*words, *words, *SCALARS)
        self._keys = tuple(one for one in self._values if isinstance(one, str))

    def __call__(self, chance: Random, corpus: Sequence[bytes]) -> bytes:
        tree = _tree(pick(chance, corpus))
        while True:
            tree = self._change(chance, tree, corpus)
            if chance.random() < 0.5:
                return json.dumps(tree).encode()

    def _change(self, chance: Random, tree: Any, corpus: Sequence[bytes]) -> Any:
        """The tree with one place changed, mostly deep inside."""
        if not isinstance(tree, dict | list) or not tree or chance.random() < 0.15:
            return self._replaced(chance, tree, corpus)
        if isinstance(tree, dict):
            return self._changed_mapping(chance, dict(tree), corpus)
        return self._changed_list(chance, list(tree), corpus)

    def _replaced(self, chance: Random, tree: Any, corpus: Sequence[bytes]) -> Any:
        how = below(chance, 8)
        if how == 0:
            return [tree, tree]
        if how == 1:
            return {pick(chance, self._keys): tree}
        if how == 2:
            return some_part(chance, _tree(pick(chance, corpus)))
        if isinstance(tree, str) and how < 6:
            at = below(chance, len(tree) + 1)
            return tree[:at] + pick(chance, self._keys) + tree[at + below(chance, 3) :]
        return pick(chance, self._values)

    def _changed_mapping(self, chance: Random, tree: dict[str, Any], corpus: Sequence[bytes]) -> Any:
        key, how = pick(chance, list(tree)), chance.random()
        if how < 0.7:
            tree[key] = self._change(chance, tree[key], corpus)
        elif how < 0.8:
            del tree[key]
        elif how < 0.9:
            tree[pick(chance, self._keys)] = tree[key]
        else:
            tree[pick(chance, self._keys)] = pick(chance, self._values)
        return tree

    def _changed_list(self, chance: Random, tree: list[Any], corpus: Sequence[bytes]) -> Any:
        at, how = below(chance, len(tree)), chance.random()
        if how < 0.7:
            tree[at] = self._change(chance, tree[at], corpus)
        elif how < 0.8:
            del tree[at]
        elif how < 0.9:
            tree.append(tree[at])
        else:
            tree.insert(at, pick(chance, self._values))
        return tree


def some_part(chance: Random, tree: Any) -> Any:
    """The tree, or something in it."""
    while isinstance(tree, dict | list) and tree and chance.random() < 0.7:
        tree = tree[pick(chance, list(tree))] if isinstance(tree, dict) else pick(chance, tree)
    return tree


def encoded(*trees: Any) -> list[bytes]:
    return [json.dumps(tree).encode() for tree in trees]


def _tree(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace")
