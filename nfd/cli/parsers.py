"""The argument parser of each command. --help, the reference and the completions are made from them."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, HelpFormatter, _SubParsersAction
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import NoReturn

from nfd.errors import ConfigError
from nfd.message_text import did_you_mean

Examples = tuple[tuple[str, str], ...]
"""A command line without the program's name, and its description."""
_HEAD = "examples:"
_UNKNOWN = re.compile(r"unrecognized arguments: (-[^\s=]+)")
_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")
_PACKAGES = frozenset(("explain", "export", "plan", "report", "up"))
"""Commands with a package of their own, in which `command` has `add_flags` and `run`."""


class Parser(ArgumentParser):
    """Reports an error as one line."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}{self._meant(message)} (see {self.prog} --help)")

    def _meant(self, message: str) -> str:
        """The nearest flag or choice, by argparse's message."""
        if wrong := _UNKNOWN.search(message):
            return did_you_mean(wrong[1], self._option_string_actions)
        if wrong := _CHOICE.search(message):
            return did_you_mean(wrong[1], re.findall(r"[\w-]+", wrong[2]))
        return ""


class _Formatter(HelpFormatter):
    """Keeps the lines of the examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(_HEAD) else super()._fill_text(text, width, indent)


def path(text: str) -> str:
    """A path on a command line. An empty one, such as from an unset variable, is an error."""
    if not text:
        raise ArgumentTypeError("the path is empty")
    return text


def node_name(text: str) -> str:
    """A node's name, also as `-o name` prints it: `node/NAME`."""
    return text.removeprefix("node/")


def make_parser(program: str, name: str) -> tuple[Parser, ModuleType]:
    """The parser of a command, and the module that has `run`."""
    command = import_module(f"nfd.cli.{name}.command" if name in _PACKAGES else f"nfd.cli.{name}")
    parser = Parser(
        f"{program} {name}",
        description=command.__doc__,
        epilog=epilog(program, examples_of(command)),
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    command.add_flags(parser)
    return parser, command


def subcommands(parser: ArgumentParser) -> Iterator[tuple[str, ArgumentParser, str]]:
    """The name, the parser and the help of each subcommand."""
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            about = {one.dest: one.help or "" for one in action._choices_actions}
            for name, sub in action.choices.items():
                yield name, sub, about.get(name, "")


def examples_of(command: ModuleType) -> Examples:
    found: Examples = getattr(command, "EXAMPLES", ())
    return found


def epilog(program: str, examples: Examples) -> str:
    """The end of --help."""
    lines = [f"  {program} {line}\n      {about}" for line, about in examples]
    return "\n".join([_HEAD, *lines]) if lines else ""
