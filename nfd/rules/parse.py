"""From text or plain values to rule objects, with every mistake on its line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import ValidationError

from nfd.config.yamltext import TWICE, Document, Path, documents
from nfd.errors import ConfigError, reason_of
from nfd.message_text import did_you_mean, visible
from nfd.names import API_GROUP, API_VERSION
from nfd.rules.model import (
    Alternative,
    CustomAlternative,
    CustomExpression,
    CustomRule,
    CustomTerm,
    Expression,
    GroupRule,
    Mistake,
    ParsedRule,
    Part,
    Rule,
    RuleObject,
    Taint,
    Term,
    as_text,
    name_of,
    unquoted,
)
from nfd.rules.scalars import sound, text_documents

RULE, GROUP = "NodeFeatureRule", "NodeFeatureGroup"
RULE_FIELD, GROUP_FIELD = "rules", "featureGroupRules"
_KINDS = {RULE: (RULE_FIELD, Rule, False), GROUP: (GROUP_FIELD, GroupRule, True)}
_NAME = "rules"
MAX_PARTS = 30_000
"""Lists, mappings and values in one rule: some 150 ms to read."""
_ROUNDS = 6
"""Repairs may bring up what was hidden: a part that is no mapping, then what it lacks, each at most twice."""
_REASONS = {
    "dict_type": "must be a mapping",
    "mapping_type": "must be a mapping",
    "missing": "is missing",
    "model_type": "must be a mapping",
    "string_type": "must be text",
    "tuple_type": "must be a list",
}
_PARTS = (Expression, Term, Alternative, Taint, GroupRule, Rule)
_RULE_KEYS = frozenset(str(field.alias) for part in _PARTS for field in part.model_fields.values())
OBJECT_KEYS = frozenset(("apiVersion", "kind", "metadata", "spec", "status"))


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake in a rule file."""

    line: int
    reason: str
    soft: bool

    def __str__(self) -> str:
        return f"line {self.line}: {visible(self.reason)}"


@dataclass(frozen=True, slots=True)
class RuleText:
    """The rule objects of a file and what is wrong with it; those after the place where it is `broken` are missing."""

    objects: tuple[RuleObject, ...]
    findings: tuple[Finding, ...]
    broken: bool = False


@dataclass(frozen=True, slots=True)
class CustomText:
    """The rules of a file in the worker's dialect and what is wrong with it."""

    rules: tuple[ParsedRule, ...]
    findings: tuple[Finding, ...]


def parse_text(text: str) -> RuleText:
    """Parse a file of NodeFeatureRule and NodeFeatureGroup documents; broken text gives findings, no exception."""
    objects: list[RuleObject] = []
    findings: list[Finding] = []
    try:
        for document, _, parsed in read_objects(text, findings):
            objects.append(parsed)
            findings.extend(locate(document, all_mistakes(parsed)))
    except ConfigError as error:
        return RuleText(tuple(objects), (*findings, unreadable(error)), broken=True)
    return RuleText(tuple(objects), tuple(findings))


def read_objects(text: str, findings: list[Finding], name: str = _NAME) -> Iterator[tuple[Document, Path, RuleObject]]:
    """The rule objects of a file, each with its document and its place there; what is not in quotes is a finding.

    Raises: ConfigError for broken YAML, which begins with `name`.
    """
    for document, plain in text_documents(text, name):
        found = [(path, parse_object(data, path)) for data, path in _unfold(document.data)]
        wrong = {mistake.path for _, parsed in found for mistake in all_mistakes(parsed) if not mistake.soft}
        misplaced = _texts_inside(document, wrong)
        findings.extend(Finding(one.line, str(one), True) for one in plain if (one.line, one.text) not in misplaced)
        findings.extend(twice(document))
        yield from ((document, path, parsed) for path, parsed in found)


def _texts_inside(document: Document, places: Set[Path]) -> set[tuple[int, str]]:
    """Lines and texts in places that are wrong as they are: quotes would make nothing good of them."""
    inside = (path for path in document.lines if any(path[:size] in places for size in range(len(path) + 1)))
    found = ((document.lines[path], value_at(document.data, path)) for path in inside)
    return {(line, value) for line, value in found if isinstance(value, str)}


