"""Compiles the rules of a cluster or of files, one at a time, and puts them in order (pure)."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from nfd.errors import reason_of
from nfd.master.node.desired import RULE_ORIGIN, Contribution, Freshness
from nfd.names import API_VERSION
from nfd.rule_clock import CLOCKS, metered
from nfd.rules import policy as policies
from nfd.rules.check import check_rule
from nfd.rules.compile import CompiledRule, Group, compile_rule
from nfd.rules.match_features import MATCHED
from nfd.rules.model import ParsedRule, Rule, RuleObject
from nfd.rules.parse import GROUP as GROUP_KIND
from nfd.rules.parse import RULE as RULE_KIND
from nfd.rules.parse import parse_head
from nfd.rules.policy import Policy
from nfd.rules.template import Template, TemplateError
from nfd.rules.time_limit import FREE, Clocks, Meter

T = TypeVar("T")

NO_TAINTS = "taints are disabled in the master: start it with -enable-taints, or set enableTaints"
COMPILE_SECONDS = 5.0
"""Seconds of CPU time to compile the rules of one object; a hundred rules take some hundredths of a second."""
CROWDED_OUT = f"skipped: the rules before it in this object take more than {COMPILE_SECONDS:.0f} s to compile"
LONGEST_NAME = 100
"""The most letters of a rule's name in the bookkeeping of a node."""

Problems = tuple[str, ...]
GroupKey = tuple[str, str]
"""Namespace and name of a NodeFeatureGroup."""
Steps = Generator[None, None, T]
"""A long computation that may be paused between any two steps."""


def exhaust(steps: Steps[T]) -> T:
    """The result of a computation, without pauses."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class PlacedRule:
    """One rule and its object. `asked` is what it sets, apart from its template.

    `fixed`: all of that is known in advance. Then `mistakes` covers it, and it is not checked on each node.
    """

    name: str
    rule: CompiledRule
    asked: Contribution
    fixed: bool
    mistakes: Problems = ()
    features: tuple[str, ...] = ()
    """Names of the features in its terms, in lower case."""
    timed: bool = False
    """Whether its templates may use the current time."""
    dependent: bool = False
    """Whether its result depends on earlier rules."""
    size: int = 0
    """Letters of the keys and values that it sets."""

    @property
    def origin(self) -> str:
        return self.asked.origin

    @property
    def object_origin(self) -> str:
        """The origin of all rules of its object."""
        return self.asked.origin.partition("/")[0]


@dataclass(frozen=True, slots=True)
class CompiledObject:
    """One NodeFeatureRule object."""

    name: str
    uid: str = ""
    generation: int = 0
    rules: tuple[PlacedRule, ...] = ()
    mistakes: Problems = ()


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules of the cluster in the order of evaluation, and the groups that this master updates."""

    compiled_objects: tuple[CompiledObject, ...] = ()
    rules: tuple[PlacedRule, ...] = ()
    origins: frozenset[str] = frozenset()
    groups: tuple[Group, ...] = ()
    features: tuple[str, ...] = ()
    """Names of all features that rules and groups use."""
    repeatable: bool = False
    """Whether the result depends on these features alone, apart from references to others."""

    def relying_on(self, fresh: Freshness, unknown: bool = False) -> frozenset[str]:
        """Origins of the rules that use features of which some may be missing, or depend on a rule that does.

        With `unknown` there are further rules that cannot be read: any rule may depend on them.
        """
        found: set[str] = set()
        for rule in self.rules if fresh.partial or unknown else ():
            looks = any(map(fresh.may_lack, rule.features))
            if looks or (rule.dependent and (found or unknown)):
                found.add(rule.origin)
        return frozenset(found)

    def groups_relying_on(self, fresh: Freshness) -> list[GroupKey]:
        """The groups whose rules use features of which some may be missing."""
        return [
            group.key
            for group in (self.groups if fresh.partial else ())
            if any(fresh.may_lack(name) for rule in group.rules for name in looked_at(rule))
        ]


def bind(compiled_objects: Iterable[CompiledObject], groups: Iterable[Group]) -> RuleSet:
    """Put objects in order of their names, compared by bytes (NFD documentation, "NodeFeatureRule")."""
    ordered = tuple(sorted(compiled_objects, key=lambda compiled: compiled.name))
    rules = tuple(rule for compiled in ordered for rule in compiled.rules)
    groups = tuple(groups)
    members = [rule for group in groups for rule in group.rules]
    names = {name for rule in rules for name in rule.features} | {name for rule in members for name in looked_at(rule)}
    repeatable = not any(rule.timed for rule in rules) and not any(rule.has_templates for rule in members)
    origins = frozenset(rule.origin for rule in rules)
    return RuleSet(ordered, rules, origins, groups, (*sorted(names | {MATCHED}),), repeatable)


def compile_object(item: Mapping[str, Any], policy: Policy, clocks: Clocks = CLOCKS) -> CompiledObject:
    """Compile a NodeFeatureRule from JSON; all its mistakes are in the result."""
    return exhaust(compile_steps(item, policy, clocks))


def compile_steps(item: Mapping[str, Any], policy: Policy, clocks: Clocks = CLOCKS) -> Steps[CompiledObject]:
    """The same, a rule at a time: there may be thousands, and each may take `RULE_SECONDS`."""
    head, parsed = parse_head({"apiVersion": API_VERSION, "kind": RULE_KIND, **item})
    compiled = yield from _object_steps(head, parsed, policy, clocks)
    metadata = item.get("metadata")
    if not isinstance(metadata, Mapping):  # of a file: one of the API server always is
        return compiled
    generation = metadata.get("generation")
    number = generation if isinstance(generation, int) else 0
    return replace(compiled, uid=str(metadata.get("uid", "")), generation=number)


