"""`kubectl_complete-nfd`: kubectl runs it to complete `kubectl nfd …`.

The arguments are the words after `nfd`, the last of them unfinished. It prints one offer a line, with a description
behind a tab, and at the end `:4` (these alone) or `:0` (also files), as kubectl's own completion does (Kubernetes
documentation, "Extend kubectl with plugins").
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout

from nfd.cli import ALIASES, COMMANDS
from nfd.cli import main as nfd
from nfd.cli.completion import FILE, NODE, CommandWords, command_words

ALONE, FILES = ":4", ":0"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the offers."""
    lines = offers(sys.argv[1:] if argv is None else list(argv))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def offers(words: Sequence[str]) -> list[str]:
    """For the words after `nfd`, of which the last is being typed."""
    *before, typed = words or [""]
    if not before:
        return [*_starting(typed, (f"{name}\t{about}" for name, about in COMMANDS.items())), ALONE]
    name = ALIASES.get(before[0], before[0])
    if name not in COMMANDS:
        return [ALONE]
    command, *below = command_words(name)
    for word in before[1:]:
        command = next((one for one in below if one.path == (*command.path, word)), command)
    found, kinds = _values(command, before[-1])
    found += [f"{node}\t" for node in _nodes()] if NODE in kinds else []
    return [*_starting(typed, found), FILES if FILE in kinds else ALONE]


def _values(command: CommandWords, last: str) -> tuple[list[str], tuple[str, ...]]:
    """What may stand next, and which of FILE and NODE: the value of the flag before, else an operand or a flag."""
    for flag in command.flags:
        if flag.takes and last in flag.names:
            kinds = (flag.kind,) if flag.kind in (FILE, NODE) else ()
            return [] if kinds else flag.kind.split(), kinds
    flags = [f"{name}\t{flag.about}" for flag in command.flags for name in flag.names if name.startswith("--")]
    return [*command.commands, *command.choices, *flags], (command.operand,)


def _starting(typed: str, found: Sequence[str] | Iterator[str]) -> Iterator[str]:
    """Without flags as long as none is being typed, as kubectl does."""
    return (one for one in found if one.startswith(typed) and (typed.startswith("-") or not one.startswith("-")))


def _nodes() -> list[str]:
    """Names of the nodes; none if the cluster does not answer."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        nfd(["nodes", "-o", "name", "--request-timeout=3s"])
    return [line.removeprefix("node/") for line in out.getvalue().splitlines()]
