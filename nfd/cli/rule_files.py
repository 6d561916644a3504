"""Rule files and feature files on the command line: - is standard input, and a pipe is read to its end."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from nfd.config.load import read_file
from nfd.config.named_files import read_standard_input
from nfd.errors import ConfigError
from nfd.message_text import visible
from nfd.rules.model import RuleObject
from nfd.rules.parse import all_mistakes, locate, read_objects, value_at

STANDARD_INPUT = "-"


def read_input(path: str) -> bytes:
    """The content of a file. Raises: ConfigError with its name."""
    try:
        return read_standard_input() if path == STANDARD_INPUT else read_file(path, pipes=True)
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error


def text_of(path: str) -> str:
    """The text of a file. Raises: ConfigError with its name."""
    try:
        return read_input(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8: {error.reason} at byte {error.start}") from error


def warn_if_empty(name: str, objects: Iterable[RuleObject]) -> None:
    """Warn about a file without rules: it is valid, but hardly intended."""
    if not any(one.rules or one.mistakes for one in objects):
        sys.stderr.write(f"{visible(name)}: has no rules\n")


def read_rules(path: str, *, rules_too: bool = False) -> list[tuple[RuleObject, Mapping[str, Any]]]:
    """The rule objects of a file, each with its text as data. Broken rules are included unless `rules_too`.

    Raises: ConfigError with file and line for invalid YAML or an invalid object, and with `rules_too` for a broken
    rule.
    """
    found = list(read_objects(text_of(path), [], path))
    for document, _, parsed in found:
        mistakes = locate(document, all_mistakes(parsed) if rules_too else parsed.mistakes)
        if hard := [one for one in mistakes if not one.soft]:
            raise ConfigError(f"{path}:{hard[0].line}: {hard[0].reason}")
    return [(parsed, value_at(document.data, place)) for document, place, parsed in found]
