"""The engine against a second evaluation, written down naively from the rule language's documentation."""

from __future__ import annotations

import json
import random
import re
from typing import Any

from nfd.errors import RuleError
from nfd.features import Features
from nfd.rules.compile import compile_rule
from nfd.rules.evaluate import run_rule
from nfd.rules.match_features import View
from nfd.rules.model import Rule
from nfd.rules.parse import parse_rule

RULES, FEATURE_SETS = 1_000, 100
NAMES = ("a", "b", "c", "D", "true")
VALUES = ("1", "2", "10", "-3", "x", "true", "false", "1.2", "v1.10", "")
FEATURES = ("f.one", "f.two", "g.one", "F.One")
OPS = (
    "In", "NotIn", "InRegexp", "Exists", "DoesNotExist", "Gt", "Ge", "Lt", "Le", "GtLt", "GeLe", "IsTrue", "IsFalse",
    "Nope",
)  # fmt: skip
FITTING = {"Exists": 0, "DoesNotExist": 0, "IsTrue": 0, "IsFalse": 0, "GtLt": 2, "GeLe": 2}


class Fails(Exception):
    """The rule is in error."""


# Generating


def some_expression(chance: random.Random) -> dict[str, Any]:
    op = chance.choice(OPS[:-1]) if chance.random() < 0.97 else OPS[-1]
    count = FITTING.get(op, 1) if chance.random() < 0.95 else chance.randrange(3)
    values = [chance.choice(VALUES) for _ in range(count)]
    if count == 2 and chance.random() < 0.8:
        values = ["0", "11"]
    if op == "InRegexp":
        values = [chance.choice(("^1", "x|y", "[0-9]+$", ".", "(")) for _ in values]
    elif op in ("Gt", "Ge", "Lt", "Le") and chance.random() < 0.8:
        values = [chance.choice(("1", "2", "10", "-3")) for _ in values]
    made: dict[str, Any] = {"op": op, "value": values}
    return made | ({"type": "version"} if chance.random() < 0.2 else {})


def some_terms(chance: random.Random) -> list[dict[str, Any]]:
    return [some_term(chance) for _ in range(chance.randrange(1, 3))]


def some_term(chance: random.Random) -> dict[str, Any]:
    term: dict[str, Any] = {"feature": chance.choice(FEATURES)}
    if chance.random() < 0.85:
        names = chance.sample(NAMES, chance.choice((0, 1, 1, 1, 2)))
        term["matchExpressions"] = {name: some_expression(chance) for name in names}
    if chance.random() < 0.25:
        term["matchName"] = some_expression(chance)
    return term


def some_rule(chance: random.Random) -> dict[str, Any]:
    rule: dict[str, Any] = {"name": "r", "labels": {"l": "1"}, "vars": {"v": "2"}}
    if chance.random() < 0.8:
        rule["matchFeatures"] = some_terms(chance)
    if chance.random() < 0.4:
        rule["matchAny"] = [{"matchFeatures": some_terms(chance)} for _ in range(chance.randrange(1, 4))]
    if chance.random() < 0.4:
        rule["labelsTemplate"] = "found={{ toJson . }}"
    return rule


def some_features(chance: random.Random) -> Features:
    def values() -> dict[str, str]:
        return {name: chance.choice(VALUES) for name in chance.sample(NAMES, chance.randrange(4))}

    def names() -> list[str]:
        return [name for name in ("f.one", "f.two", "g.one") if chance.random() < 0.5]

    return Features(
        {name: frozenset(chance.sample(NAMES, chance.randrange(4))) for name in names()},
        {name: values() for name in names()},
        {name: tuple(values() for _ in range(chance.randrange(3))) for name in names()},
    )


# The second evaluation


