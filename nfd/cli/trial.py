"""What rules ask for on given features, told in the sections of NFD's `kubectl nfd test` and `kubectl nfd dryrun`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from nfd.errors import RuleError
from nfd.features import Features
from nfd.master.rulebook import NO_TAINTS
from nfd.rules import policy as policies
from nfd.rules.compiled import Group, Rules, compile_rules
from nfd.rules.engine import Failure, Wanted, run, run_rule
from nfd.rules.model import RuleObject, Taint
from nfd.rules.overwritten import EXTENDED_RESOURCE, LABEL, is_loss
from nfd.rules.policy import Dropped, Policy
from nfd.rules.terms import View
from nfd.visible import visible

POLICY = Policy(enable_taints=True)


@dataclass(slots=True)
class Trial:
    """Lines for standard output, and what fails the trial: a rule, or a reference that leads nowhere.

    `remarks` are what somebody should know besides.
    """

    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def tell(self, what: str, subject: str) -> int:
        """Print it, ending with a verdict on `subject`; the exit status."""
        verdict = f"{what} is {'not ' if self.errors else ''}valid for {subject}"
        sys.stdout.write("".join(f"{visible_line(line)}\n" for line in [*self.lines, verdict]))
        said = [*self.errors, *(f"warning: {remark}" for remark in self.remarks)]
        sys.stderr.write("".join(f"{visible(line)}\n" for line in said))
        return 1 if self.errors else 0


def visible_line(line: str) -> str:
    """Foreign text made harmless; the tabs are ours."""
    return "\t".join(map(visible, line.split("\t")))


def try_rules(objects: Iterable[RuleObject], features: Features, policy: Policy = POLICY) -> Trial:
    """Evaluate the rules on these features, as a master of that policy would; by default with taints switched on."""
    rules, view, trial = compile_rules(objects), View(features), Trial()
    trial.lines += [processing(rule.name) for rule in rules.rules]
    wanted = run(Rules(rules.rules), view, policy=policy)
    trial.errors += [_failed(failure) for failure in wanted.errors]
    trial.remarks += _switched_off(wanted, policy)
    for title, lines, findings in _sections(wanted, view, policy, trial.errors):
        trial.lines += section(title, lines, findings)
    trial.remarks += [f"{one.kind} {one.key!r}: {one}" for one in wanted.overwrites if is_loss(one, policy)]
    for group in rules.groups:
        _try_group(group, features, trial)
    return trial


def processing(name: str) -> str:
    return f"Processing rule:  {name}"


def section(title: str, lines: Iterable[str], findings: Iterable[str] = ()) -> Iterator[str]:
    """A head, the lines, and what is wrong with them; nothing without lines."""
    listed, wrong = list(lines), list(findings)
    if listed:
        yield f"***\t{title}\t***"
        yield from listed
    if listed and wrong:
        yield "\t-Validation errors-"
        yield from wrong


def _sections(
    wanted: Wanted, view: View, policy: Policy, errors: list[str]
) -> Iterator[tuple[str, list[str], list[str]]]:
    _, bad_taints = policies.allow_taints(wanted.taints, policy)
    yield "Taints", sorted(map(_taint, wanted.taints)), told(bad_taints)
    lookup = view.attribute
    labels, resources, notes = wanted.labels, wanted.extended_resources, wanted.annotations
    found = _resolved(LABEL, labels, view, errors)
    yield "Labels", pairs(found), told(policies.allow_labels(_of(labels, found), lookup, policy).dropped)
    found = _resolved(EXTENDED_RESOURCE, resources, view, errors)
    dropped = policies.allow_extended_resources(_of(resources, found), lookup, policy).dropped
    yield "Extended Resources", pairs(found), told(dropped)
    found = _resolved(policies.ANNOTATION, notes, view, errors)
    yield "Annotations", pairs(found), told(policies.allow_annotations(_of(notes, found), lookup, policy).dropped)


def _of(written: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """As written, since what a reference stands for is no reference; those that lead nowhere are told already."""
    return {key: written[key] for key in found}


def _switched_off(wanted: Wanted, policy: Policy) -> Iterator[str]:
    """What rules ask for and the master's configuration switches off as a whole."""
    if wanted.taints and not policy.enable_taints:
        yield NO_TAINTS
    kinds = (
        (wanted.labels, policy.disable_labels, "disableLabels"),
        (wanted.annotations, policy.disable_annotations, "disableAnnotations"),
        (wanted.extended_resources, policy.disable_extended_resources, "disableExtendedResources"),
    )
    for values, is_off, option in kinds:
        if values and is_off:
            yield f"the master has restrictions.{option} set: {', '.join(sorted(values))} would not be there"


def _resolved(kind: str, values: Mapping[str, str], view: View, errors: list[str]) -> dict[str, str]:
    """Values with references looked up; one that leads nowhere is an error."""
    found: dict[str, str] = {}
    for key, text in values.items():
        value, problem = policies.resolve(text, view.attribute) if policies.is_reference(kind, text) else (text, None)
        if problem is None:
            found[key] = value
        else:
            errors.append(f"failed to get dynamic value for {kind} {key!r}: {problem}")
    return found


def pairs(values: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in sorted(values.items())]


def told(dropped: Iterable[Dropped]) -> list[str]:
    return [f"{one.kind} {one.key!r}: {one.reason}" for one in dropped]


def _taint(taint: Taint) -> str:
    """As kubectl writes it."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _failed(failure: Failure) -> str:
    return f"failed to process rule {failure.rule!r}: {failure.reason}"


def _try_group(group: Group, features: Features, trial: Trial) -> None:
    """The rules of a NodeFeatureGroup: which of them hold, and the vars of those."""
    view = View(features)
    for rule in group.rules:
        trial.lines.append(processing(rule.name))
        try:
            given = run_rule(rule, view)
        except RuleError as error:
            trial.errors.append(_failed(Failure(rule.name, str(error))))
            continue
        trial.lines.append(f'Rule "{rule.name}" ' + ("matched" if given else "did not match"))
        trial.lines += section("Vars", pairs(given.vars) if given else ())
        view.remember((given.labels, given.vars) if given else ())
