"""What is known of a template before it runs: the features that it reads, and calls of templates that always fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nfd.rules.template.nodes import Action, Body, Branch, Call, Chain, Constant, Field, Operand, Pipe, Range, Variable

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


def calling_mistakes(bodies: Mapping[str, Body]) -> Iterator[str]:
    """Names that are called and not defined, and templates that call themselves whatever the data."""
    called = dict.fromkeys(name for body in bodies.values() for name in _calls(body))
    yield from (f"template {name!r} not defined" for name in called if name not in bodies)
    always = {name: set(_always(body)) & bodies.keys() for name, body in bodies.items()}
    yield from (
        f"template {name!r} calls itself without end" for name in bodies if name and name in _after(name, always)
    )


def _calls(body: Body) -> Iterator[str]:
    """The templates that a body may call."""
    for node in body:
        if isinstance(node, Call):
            yield node.name
        elif isinstance(node, Range):
            yield from (*_calls(node.body), *_calls(node.otherwise))
        elif isinstance(node, Branch):
            yield from (name for one in (*(arm for _, arm in node.arms), node.otherwise) for name in _calls(one))


def _always(body: Body) -> Iterator[str]:
    """The templates that it calls in every run, or in every run in which a constant is looked at."""
    for node in body:
        if isinstance(node, Call):
            yield node.name
        elif isinstance(node, Branch) and _is_true(node.arms[0][0]):
            yield from _always(node.arms[0][1])


def _is_true(pipe: Pipe) -> bool:
    """Whether it is a constant that counts as true."""
    (first, *arguments), *others = pipe.commands
    return not arguments and not others and isinstance(first, Constant) and bool(first.value)


def _after(name: str, always: Mapping[str, set[str]]) -> set[str]:
    """All templates that are run in each run of one."""
    found: set[str] = set()
    ahead = [name]
    while ahead:
        fresh = always[ahead.pop()] - found
        found |= fresh
        ahead += fresh
    return found
