"""The reference of the command line, from the parsers: a page in Markdown, and a manual page (man(7))."""

from __future__ import annotations

import re
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from textwrap import wrap

from nfd import __version__
from nfd.cli import COMMANDS
from nfd.cli.parsers import Examples, examples_of, make_parser, subcommands

ABOUT = "Commands for node feature discovery; `kubectl nfd` is the same as a plug-in."
STATUS = (
    "Exit status: 0, 1 (failed), 2 (usage, or an invalid configuration), 130 (interrupted), 141 (the output was "
    "closed before the command had its result)."
)
ENVIRONMENT = {
    "KUBECONFIG": "kubeconfig file, if --kubeconfig is not given",
    "NO_COLOR": "no colours if it is set, whatever its value; only a terminal gets colours",
    "NFD_HOST_ROOT": "default of --host-root",
    "NFD_NVML_LIBRARY": "the NVML library",
}
_WIDTH = 120


def page() -> str:
    """Markdown, one heading for each command."""
    lines = ["# nfd", "", ABOUT, "", STATUS, "", "| command | |", "| --- | --- |"]
    lines += [f"| [`{name}`](#nfd-{name}) | {about} |" for name, about in COMMANDS.items()]
    for name in COMMANDS:
        parser, command = make_parser("nfd", name)
        lines += ["", f"## nfd {name}", "", *wrap(_one_line(parser.description), _WIDTH), ""]
        lines += _markdown(parser, name)
        lines += _markdown_examples(examples_of(command))
    lines += ["", "## Environment", "", "| variable | |", "| --- | --- |"]
    lines += [f"| `{name}` | {about} |" for name, about in ENVIRONMENT.items()]
    return "\n".join(lines) + "\n"


def _markdown(parser: ArgumentParser, name: str) -> Iterator[str]:
    rows = list(_rows(parser))
    yield from (f"    {_usage(parser)}", "")
    if rows:
        yield from ("| | |", "| --- | --- |")
        for words, about in rows:
            yield f"| `{_cell(words)}` | {_cell(about)} |"
    for inner, sub, about in subcommands(parser):
        yield from ("", f"### nfd {name} {inner}", "", f"{about[:1].upper()}{about[1:]}.", "")
        yield from _markdown(sub, f"{name} {inner}")


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _markdown_examples(examples: Examples) -> Iterator[str]:
    if examples:
        yield ""
    for line, about in examples:
        yield f"* `nfd {line}`: {about}"


def _rows(parser: ArgumentParser) -> Iterator[tuple[str, str]]:
    """Operands and flags, with their help."""
    for action in parser._actions:
        if isinstance(action, _SubParsersAction) or "--help" in action.option_strings:
            continue
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        value = "|".join(map(str, action.choices)) if action.choices else metavar or action.dest.upper()
        takes = f" {value}" if action.nargs != 0 else ""
        words = ", ".join(action.option_strings) + takes if action.option_strings else value
        default = f"default: {action.default}" if isinstance(action.default, str) and action.default else ""
        about = action.help or default
        yield words, re.sub(r" \(/[^)]*\)", "", about)  # without the default folders of the user who runs this


def _usage(parser: ArgumentParser) -> str:
    return " ".join(parser.format_usage().split()).removeprefix("usage: ")


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def manual() -> str:
    """A manual page in roff; `nfd help --man | man -l -` shows it."""
    lines = [f'.TH NFD 1 "" "nfd {__version__}" "User Commands"', ".SH NAME", r"nfd \- node feature discovery by hand"]
    lines += [".SH SYNOPSIS", r".B nfd", r"\fICOMMAND\fR [flags]", ".SH DESCRIPTION", _roff(ABOUT), ".SH COMMANDS"]
    for name in COMMANDS:
        parser, command = make_parser("nfd", name)
        lines += [f".SS nfd {name}", _roff(_one_line(parser.description)), ".PP", _roff(_usage(parser))]
        lines += _roff_rows(parser)
        for inner, sub, about in subcommands(parser):
            lines += [".PP", rf"\fBnfd {name} {inner}\fR: {_roff(about)}", *_roff_rows(sub)]
        for line, about in examples_of(command):
            lines += [".PP", rf"\fB{_roff(f'nfd {line}')}\fR", ".br", _roff(about)]
    lines += [".SH EXIT STATUS", _roff(STATUS), ".SH ENVIRONMENT"]
    lines += [line for name, about in ENVIRONMENT.items() for line in (".TP", rf"\fB{name}\fR", _roff(about))]
    return "\n".join(lines) + "\n"


def _roff_rows(parser: ArgumentParser) -> Iterator[str]:
    for words, about in _rows(parser):
        yield from (".TP", rf"\fB{_roff(words)}\fR", _roff(about) or r"\&")


def _roff(text: str) -> str:
    """Text without roff requests (groff_char(7))."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")
    return rf"\&{escaped}" if escaped.startswith(".") else escaped