def twice(document: Document) -> list[Finding]:
    """Keys written twice: `kubectl apply` refuses them, everybody else takes the last one."""
    return [Finding(document.lines[path], f"{path[-1]} {TWICE}", True) for path in document.repeated]


def value_at(data: Any, path: Path) -> Any:
    """What stands at a place."""
    for step in path:
        data = data[step]
    return data


def parse_custom_text(text: str) -> CustomText:
    """Parse a drop-in file of the worker's `custom` source: YAML lists of rules."""
    rules: list[ParsedRule] = []
    findings: list[Finding] = []
    try:
        for document in documents(sound(text, _NAME), _NAME):
            parsed = () if document.data is None else parse_custom(document.data)
            rules.extend(parsed)
            findings.extend(locate(document, [mistake for rule in parsed for mistake in rule.mistakes]))
            findings.extend(twice(document))
    except ConfigError as error:
        findings.append(unreadable(error))
    return CustomText(tuple(rules), tuple(findings))


def unreadable(error: ConfigError) -> Finding:
    """The finding that broken YAML is; its message starts with the given name, and the line if there is one."""
    reason = str(error).removeprefix(f"{_NAME}:")
    line, colon, rest = reason.partition(": ")
    return Finding(int(line), rest, False) if colon and line.isdecimal() else Finding(1, reason.strip(), False)


def parse_custom(data: Any) -> tuple[ParsedRule, ...]:
    """Parse the worker's inline rules, a list of mappings (`sources.custom`); nothing is a rule that gives nothing."""
    if not isinstance(data, list | tuple):
        return (ParsedRule("", None, (Mistake((), "must be a list of rules", False),)),)
    return tuple(parse_rule({} if one is None else one, CustomRule, (index,)) for index, one in enumerate(data))


def parse_object(data: Any, path: Path = ()) -> RuleObject:
    """Parse one object as the API server hands it out. Mistakes are kept in the result."""
    found, rules = parse_head(data, path)
    return replace(found, rules=tuple(rules))


def parse_head(data: Any, path: Path = ()) -> tuple[RuleObject, Iterator[ParsedRule]]:
    """An object without its rules, and these, each parsed when it is taken: there may be thousands."""
    if not isinstance(data, Mapping):
        return RuleObject("", (), mistakes=(Mistake(path, "must be a mapping", False),)), iter(())
    kind = data.get("kind")
    mistakes = [_unknown_key((*path, key), key, OBJECT_KEYS) for key in data if key not in OBJECT_KEYS]
    name, namespace = name_of(data.get("metadata")), _namespace(data.get("metadata"))
    if not isinstance(kind, str) or kind not in _KINDS:
        mistakes.append(Mistake((*path, "kind"), f"kind {kind!r} is neither {RULE} nor {GROUP}", False))
        return RuleObject(name, (), namespace, mistakes=tuple(mistakes)), iter(())
    if not isinstance(data.get("metadata"), Mapping | None):
        mistakes.append(Mistake((*path, "metadata"), "metadata must be a mapping", False))
    if (problem := _version_problem(data.get("apiVersion"))) is not None:
        mistakes.append(Mistake((*path, "apiVersion"), problem, False))
    field, shape, is_group = _KINDS[kind]
    listed, more = _rule_list(data.get("spec"), field, (*path, "spec"))
    rules = (parse_rule(one, shape, (*path, "spec", field, index)) for index, one in enumerate(listed))
    return RuleObject(name, (), namespace, is_group, (*mistakes, *more)), rules


def _version_problem(written: Any) -> str | None:
    """Why a master, which watches one version of one group, never sees the object."""
    if written == API_VERSION:
        return None
    group, slash, _ = written.partition("/") if isinstance(written, str) else ("", "", "")
    wrong = f"; a master never sees objects of group {group!r}, change it" if slash and group != API_GROUP else ""
    return f"apiVersion must be {API_VERSION}{wrong}"


def _rule_list(spec: Any, field: str, path: Path) -> tuple[Sequence[Any], list[Mistake]]:
    if not isinstance(spec, Mapping):
        return (), [Mistake(path, "spec must be a mapping", spec is None)]
    mistakes = [_unknown_key((*path, key), key, (field,)) for key in spec if key != field]
    listed = spec.get(field)
    if isinstance(listed, list | tuple):
        return listed, mistakes
    reason = f"{field} must be a list"
    return (), [*mistakes, Mistake((*path, field), reason, listed is None)]


