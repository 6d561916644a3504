"""The argument parser of each command, from which --help, the reference and the completions are made."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, HelpFormatter
from importlib import import_module
from types import ModuleType
from typing import NoReturn

from nfd.errors import ConfigError

Examples = tuple[tuple[str, str], ...]
"""Command line, without the program's name, and what it does."""
_HEAD = "examples:"
_PACKAGES = frozenset(("explain", "plan", "report", "up"))
"""Commands with a package of their own, in which `command` has `add_flags` and `run`."""


class Parser(ArgumentParser):
    """Says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message} (see {self.prog} --help)")


class _Formatter(HelpFormatter):
    """Examples keep their lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(_HEAD) else super()._fill_text(text, width, indent)


def path(text: str) -> str:
    """A path on a command line. An empty one is what a shell makes of a variable that is not set: an error."""
    if not text:
        raise ArgumentTypeError("the path is empty")
    return text


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


def examples_of(command: ModuleType) -> Examples:
    found: Examples = getattr(command, "EXAMPLES", ())
    return found


def epilog(program: str, examples: Examples) -> str:
    """What --help ends with."""
    lines = [f"  {program} {line}\n      {about}" for line, about in examples]
    return "\n".join([_HEAD, *lines]) if lines else ""
