"""What `nfd rules validate` warns of, and notes: features that no source gives, keys that several rules set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nfd.config.yamltext import Document, Path
from nfd.errors import ConfigError
from nfd.names import FEATURE_NS
from nfd.rules.known import KNOWN, did_you_mean
from nfd.rules.model import GroupRule, Mistake, RuleObject, Term
from nfd.rules.overwritten import VAR, rule_named
from nfd.rules.parse import GROUP_FIELD, RULE_FIELD, locate, read_objects
from nfd.rules.stated import Stated, stated_by

_Found = tuple[str, int, str]
"""File, line and what is to be said."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a rule object, or one of its rules, stands."""

    file: str
    document: Document
    path: Path

    def line(self, path: Path) -> int:
        return locate(self.document, [Mistake((*self.path, *path), "", True)])[0].line


@dataclass(frozen=True, slots=True)
class _Setting:
    rule: str
    value: str | None
    file: str
    line: int


def remarks_on(files: Iterable[tuple[str, str]], *, features: bool = True) -> dict[str, list[str]]:
    """Warnings and notes by file, each as `name:line: reason`; without `features` on shared keys alone.

    `files` are names and texts. A later object of the same name takes the place of an earlier one, as in a cluster.
    """
    objects: dict[tuple[bool, str, str], tuple[RuleObject, _Place]] = {}
    for name, text in files:
        for parsed, place in _objects(name, text):
            objects[parsed.is_group, parsed.namespace, parsed.name] = parsed, place
    found: list[_Found] = []
    known: dict[tuple[str, str], _Setting] = {}
    for parsed, place in sorted(objects.values(), key=lambda one: one[0].name):
        found += _unknown(parsed, place) if features else ()
        found += _shared(parsed, place, {} if parsed.is_group else known)
    remarks: dict[str, list[str]] = {}
    for file, line, reason in sorted(found):
        remarks.setdefault(file, []).append(f"{file}:{line}: {reason}")
    return remarks


def _objects(name: str, text: str) -> Iterator[tuple[RuleObject, _Place]]:
    """Objects that a master would see, up to where the text is broken."""
    try:
        for document, path, parsed in read_objects(text, [], name):
            if parsed.defect is None:
                yield parsed, _Place(name, document, path)
    except ConfigError:
        return


def _rules(parsed: RuleObject) -> Iterator[tuple[GroupRule, Path]]:
    """The rules that can be used, with their places in the object."""
    for index, one in enumerate(parsed.rules):
        if one.rule is not None:
            yield one.rule, ("spec", GROUP_FIELD if parsed.is_group else RULE_FIELD, index)


def _unknown(parsed: RuleObject, place: _Place) -> Iterator[_Found]:
    """Features that no source gives; those of NodeFeature objects and of plug-ins are not known here."""
    for rule, inside in _rules(parsed):
        alternatives = enumerate(rule.match_any or ())
        lists: list[tuple[Path, Sequence[Term]]] = [
            (("matchFeatures",), rule.match_features or ()),
            *((("matchAny", at, "matchFeatures"), one.match_features or ()) for at, one in alternatives),
        ]
        for path, index, term in ((path, index, term) for path, terms in lists for index, term in enumerate(terms)):
            if "." in term.feature and term.feature.lower() not in KNOWN:
                advice = did_you_mean(term.feature, KNOWN)
                reason = f"warning: feature {term.feature!r}: no source of nfd gives it{advice}"
                yield place.file, place.line((*inside, *path, index, "feature")), reason


def _shared(parsed: RuleObject, place: _Place, known: dict[tuple[str, str], _Setting]) -> Iterator[_Found]:
    """Keys of which one rule may write over another's value.

    `known` has what the rules of earlier objects set, and gets what those of this one set.
    """
    for rule, inside in _rules(parsed):
        for stated in stated_by(rule):
            now = _Setting(rule.name, stated.value, place.file, place.line((*inside, *stated.path)))
            before = known.get((stated.kind, stated.key))
            if before is not None and (before.rule, before.line, before.file) != (now.rule, now.line, now.file):
                yield now.file, now.line, _remark(stated, before, now)
            known[stated.kind, stated.key] = now


def _remark(stated: Stated, before: _Setting, now: _Setting) -> str:
    where = f"line {before.line}" if before.file == now.file else f"{before.file}:{before.line}"
    what = f"{stated.kind} {stated.key.removeprefix(f'{FEATURE_NS}/')!r}"
    if before.value is not None and before.value == now.value:
        return f"note: {what}: {rule_named(before.rule)} in {where} sets it to the same value"
    word = "note" if stated.kind == VAR else "warning"
    loses = f"{rule_named(now.rule)} overwrites the value of {rule_named(before.rule)} in {where}"
    return f"{word}: {what}: where both hold, {loses}"
