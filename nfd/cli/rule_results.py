"""The results of rules on given features, in the sections of NFD's `kubectl nfd test` and `kubectl nfd dryrun`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from nfd.cli.rule_check import Trace, failures_in, overwrites_of
from nfd.errors import RuleError
from nfd.features import Features
from nfd.master.node.desired import lookup_in
from nfd.master.node.outcome import Outcome, evaluate_report
from nfd.master.rules.ruleset import NO_TAINTS, compile_objects
from nfd.message_text import visible
from nfd.report import Report
from nfd.rules import policy as policies
from nfd.rules.check import POLICY
from nfd.rules.compile import Group
from nfd.rules.evaluate import Given
from nfd.rules.model import RuleObject
from nfd.rules.output_keys import TAINT
from nfd.rules.policy import EXTENDED_RESOURCE, LABEL, Dropped, Policy


@dataclass(slots=True)
class Trial:
    """Lines for standard output, and errors: failed rules, and references to missing features.

    `remarks` are further messages for the user.
    """

    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def report(self, what: str, subject: str) -> int:
        """Print all, and a last line with the result for `subject`. Returns the exit status."""
        summary = f"{what} is {'not ' if self.errors else ''}valid for {subject}"
        sys.stdout.write("".join(f"{visible_line(line)}\n" for line in [*self.lines, summary]))
        said = [*self.errors, *(f"warning: {remark}" for remark in self.remarks)]
        sys.stderr.write("".join(f"{visible(line)}\n" for line in said))
        return 1 if self.errors else 0


def visible_line(line: str) -> str:
    """Text from elsewhere made safe for a terminal; the tabs are from this module."""
    return "\t".join(map(visible, line.split("\t")))


def try_rules(objects: Iterable[RuleObject], features: Features, policy: Policy = POLICY) -> Trial:
    """Evaluate the rules on these features as a master with that policy; by default taints are enabled."""
    rules, trace, trial = compile_objects(objects, policy), Trace(), Trial()
    outcome = evaluate_report(Report("", features=features), rules, policy, trace.record)
    trial.lines += [processing(rule.name) for rule in rules.rules]
    trial.errors += [_failed(rule.name, reason) for rule, reason in outcome.failed(rules)]
    trial.remarks += _disabled(outcome)
    for title, lines, findings in _sections(outcome, trial.errors):
        trial.lines += section(title, lines, findings)
    trial.remarks += [f"{one.kind} {one.key!r}: {one}" for one in overwrites_of(outcome, rules)]
    for group in rules.groups:
        _try_group(group, outcome, trace, trial)
    return trial


def processing(name: str) -> str:
    return f"Processing rule:  {name}"


def section(title: str, lines: Iterable[str], findings: Iterable[str] = ()) -> Iterator[str]:
    """A heading, the lines and their problems; nothing without lines."""
    listed, wrong = list(lines), list(findings)
    if listed:
        yield f"***\t{title}\t***"
        yield from listed
    if listed and wrong:
        yield "\t-Validation errors-"
        yield from wrong


def _asked_of(outcome: Outcome) -> dict[str, dict[str, str]]:
    """What rules set, by kind, as written."""
    asked: dict[str, dict[str, str]] = {LABEL: {}, EXTENDED_RESOURCE: {}, policies.ANNOTATION: {}}
    for one in outcome.evaluation.contributions:
        asked[LABEL] |= one.labels
        asked[EXTENDED_RESOURCE] |= one.extended_resources
        asked[policies.ANNOTATION] |= one.annotations
    return asked


def _sections(outcome: Outcome, errors: list[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """What rules set by kind with references resolved, and why the node does not get it; errors are added."""
    dropped = outcome.derive_desired().dropped
    taints = [
        policies.taint_text(taint.key, taint.value, taint.effect)
        for one in outcome.evaluation.contributions
        for taint in one.taints
    ]
    yield "Taints", sorted(taints), reasons_of(one for one in dropped if one.kind == TAINT)
    titles = ("Labels", "Extended Resources", "Annotations")
    for title, (kind, values) in zip(titles, _asked_of(outcome).items(), strict=True):
        found = _resolved(kind, values, outcome, errors)
        yield title, pairs(found), reasons_of(one for one in dropped if one.kind == kind and one.key in found)


def _disabled(outcome: Outcome) -> Iterator[str]:
    """What rules set and the master's configuration disables as a whole."""
    policy, asked = outcome.policy, _asked_of(outcome)
    if any(one.taints for one in outcome.evaluation.contributions) and not policy.enable_taints:
        yield NO_TAINTS
    kinds = (
        (LABEL, policy.disable_labels, "disableLabels"),
        (policies.ANNOTATION, policy.disable_annotations, "disableAnnotations"),
        (EXTENDED_RESOURCE, policy.disable_extended_resources, "disableExtendedResources"),
    )
    for kind, is_off, option in kinds:
        if asked[kind] and is_off:
            yield f"the master has restrictions.{option} set: {', '.join(sorted(asked[kind]))} would not be set"


def _resolved(kind: str, values: Mapping[str, str], outcome: Outcome, errors: list[str]) -> dict[str, str]:
    """Values with references resolved; a reference to a missing feature is an error."""
    lookup = lookup_in(outcome.report.features, outcome.evaluation.matched)
    found: dict[str, str] = {}
    for key, text in values.items():
        value, problem = policies.resolve(text, lookup) if policies.is_reference(kind, text) else (text, None)
        if problem is None:
            found[key] = value
        else:
            errors.append(f"failed to get dynamic value for {kind} {key!r}: {problem}")
    return found


def pairs(values: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in sorted(values.items())]


def reasons_of(dropped: Iterable[Dropped]) -> list[str]:
    return [f"{one.kind} {one.key!r}: {one.reason}" for one in dropped]


def _failed(rule: str, reason: str) -> str:
    return f"failed to process rule {rule!r}: {reason}"


def _try_group(group: Group, outcome: Outcome, trace: Trace, trial: Trial) -> None:
    """The rules of a NodeFeatureGroup: which of them match, and their vars."""
    trial.errors += [_failed(rule, reason) for rule, reason in failures_in(group, outcome, trace)]
    for rule in group.rules:
        trial.lines.append(processing(rule.name))
        given = trace.found.get(id(rule))
        if given is None or isinstance(given, RuleError):
            continue
        trial.lines.append(f'Rule "{rule.name}" ' + ("matched" if given else "did not match"))
        trial.lines += section("Vars", pairs(given.vars) if isinstance(given, Given) else ())
