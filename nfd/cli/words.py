"""What may follow a command, by the parsers: subcommands, flags and the kinds of their values."""

from __future__ import annotations

from argparse import Action, ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from dataclasses import dataclass, field

from nfd.cli import COMMANDS
from nfd.cli.parsers import make_parser

FILE, NODE, NOTHING = "file", "node", ""
_FILES = frozenset({"FILE", "DIR"})


@dataclass(frozen=True, slots=True)
class Flag:
    """`kind` is FILE, NODE, NOTHING or the values it may have, by blanks; `takes` whether a value follows."""

    names: tuple[str, ...]
    about: str
    takes: bool = False
    kind: str = NOTHING


@dataclass(frozen=True, slots=True)
class Words:
    """`path` are the words before, such as `rules eval`; `operand` is the kind of its operands."""

    path: tuple[str, ...]
    about: str
    flags: tuple[Flag, ...] = ()
    commands: tuple[str, ...] = ()
    operand: str = NOTHING
    choices: tuple[str, ...] = field(default=())


def all_words() -> list[Words]:
    """Every command and subcommand, in order."""
    return [one for name, about in COMMANDS.items() for one in _words(make_parser("nfd", name)[0], (name,), about)]


def _words(parser: ArgumentParser, path: tuple[str, ...], about: str) -> Iterator[Words]:
    actions = parser._actions
    flags = tuple(_flag(action) for action in actions if action.option_strings)
    inner = [action for action in actions if isinstance(action, _SubParsersAction)]
    operands = [action for action in actions if not action.option_strings and action not in inner]
    choices = tuple(str(choice) for action in operands for choice in action.choices or ())
    kind = next((kind for action in operands if (kind := _kind(action))), NOTHING)
    names = tuple(name for action in inner for name in action.choices or ())
    yield Words(path, about, flags, names, kind if not choices else NOTHING, choices)
    for action in inner:
        told = {one.dest: one.help or "" for one in action._choices_actions}
        for name, sub in action.choices.items():
            yield from _words(sub, (*path, name), told.get(name, ""))


def _flag(action: Action) -> Flag:
    takes = action.nargs != 0
    kind = " ".join(map(str, action.choices)) if action.choices else _kind(action) if takes else NOTHING
    return Flag(tuple(action.option_strings), action.help or "", takes, kind)


def _kind(action: Action) -> str:
    name = action.metavar if isinstance(action.metavar, str) else ""
    return FILE if name in _FILES else NODE if name == "NODE" else NOTHING