def parse_rule(data: Any, shape: type[GroupRule], path: Path = ()) -> ParsedRule:
    """Parse one rule, repairing soft mistakes the way Kubernetes reads such text.

    What cannot be repaired is taken out, so that the mistakes in what is left are found as well. Whatever else goes
    wrong is a mistake of this rule.
    """
    try:
        if _has_too_many_parts(data):
            return ParsedRule(name_of(data), None, (Mistake(path, f"rule has more than {MAX_PARTS} parts", False),))
        return _parsed(data, shape, path)
    except Exception as error:  # a rule spoils only itself
        return ParsedRule(name_of(data), None, (Mistake(path, f"rule cannot be read: {reason_of(error)}", False),))


def _has_too_many_parts(data: Any) -> bool:
    """Whether it has more lists, mappings and values than a rule may have; without looking at all of them then."""
    ahead, count = [data], 0
    while ahead and count <= MAX_PARTS:
        one = ahead.pop()
        if isinstance(one, Mapping | list | tuple):
            count += 1 + len(one)
            inside = one.values() if isinstance(one, Mapping) else one
            ahead += [value for value in inside if isinstance(value, Mapping | list | tuple)]
    return count > MAX_PARTS


def _parsed(data: Any, shape: type[GroupRule], path: Path) -> ParsedRule:
    mistakes: list[Mistake] = []
    data = _RULE(data) if issubclass(shape, CustomRule) else data
    draft = Draft(data)
    for _ in range(_ROUNDS):
        try:
            rule = shape.model_validate(draft.data)
        except ValidationError as error:
            errors = error.errors(include_url=False)
            nulls = issubclass(shape, CustomRule)
            mistakes.extend(_mistake(one, path, nulls) for one in errors if not draft.is_broken(one["loc"]))
            try:
                for one in errors:
                    _mend(draft, one, nulls)
            except LookupError:
                break
        else:
            if not draft.broken:
                return ParsedRule(rule.name, rule, tuple(mistakes))
            return ParsedRule(name_of(data), None, tuple(mistakes), rest=rule)
    return ParsedRule(name_of(draft.data), None, tuple(mistakes))


def _mend(draft: Draft, error: Any, nulls: bool) -> None:
    """Make good one mistake, or take out what it is in. Raises: LookupError where neither can be."""
    place = error["loc"]
    if _is_unknown(error):
        draft.remove(place)
    elif _is_soft(error, nulls):
        draft.replace(place, as_text(error["input"]))
    elif error["type"] == "missing":
        draft.give_up(place, "")
    else:
        draft.give_up(place, "" if error["type"] == "string_type" else {})


def _is_unknown(error: Any) -> bool:
    return bool(error["type"] == "extra_forbidden")


def _is_soft(error: Any, nulls: bool) -> bool:
    """A number where text is required, or an unknown key; with `nulls` also a key without a value.

    The worker's rules come as text, in which NFD takes nothing for empty text; the API server refuses it.
    """
    given = error["input"]
    if error["type"] != "string_type":
        return _is_unknown(error)
    return isinstance(given, bool | int | float) or (nulls and given is None and isinstance(error["loc"][-1], str))


def _mistake(error: Any, path: Path, nulls: bool) -> Mistake:
    place: Path = (*path, *error["loc"])
    where = ".".join(str(part) for part in error["loc"])
    if _is_unknown(error):
        return _unknown_key(place, where, _RULE_KEYS)
    if _is_soft(error, nulls):
        return Mistake(place, f"{where} {unquoted(error['input'])}", True)
    return Mistake(place, f"{where or 'rule'} {_REASONS.get(error['type'], error['msg'])}", False)


def _unknown_key(place: Path, where: str, known: Iterable[str]) -> Mistake:
    return Mistake(place, f"unknown key {where!r}{did_you_mean(str(place[-1]), known)}", True)


def _unfold(value: Any) -> Iterator[tuple[Any, Path]]:
    """The objects of a document: itself, the items of a list as `kubectl get -o yaml` prints it, or none."""
    kind = value.get("kind") if isinstance(value, dict) else None
    items = value.get("items") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        yield from ((item, ("items", index)) for index, item in enumerate(items))
    elif value is not None:
        yield value, ()


