"""Check a rule file, as NFD's `kubectl nfd validate` does. Prints every mistake with its line on standard error. The
exit status is 1 if there is one; warnings and notes about keys that several rules set do not count. `nfd rules
validate` takes several files and prints only mistakes."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from nfd.cli.parsers import path
from nfd.cli.rule_files import text_of, warn_if_empty
from nfd.message_text import visible
from nfd.rules.check import remarks_on, validate_text
from nfd.rules.parse import parse_text

EXAMPLES = (("validate -f rules.yaml", "before you apply it to a cluster"),)


def add_flags(parser: ArgumentParser) -> None:
    parser.add_argument("-f", "--nodefeaturerule-file", metavar="FILE", type=path, required=True, help="rules to check")


def run(args: Namespace) -> int:
    path = args.nodefeaturerule_file
    text = text_of(path)
    mistakes = validate_text(path, text)
    objects = parse_text(text).objects
    names = [rule.name for one in objects for rule in one.rules]
    lines = [f"Validating NodeFeatureRule {path}", *(f"Validating rule:  {name}" for name in names)]
    lines.append(f"NodeFeatureRule {path} is {'not ' if mistakes else ''}valid")
    sys.stdout.write("".join(f"{visible(line)}\n" for line in lines))
    remarks = remarks_on([(path, text)], features=False).get(path, ())
    sys.stderr.write("".join(f"{visible(line)}\n" for line in [*mistakes, *remarks]))
    if not mistakes:
        warn_if_empty(path, objects)
    return 1 if mistakes else 0
