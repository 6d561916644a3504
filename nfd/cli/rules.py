"""Try out and check files with NodeFeatureRules and NodeFeatureGroups. `eval` prints what the master would set on a
node with the given features. `validate` prints every mistake with its line, and warnings and notes about keys that
several rules set and about features that no source provides."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nfd.cli.parsers import path
from nfd.cli.rule_check import Trace, failures_in, overwrites_of
from nfd.cli.rule_files import text_of, warn_if_empty
from nfd.cli.terminal_tables import Style, style_of
from nfd.errors import NfdError
from nfd.master.node.outcome import evaluate_report
from nfd.master.rules.ruleset import compile_objects
from nfd.message_text import visible
from nfd.report import Report
from nfd.rules.check import POLICY, remarks_on, validate_text
from nfd.rules.feature_files import parse_features
from nfd.rules.model import RuleObject, Taint
from nfd.rules.parse import parse_text
from nfd.rules.policy import as_json
from nfd.store.base import Kind

Json = dict[str, Any]
UNREADABLE, INVALID = "ruleFile", "rules"
"""Kinds of the problem of a rule file with invalid YAML, and of one with an invalid rule."""


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
    invalid = any(one["kind"] in (UNREADABLE, INVALID) for one in outcome["problems"])
    return 1 if invalid or outcome["errors"] else 0


def eval_files(rule_texts: Iterable[str], feature_text: str, *, name: str = "features") -> Json:
    """Evaluate rule files on a feature file as a master with default settings and taints enabled.

    Mistakes in the texts are among the problems; kind UNREADABLE is a rule file with invalid YAML. A rule object of
    another group, which a master never reads, sets nothing and is an error. Raises: ValueError if the feature file,
    called `name`, is invalid YAML or not a NodeFeature.
    """
    objects: list[RuleObject] = []
    problems: list[Json] = []
    for text in rule_texts:
        parsed = parse_text(text)
        hard = [finding for finding in parsed.findings if not finding.soft]
        objects += parsed.objects
        kind = UNREADABLE if parsed.broken else INVALID
        problems += [{"kind": kind, "key": "", "reason": str(finding)} for finding in hard]
    features, labels, odd = parse_features(feature_text, name)
    problems += [{"kind": "features", "key": "", "reason": reason} for reason in odd]
    return eval_objects(objects, Report("", labels=labels, features=features), problems)


def eval_objects(objects: Sequence[RuleObject], report: Report, problems: Sequence[Json] = ()) -> Json:
    """The result of rules on a report, in the JSON form of `nfd rules eval`, keys sorted; `problems` come first."""
    rules, trace = compile_objects(objects, POLICY), Trace()
    outcome = evaluate_report(report, rules, POLICY, trace.record)
    desired, contributions = outcome.derive_desired(), outcome.evaluation.contributions
    errors = [(one.name, one.defect) for one in objects if one.defect is not None]
    errors += [(rule.name, reason) for rule, reason in outcome.failed(rules)]
    errors += [error for group in rules.groups for error in failures_in(group, outcome, trace)]
    given = {key: value for one in contributions for key, value in one.vars.items()}
    taints = sorted((*key.rpartition(":")[::2], value) for key, value in desired.of(Kind.TAINTS).items())
    lost = [(one.kind, one.key, str(one)) for one in overwrites_of(outcome, rules)]
    dropped = [(one.kind, one.key, one.reason) for one in desired.dropped]
    return {
        **{kind.value: dict(sorted(desired.of(kind).items())) for kind in Kind if kind is not Kind.TAINTS},
        "taints": [as_json(Taint(key=key, effect=effect, value=value)) for key, effect, value in taints],
        "vars": dict(sorted(given.items())),
        "groups": [name for _, name in outcome.evaluation.groups],
        "errors": [{"rule": rule, "reason": reason} for rule, reason in errors],
        "problems": [
            *problems,
            *({"kind": kind, "key": key, "reason": reason} for kind, key, reason in (*dropped, *lost)),
        ],
    }


def validate(paths: list[str]) -> int:
    """Print `file:line: reason` for each mistake; warnings and notes are marked and are not mistakes."""
    wrong = count = 0
    texts = {name: text_of(name) for name in paths}
    remarks = remarks_on(texts.items())
    for name, text in texts.items():
        mistakes = validate_text(name, text)
        sys.stdout.write("".join(f"{visible(line)}\n" for line in [*mistakes, *remarks.get(name, ())]))
        wrong += len(mistakes)
        if not mistakes:
            objects = parse_text(text).objects
            warn_if_empty(name, objects)
            count += sum(len(one.rules) for one in objects)
    if count and not wrong:
        sys.stdout.write(f"{count} rule{'' if count == 1 else 's'}, ok\n")
    return 1 if wrong else 0


def as_text(outcome: Mapping[str, Any], style: Style) -> str:
    """The parts of an outcome that are not empty."""
    parts = []
    for name, value in outcome.items():
        lines = [f"{key}={style.value(str(one))}" for key, one in value.items()] if isinstance(value, dict) else []
        lines += [_line(one) for one in value] if isinstance(value, list) else []
        if lines:
            parts.append("\n  ".join([style.head(name), *lines]))
    return "\n\n".join(parts) or style.dim("nothing")


def _line(item: Any) -> str:
    return visible(": ".join(map(str, item.values())) if isinstance(item, Mapping) else str(item))