def _namespace(metadata: Any) -> str:
    namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    return namespace if isinstance(namespace, str) else ""


def all_mistakes(parsed: RuleObject) -> list[Mistake]:
    """Mistakes of an object and of its rules."""
    return [*parsed.mistakes, *(mistake for rule in parsed.rules for mistake in rule.mistakes)]


def locate(document: Document, mistakes: Iterable[Mistake]) -> list[Finding]:
    """Mistakes with the line of their place."""
    return [Finding(line_of(document, mistake.path), mistake.reason, mistake.soft) for mistake in mistakes]


def line_of(document: Document, path: Path) -> int:
    """The line of a place, or of the nearest place around it."""
    while path and path not in document.lines:
        path = path[:-1]
    return document.lines.get(path, 1)


_SHORT = "value"
"""Where a list of values that stands for a whole expression, `x: [a, b]`, is after it was expanded."""


class Draft:
    """The data as it stands, and the places in `broken` whose content is not what was written."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.broken: set[Path] = set()
        self._own: dict[int, Any] = {}

    def is_broken(self, place: Path) -> bool:
        """Whether a place is, or is inside of, one that was given up."""
        return bool(self.broken) and any(place[:end] in self.broken for end in range(len(place) + 1))

    def replace(self, place: Path, value: Any) -> None:
        """Put another value there. Raises: LookupError if there is no such place."""
        around, key = self._around(place)
        around[key]
        around[key] = value

    def remove(self, place: Path) -> None:
        """Take out a key of a mapping. Raises: LookupError if there is no such place."""
        around, key = self._around(place)
        if not isinstance(around, dict):
            raise LookupError(place)
        around.pop(key, None)

    def give_up(self, place: Path, stand_in: Any) -> None:
        """Repair an error: remove or add a key of a mapping, or replace an item of a list."""
        around, key = self._around(place)
        if isinstance(around, dict) and key in around:
            del around[key]
        else:
            around[key] = stand_in
        self.broken.add(place)

    def _around(self, place: Path) -> tuple[Any, Any]:
        """A private copy of what is around a place, and the key in it."""
        if not place:
            raise LookupError(place)
        self.data = around = self._copy(self.data)
        *way, last = place
        for key in way:
            if isinstance(around, list) and key == _SHORT:
                continue
            around[_fit(around, key)] = inner = self._copy(around[_fit(around, key)])
            around = inner
        return around, _fit(around, last)

    def _copy(self, value: Any) -> Any:
        if id(value) in self._own:
            return value
        if not isinstance(value, dict | list | tuple):
            raise LookupError
        copy = dict(value) if isinstance(value, dict) else list(value)
        self._own[id(copy)] = copy
        return copy


def _fit(around: Any, key: str | int) -> Any:
    """The key, if it is of the kind that what is around it has. Raises: LookupError."""
    if isinstance(around, list) != isinstance(key, int):
        raise LookupError(key)
    return key


Spell = Callable[[Any], Any]


def _keys(model: type[Part], inside: Mapping[str, Spell], data: Any) -> Any:
    """Of two spellings of one key the documented one counts, the other is an unknown key."""
    if not isinstance(data, dict):
        return data
    known = {str(field.alias).lower(): str(field.alias) for field in model.model_fields.values()}
    found: dict[Any, Any] = {}
    for written, value in data.items():
        key: Any = known.get(str(written).lower(), written)
        key = written if key in data else key
        found[key] = inside[key](value) if key in inside else value
    return found


def _each(spell: Spell, data: Any) -> Any:
    return [spell(one) for one in data] if isinstance(data, list | tuple) else data


def _values(spell: Spell, data: Any) -> Any:
    return {key: spell(one) for key, one in data.items()} if isinstance(data, dict) else data


_EXPRESSION: Spell = partial(_keys, CustomExpression, {})
_TERM: Spell = partial(_keys, CustomTerm, {"matchExpressions": partial(_values, _EXPRESSION), "matchName": _EXPRESSION})
_ALTERNATIVE: Spell = partial(_keys, CustomAlternative, {"matchFeatures": partial(_each, _TERM)})
_RULE: Spell = partial(
    _keys, CustomRule, {"matchFeatures": partial(_each, _TERM), "matchAny": partial(_each, _ALTERNATIVE)}
)
"""A rule with its keys as documented; names of labels and elements stay as they are."""
