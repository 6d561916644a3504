"""What rules ask for on given features, told in the sections of NFD's `kubectl nfd test` and `kubectl nfd dryrun`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from nfd.errors import RuleError
from nfd.features import Features
from nfd.rules import policy as policies
from nfd.rules.compiled import Group, Rules, compile_rules
from nfd.rules.engine import Failure, Wanted, run, run_rule
from nfd.rules.model import RuleObject, Taint
from nfd.rules.overwritten import is_loss
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


def try_rules(objects: Iterable[RuleObject], features: Features) -> Trial:
    """Evaluate the rules on these features, as the master would with taints switched on."""
    rules, view, trial = compile_rules(objects), View(features), Trial()
    trial.lines += [processing(rule.name) for rule in rules.rules]
    wanted = run(Rules(rules.rules), view, policy=POLICY)
    trial.errors += [_failed(failure) for failure in wanted.errors]
    for title, lines, findings in _sections(wanted, view, trial.errors):
        trial.lines += section(title, lines, findings)
    trial.remarks += [f"{one.kind} {one.key!r}: {one}" for one in wanted.overwrites if is_loss(one, POLICY)]
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


def _sections(wanted: Wanted, view: View, errors: list[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    _, bad_taints = policies.allow_taints(wanted.taints, POLICY)
    yield "Taints", sorted(map(_taint, wanted.taints)), told(bad_taints)
    labels = _resolved("label", wanted.labels, view, errors)
    yield "Labels", pairs(labels), told(policies.allow_labels(labels, view.attribute, POLICY).dropped)
    resources = _resolved("extendedResource", wanted.extended_resources, view, errors)
    dropped = policies.allow_extended_resources(resources, view.attribute, POLICY).dropped
    yield "Extended Resources", pairs(resources), told(dropped)
    notes = _resolved(policies.ANNOTATION, wanted.annotations, view, errors)
    yield "Annotations", pairs(notes), told(policies.allow_annotations(notes, view.attribute, POLICY).dropped)


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
