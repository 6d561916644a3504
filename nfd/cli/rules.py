"""Try out and check rule files: NodeFeatureRule and NodeFeatureGroup YAML, several documents allowed. `eval` prints
what the master would set on a node with the given features, `validate` every mistake with its line, and warnings and
notes on keys that several rules set and on features that no source gives."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from nfd.cli.parsers import path
from nfd.cli.rulefiles import tell_empty, text_of
from nfd.cli.screen import Style, style_of
from nfd.errors import NfdError
from nfd.rules.check import validate_text
from nfd.rules.parse import parse_text
from nfd.rules.remarks import remarks_on
from nfd.rules.report import UNREADABLE, eval_files
from nfd.visible import visible


def add_flags(parser: ArgumentParser) -> None:
    jobs = parser.add_subparsers(dest="job", required=True, metavar="eval|validate")
    job = jobs.add_parser(
        "eval", help="evaluate rules over the features of one node; exit status 1 if one fails", allow_abbrev=False
    )
    job.add_argument("--rules", metavar="FILE", type=path, nargs="+", action="extend", required=True, help="rule files")
    job.add_argument("--features", metavar="FILE", type=path, required=True, help="a NodeFeature object or its spec")
    job.add_argument("-o", "--output", choices=("json", "text"), help="text on a terminal, otherwise json")
    job = jobs.add_parser("validate", help="check rule files; exit status 1 if anything is wrong", allow_abbrev=False)
    job.add_argument("files", metavar="FILE", type=path, nargs="+", help="rule files, - for standard input")


def run(args: Namespace) -> int:
    if args.job == "validate":
        return validate(args.files)
    try:
        outcome = eval_files([text_of(path) for path in args.rules], text_of(args.features), name=args.features)
    except ValueError as error:
        raise NfdError(str(error)) from error
    form = args.output or ("text" if sys.stdout.isatty() else "json")
    text = json.dumps(outcome, indent=2) if form == "json" else as_text(outcome, style_of(sys.stdout))
    sys.stdout.write(f"{text}\n")
    unreadable = any(one["kind"] == UNREADABLE for one in outcome["problems"])
    return 1 if unreadable or outcome["errors"] else 0


def validate(paths: list[str]) -> int:
    """Print `file:line: reason` for each mistake; a warning or a note says so, and is none."""
    wrong = 0
    texts = {name: text_of(name) for name in paths}
    remarks = remarks_on(texts.items())
    for name, text in texts.items():
        mistakes = validate_text(name, text)
        sys.stdout.write("".join(f"{visible(line)}\n" for line in [*mistakes, *remarks.get(name, ())]))
        wrong += len(mistakes)
        if not mistakes:
            tell_empty(name, parse_text(text).objects)
    return 1 if wrong else 0


def as_text(outcome: Mapping[str, Any], style: Style) -> str:
    """The parts of an outcome that have something in them."""
    parts = []
    for name, value in outcome.items():
        lines = [f"{key}={style.value(str(one))}" for key, one in value.items()] if isinstance(value, dict) else []
        lines += [_line(one) for one in value] if isinstance(value, list) else []
        if lines:
            parts.append("\n  ".join([style.head(name), *lines]))
    return "\n\n".join(parts) or style.dim("nothing")


def _line(item: Any) -> str:
    return visible(": ".join(map(str, item.values())) if isinstance(item, Mapping) else str(item))