def compile_objects(objects: Iterable[RuleObject], policy: Policy) -> RuleSet:
    """The rules and groups of files. Objects of other kinds, which a master does not read, give nothing."""
    seen = [one for one in objects if one.defect is None]
    compiled_objects = [exhaust(_object_steps(one, one.rules, policy)) for one in seen if not one.is_group]
    groups = [exhaust(_group_steps(one, one.rules)) for one in seen if one.is_group]
    return bind(compiled_objects, sorted(groups, key=lambda group: group.name))


def group_steps(item: Mapping[str, Any], clocks: Clocks = CLOCKS) -> Steps[Group]:
    """Compile a NodeFeatureGroup from JSON, a rule at a time. Raises: ValueError."""
    head, parsed = parse_head({"apiVersion": API_VERSION, "kind": GROUP_KIND, **item})
    if head.defect is not None:
        raise ValueError(head.defect)
    return (yield from _group_steps(head, parsed, clocks))


def _group_steps(head: RuleObject, parsed: Iterable[ParsedRule], clocks: Clocks = CLOCKS) -> Steps[Group]:
    meter, rules = metered(clocks), list[CompiledRule]()
    for one in parsed:
        meter.start()
        rules.append(compile_rule(one, meter))
        yield
    return Group(head.name, head.namespace, tuple(rules))


def _object_steps(
    head: RuleObject, parsed: Iterable[ParsedRule], policy: Policy, clocks: Clocks = CLOCKS
) -> Steps[CompiledObject]:
    meter, began = metered(clocks), clocks.cpu()
    rules: list[PlacedRule] = []
    spent = 0.0
    for one in parsed:
        if spent > COMPILE_SECONDS:
            rules.append(_left_out(head, one, CROWDED_OUT))
            continue
        rules.append(place_rule(head, one, policy, meter))
        spent += clocks.cpu() - began
        yield
        began = clocks.cpu()
    return CompiledObject(head.name, rules=tuple(rules), mistakes=tuple(mistake.reason for mistake in head.mistakes))


def place_rule(parsed: RuleObject, one: ParsedRule, policy: Policy, meter: Meter = FREE) -> PlacedRule:
    """Compile a rule; any error is a mistake of this rule."""
    meter.start()
    try:
        return _placed(_origin(parsed, one), one, policy, meter)
    except Exception as error:
        return _left_out(parsed, one, f"cannot be compiled: {reason_of(error)}")


def _left_out(parsed: RuleObject, one: ParsedRule, defect: str) -> PlacedRule:
    rule = CompiledRule(one.name, defect=defect)
    return PlacedRule(one.name, rule, Contribution(_origin(parsed, one)), True, (defect,))


def _origin(parsed: RuleObject, one: ParsedRule) -> str:
    return f"{RULE_ORIGIN}{parsed.name}/{_noted_name(one.name)}"


def _placed(origin: str, one: ParsedRule, policy: Policy, meter: Meter) -> PlacedRule:
    compiled = compile_rule(one, meter)
    if not isinstance(one.rule, Rule):
        return PlacedRule(one.name, compiled, Contribution(origin), True, (compiled.defect or "not a rule",))
    meter.look()
    asked = _asked(origin, compiled, compiled.labels, policy)
    fixed = compiled.labels_template is None and not asked.refers
    mistakes = [mistake.reason for mistake in one.mistakes]
    checked = check_rule(one.rule, policy=replace(policy, enable_taints=True), meter=meter)
    mistakes += [mistake.reason for mistake in checked]
    if compiled.taints and not policy.enable_taints:
        mistakes.append(NO_TAINTS)
    timed = any(map(_wants_time, (compiled.labels_template, compiled.vars_template)))
    features = looked_at(compiled)
    dependent, size = MATCHED in features or _refers_to_matched(asked), size_of(asked)
    reasons = tuple(dict.fromkeys(mistakes))
    return PlacedRule(one.name, compiled, asked, fixed, reasons, features, timed, dependent, size)


def size_of(asked: Contribution) -> int:
    """Letters of its keys and values."""
    pairs = (asked.labels, asked.annotations, asked.extended_resources)
    letters = 0
    for values in pairs:
        letters += sum(map(len, values)) + sum(map(len, values.values()))
    for taint in asked.taints:
        letters += len(taint.key) + len(taint.value or "")
    return letters


def _refers_to_matched(asked: Contribution) -> bool:
    texts = (asked.labels, asked.annotations, asked.extended_resources)
    return any(value.startswith(f"@{MATCHED}.") for values in texts for value in values.values())


def _noted_name(name: str) -> str:
    """Shorten a very long name. It ends with a digest, so that different names stay different."""
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.blake2b(name.encode(errors="replace"), digest_size=8).hexdigest()
    return f"{name[: LONGEST_NAME - 17]}~{digest}"


def _wants_time(template: Template | None) -> bool:
    """Whether a template uses the current time; False for one that cannot be parsed."""
    try:
        return template is not None and template.wants_time() is not None
    except TemplateError:
        return False


def looked_at(rule: CompiledRule) -> tuple[str, ...]:
    """The features in its terms."""
    lists = (rule.match_features, *rule.match_any)
    return tuple(dict.fromkeys(term.key for terms in lists for term in terms))


def _asked(origin: str, rule: CompiledRule, labels: Mapping[str, str], policy: Policy) -> Contribution:
    return Contribution(
        origin,
        policies.prefix_keys(labels, policy),
        policies.prefix_keys(rule.annotations, policy),
        policies.prefix_keys(rule.extended_resources, policy),
        rule.taints,
        rule.vars,
    )