def number(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise Fails
    return int(text)


def version(text: str) -> list[int]:
    if not re.fullmatch(r"v?[0-9]+(\.[0-9]+){0,2}([-+].*)?", text):
        raise Fails
    parts = re.split(r"[-+]", text.removeprefix("v"))[0].split(".")
    return ([int(part) for part in parts] + [0, 0])[:3]


def judge(expression: dict[str, Any], present: bool, value: str | None) -> bool:
    """One expression on one element; a value of None is a flag."""
    op, wanted = expression["op"], expression["value"]
    if op not in OPS[:-1]:
        raise Fails
    if op in ("Exists", "DoesNotExist"):
        if wanted:
            raise Fails
        return present == (op == "Exists")
    if not present or value is None:
        return False
    return judge_value(op, wanted, value, version if expression.get("type") else number)


def judge_value(op: str, wanted: list[str], value: str, read: Any) -> bool:
    if bool(wanted) == (op in ("IsTrue", "IsFalse")):
        raise Fails
    if not wanted:
        return value == op[2:].lower()
    if op in ("In", "NotIn"):
        return (value in wanted) == (op == "In")
    if op == "InRegexp":
        if "(" in wanted:
            raise Fails
        return any(re.search(pattern, value) for pattern in wanted)
    return compare(op, wanted, value, read)


def compare(op: str, wanted: list[str], value: str, read: Any) -> bool:
    if len(wanted) != (2 if op in ("GtLt", "GeLe") else 1):
        raise Fails
    low, high, given = read(wanted[0]), read(wanted[-1]), read(value)
    if read is number and ((op == "GtLt" and low >= high) or (op == "GeLe" and low > high)):
        raise Fails
    answers = {
        "GtLt": low < given < high,
        "GeLe": low <= given <= high,
        "Gt": given > low,
        "Ge": given >= low,
        "Lt": given < low,
        "Le": given <= low,
    }
    return bool(answers[op])


def union_matches(expressions: dict[str, Any], flags: Any, attributes: Any) -> list[dict[str, str]] | None:
    if flags is None and attributes is None:
        return None
    elements: list[dict[str, str]] = []
    for name in in_order(expressions):
        in_flags = flags is not None and judge(expressions[name], name in flags, None)
        in_values = attributes is not None and judge(expressions[name], name in attributes, attributes.get(name))
        answers = [answer for answer, there in ((in_flags, flags), (in_values, attributes)) if there is not None]
        if not (all if expressions[name]["op"] == "DoesNotExist" else any)(answers):
            return None
        elements += [{"Name": name}] if in_flags else []
        elements += [{"Name": name, "Value": (attributes or {}).get(name, "")}] if in_values else []
    return sorted(elements, key=lambda element: element["Name"])


def in_order(expressions: dict[str, Any]) -> list[str]:
    """The order is open where one expression is a mistake and another just does not hold: plain ones go first."""

    def rank(name: str) -> int:
        op, values = expressions[name]["op"], expressions[name]["value"]
        if op == "InRegexp":
            return 1 if values and "(" not in values else 2
        plain = len(values) == 0 if op in ("Exists", "DoesNotExist", "IsTrue", "IsFalse") else bool(values)
        return 0 if op in ("In", "NotIn", "Exists", "DoesNotExist", "IsTrue", "IsFalse") and plain else 2

    return sorted(sorted(expressions), key=rank)


def term_matches(term: dict[str, Any], features: Features) -> list[dict[str, str]] | None:
    key = term["feature"].lower()
    flags, attributes = features.flags.get(key), features.attributes.get(key)
    instances = features.instances.get(key)
    if flags is None and attributes is None and instances is None:
        return None
    found: list[dict[str, str]] = []
    if "matchExpressions" in term:
        expressions = term["matchExpressions"]
        union = union_matches(expressions, flags, attributes)
        hits = [dict(one) for one in instances or () if instance_matches(expressions, one)]
        if union is None and not hits:
            return None
        found += (union or []) + hits
    if "matchName" in term:
        named = name_matches(term["matchName"], flags or (), attributes or {}, instances or ())
        if not named:
            return None
        found += named
    return found


def instance_matches(expressions: dict[str, Any], instance: Any) -> bool:
    return all(judge(expressions[name], name in instance, instance.get(name)) for name in in_order(expressions))


def name_matches(expression: dict[str, Any], flags: Any, attributes: Any, instances: Any) -> list[dict[str, str]]:
    def holds(name: str) -> bool:
        return judge(expression, True, name)

    found = [(name, 0, {"Name": name}) for name in flags if holds(name)]
    found += [(name, 1, {"Name": name, "Value": attributes[name]}) for name in attributes if holds(name)]
    devices = [dict(one) for one in instances if any([holds(name) for name in one])]  # noqa: C419
    return [element for _, _, element in sorted(found, key=lambda one: one[:2])] + devices


def terms_match(terms: list[dict[str, Any]], features: Features) -> dict[str, Any] | None:
    data: dict[str, Any] = {}
    for term in terms:
        found = term_matches(term, features)
        if found is None:
            return None
        domain, _, feature = term["feature"].partition(".")
        data.setdefault(domain, {}).setdefault(feature, []).extend(found)
    return data


def second_evaluation(rule: dict[str, Any], features: Features) -> dict[str, str] | None:
    """The labels of a rule, None if it does not hold."""
    matched = []
    if rule.get("matchAny"):
        for one in rule["matchAny"]:
            data = terms_match(one["matchFeatures"], features)
            matched += [data] if data is not None else []
            if matched and "labelsTemplate" not in rule:
                break
        if not matched:
            return None
    if rule.get("matchFeatures"):
        data = terms_match(rule["matchFeatures"], features)
        if data is None:
            return None
        matched.append(data)
    labels = {"l": "1"}
    if matched and "labelsTemplate" in rule:
        shown = {domain: {name: found or None for name, found in one.items()} for domain, one in matched[-1].items()}
        labels["found"] = json.dumps(shown, sort_keys=True, separators=(",", ":"))
    return labels


def outcome(call: Any) -> Any:
    try:
        return call()
    except (Fails, RuleError):
        return "fails"


def test_engine_and_second_evaluation_agree() -> None:
    chance = random.Random(20)
    feature_sets = [some_features(chance) for _ in range(FEATURE_SETS)]
    seen = {"fails": 0, "misses": 0, "holds": 0}
    for _ in range(RULES):
        rule = some_rule(chance)
        parsed = parse_rule(rule, Rule)
        assert parsed.rule is not None, parsed.mistakes
        compiled = compile_rule(parsed)
        for features in feature_sets:
            expected = outcome(lambda: second_evaluation(rule, features))  # noqa: B023
            given = outcome(lambda: run_rule(compiled, View(features)))  # noqa: B023
            got = given.labels if given not in (None, "fails") else given
            assert got == expected, (rule, features)
            seen["fails" if got == "fails" else "misses" if got is None else "holds"] += 1
    assert min(seen.values()) > 5_000, seen
