"""The features that a template reads."""

from __future__ import annotations

from collections.abc import Iterator

from nfd.rules.template.nodes import Action, Body, Branch, Call, Chain, Field, Operand, Pipe, Range, Variable

ROOT = "$"
_PARTS = 2


def features_read(body: Body, *, at_root: bool = True) -> Iterator[str]:
    """`domain.feature` of each field that starts at the root; `at_root` says whether the dot is the root."""
    for node in body:
        if isinstance(node, Action):
            yield from _of_pipe(node.pipe, at_root)
        elif isinstance(node, Range):
            yield from _of_pipe(node.pipe, at_root)
            yield from features_read(node.body, at_root=False)
            yield from features_read(node.otherwise, at_root=at_root)
        elif isinstance(node, Branch):
            for pipe, arm in node.arms:
                yield from _of_pipe(pipe, at_root)
                yield from features_read(arm, at_root=at_root and not node.sets_dot)
            yield from features_read(node.otherwise, at_root=at_root)
        elif isinstance(node, Call) and node.pipe is not None:
            yield from _of_pipe(node.pipe, at_root)


def _of_pipe(pipe: Pipe, at_root: bool) -> Iterator[str]:
    for command in pipe.commands:
        for operand in command:
            yield from _of_operand(operand, at_root)


def _of_operand(operand: Operand, at_root: bool) -> Iterator[str]:
    if isinstance(operand, Pipe):
        yield from _of_pipe(operand, at_root)
    elif isinstance(operand, Chain):
        yield from _of_operand(operand.node, at_root)
    elif isinstance(operand, Field | Variable):
        from_root = at_root if isinstance(operand, Field) else operand.name == ROOT
        if from_root and len(operand.names) >= _PARTS:
            yield ".".join(operand.names[:_PARTS])
