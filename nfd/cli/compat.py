"""Check whether this machine is compatible with an image, as NFD's `nfd compat validate-node` does, or find the
compatible nodes of a cluster. The requirements are in the compatibility artifact of the image in its registry. The exit
status is 0 even if no machine is compatible. The exit status is 1 if there is no such artifact, if one of its rules is
invalid, or if the registry does not answer within a minute. `nfd compat find` needs a master with --serve-reports."""

from __future__ import annotations

import json
import platform
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nfd.cli import compat_find
from nfd.cli.machine import add_machine_flags, scan_with_defaults
from nfd.cli.terminal_tables import Style, columns, screen_width, style_of
from nfd.config.named_files import read_standard_input
from nfd.config.option_values import split_items
from nfd.config.yamltext import parse, scalar_text
from nfd.errors import ConfigError, NfdError, RuleError
from nfd.features import Features
from nfd.message_text import visible
from nfd.rules.compile import CompiledRule, compile_rule
from nfd.rules.evaluate import Given, run_custom
from nfd.rules.match_features import Expressions, Feature, Term, View, match_term
from nfd.rules.model import Expression, GroupRule, ParsedRule
from nfd.rules.model import Term as WrittenTerm
from nfd.rules.operators import compile_matcher
from nfd.rules.parse import parse_rule

if TYPE_CHECKING:
    from nfd.oci.client import Login

EXAMPLES = (
    ("compat validate-node --image registry.example.com/team/app:1.2", "a table for each rule"),
    ("compat validate-node --image registry.example.com/team/app:1.2 --output-json --tags gpu", "one set, as JSON"),
    ("compat find --image registry.example.com/team/app:1.2", "nodes of the cluster that meet the requirements"),
    ("compat find --image registry.example.com/team/app:1.2 -o affinity", "only the nodeAffinity for a pod"),
)


def add_flags(parser: ArgumentParser) -> None:
    jobs = parser.add_subparsers(dest="job", required=True, metavar="validate-node|find")
    about = "check this machine against the requirements of an image"
    job = jobs.add_parser("validate-node", help=about, allow_abbrev=False)
    _add_image_flags(job, "platform of the image (default: that of this machine)")
    job.add_argument("--output-json", action="store_true", help="JSON instead of tables")
    add_machine_flags(job)
    about = "nodes of the cluster that meet the requirements of an image, and their nodeAffinity"
    job = jobs.add_parser("find", help=about, allow_abbrev=False)
    _add_image_flags(job, "platform of the image (default: that of each node)")
    compat_find.add_flags(job)


def _add_image_flags(job: ArgumentParser, platforms: str) -> None:
    job.add_argument("--image", metavar="IMAGE", required=True, help="REGISTRY/REPOSITORY[:TAG][@DIGEST]")
    job.add_argument("--tags", metavar="LIST", action="append", default=[], help="only sets with one of these tags")
    job.add_argument("--platform", metavar="OS/ARCH", default="", help=platforms)
    job.add_argument("--plain-http", action="store_true", help="use HTTP without TLS for the registry")
    job.add_argument("--registry-username", metavar="NAME", default="", help="user name for the registry")
    secret = job.add_mutually_exclusive_group()
    secret.add_argument("--registry-password-stdin", action="store_true", help="read the password from standard input")
    secret.add_argument("--registry-token-stdin", action="store_true", help="read a token from standard input")


def run(args: Namespace) -> int:
    tags = frozenset(tag for listed in args.tags for tag in split_items(listed))
    if args.job == "find":
        return compat_find.run(args, tags)
    sets = parse_specification(fetch(args), args.image)
    seen, failed = scan_with_defaults(args)
    found, errors = evaluate_sets(sets, seen.discovery.features, tags)
    errors += failed
    sys.stdout.write(f"{json.dumps(found)}\n" if args.output_json else as_text(found, style_of(sys.stdout)))
    sys.stderr.write("".join(f"{visible(error)}\n" for error in errors))
    return 1 if errors else 0


def fetch(args: Namespace) -> bytes:
    """The specification, from the registry. Raises: ConfigError, NfdError."""
    from nfd.oci.artifact import fetch_specification
    from nfd.oci.reference import parse_platform, parse_reference

    reference = parse_reference(args.image)
    wanted = parse_platform(args.platform or "linux", platform.machine())
    return fetch_specification(
        reference, wanted, login_of(args), strict=bool(args.platform), plain_http=args.plain_http
    )


def login_of(args: Namespace) -> Login:
    """The credentials. Raises: ConfigError for a password without a user."""
    from nfd.oci.client import Login

    if args.registry_password_stdin and not args.registry_username:
        raise ConfigError("--registry-password-stdin needs --registry-username")
    if args.registry_token_stdin:
        return Login(token=_secret("--registry-token-stdin"))
    password = _secret("--registry-password-stdin") if args.registry_password_stdin else ""
    return Login(args.registry_username, password) if password else Login()


def _secret(flag: str) -> str:
    """One line of standard input."""
    try:
        secret = read_standard_input().decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{flag}: is not UTF-8") from error
    if not secret or not secret.isprintable() or (flag.endswith("token-stdin") and not secret.isascii()):
        raise NfdError(f"{flag}: standard input is not a single line of text")
    return secret


def as_text(sets: Iterable[Json], style: Style) -> str:
    """A heading for each set, and a table for each of its rules."""
    lines = []
    for number, one in enumerate(sets, 1):
        tag = f"; Tag: {one['tag']}" if "tag" in one else ""
        lines.append(style.head(visible(f"COMPATIBILITY SET #{number} Weight: {one.get('weight', 0)}{tag}")))
        lines.append(f"Description: {visible(one.get('description', ''))}")
        for rule in one["rules"]:
            result = style.value("OK") if rule["isMatch"] else style.bad("FAIL")
            lines += ["", f"RULE: {visible(rule['name'].upper())} - {result}"]
            lines += _table(rule, style)
        lines.append("")
    return "".join(f"{line}\n" for line in lines)


def _table(rule: Json, style: Style) -> Iterator[str]:
    parts = [rule.get("matchedExpressions", []), *(one["matchedExpressions"] for one in rule.get("matchedAny", ()))]
    for number, part in enumerate(parts):
        rows = [_row(one) for one in part]
        if rows:
            head = ["Feature", "Expression", "Matcher Type", "Status"]
            yield from ([f"any, {number}:"] if number else [])
            yield from columns(head, rows, style, [None] * len(head), screen_width()).splitlines()


def _row(one: Json) -> list[str]:
    feature = f"{one['feature']}.{one['name']}" if one["name"] else one["feature"]
    return [feature, text_of(one["expression"]), one["matcherType"], "OK" if one["isMatch"] else "FAIL"]


Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CompatibilitySet:
    """One set of requirements; a machine must meet one of the sets."""

    rules: tuple[ParsedRule, ...]
    weight: int = 0
    tag: str = ""
    description: str = ""


def parse_specification(data: bytes, where: str) -> list[CompatibilitySet]:
    """Parse the specification. Raises: NfdError with the invalid field."""
    value = parse(data, where).data
    sets = value.get("compatibilities") if isinstance(value, Mapping) else None
    if not isinstance(sets, list):
        raise NfdError(f"{where}: compatibilities must be a list")
    return [_set(one, f"{where}: compatibilities.{index}") for index, one in enumerate(sets)]


def _set(value: Any, where: str) -> CompatibilitySet:
    if not isinstance(value, Mapping):
        raise NfdError(f"{where} must be a mapping")
    rules, weight = value.get("rules") or [], value.get("weight") or 0
    if not isinstance(rules, list):
        raise NfdError(f"{where}.rules must be a list")
    if not isinstance(weight, int) or isinstance(weight, bool):
        raise NfdError(f"{where}.weight must be a whole number")
    parsed = tuple(parse_rule(one, GroupRule, (index,)) for index, one in enumerate(rules))
    return CompatibilitySet(parsed, weight, _text(value, "tag", where), _text(value, "description", where))


def _text(value: Mapping[str, Any], key: str, where: str) -> str:
    found = value.get(key)
    if isinstance(found, list | Mapping):
        raise NfdError(f"{where}.{key} must be a string")
    return "" if found is None else found if isinstance(found, str) else scalar_text(found)


def evaluate_sets(
    sets: Sequence[CompatibilitySet], features: Features, tags: Collection[str]
) -> tuple[list[Json], list[str]]:
    """The result of each set with one of these tags, in NFD's JSON form, and the rules that failed, with reasons."""
    found, pairs = list[Json](), list[tuple[ParsedRule, list[Json]]]()
    for one in sets:
        if not tags or one.tag in tags:
            rules: list[Json] = []
            pairs += ((rule, rules) for rule in one.rules)
            extras = {"description": one.description, "weight": one.weight, "tag": one.tag}
            found.append({"rules": rules, **{key: value for key, value in extras.items() if value}})
    order = iter(pairs)

    def record(rule: CompiledRule, view: View, given: Given | RuleError | None) -> None:
        parsed, rules = next(order)
        rules.append(_status_of(parsed, rule, view, matches=isinstance(given, Given)))

    outcome = run_custom([compile_rule(rule) for rule, _ in pairs], features, watch=record)
    return found, [f"rule {one.rule!r}: {one.reason}" for one in outcome.errors]


def _status_of(parsed: ParsedRule, rule: CompiledRule, view: View, *, matches: bool) -> Json:
    """The result of one rule and of each of its expressions."""
    status = Json(name=parsed.name, isMatch=matches)
    written = parsed.rule
    if written is not None and written.match_features:
        status["matchedExpressions"] = _statuses(written.match_features, rule.match_features, view)
    if written is not None and written.match_any:
        pairs = zip(written.match_any, rule.match_any, strict=True)
        found = [_statuses(one.match_features or (), terms, view) for one, terms in pairs]
        status["matchedAny"] = [{"matchedExpressions": one} for one in found]
    return status


def _statuses(written: Sequence[WrittenTerm], terms: Sequence[Term], view: View) -> list[Json]:
    """By feature, name and expression."""
    found = [status for one, term in zip(written, terms, strict=True) for status in _status(one, term, view)]
    return sorted(found, key=lambda one: (one["feature"], one["name"], str(one["expression"])))


def _status(written: WrittenTerm, term: Term, view: View) -> Iterator[Json]:
    matching = matching_names(term, view)
    for name, expression in (written.match_expressions or {}).items():
        yield _one(written.feature, name, expression, "matchExpression", name in matching)
    if written.match_name is not None:
        holds = _holds(Term(term.feature, None, term.name), view)
        yield _one(written.feature, "", written.match_name, "matchName", holds)


def _one(feature: str, name: str, expression: Expression, kind: str, holds: bool) -> Json:
    fields = expression.model_dump(exclude_none=True, mode="json")
    return {"feature": feature, "name": name, "expression": fields, "matcherType": kind, "isMatch": holds}


def matching_names(term: Term, view: View) -> set[str]:
    """The names whose expressions match. If each matches but no element matches all, those of the best element."""
    expressions = term.expressions or ()
    feature = view.get(term.key)
    if feature is None:
        return set()
    matching = {name for name, matcher in expressions if _holds(Term(term.feature, ((name, matcher),), None), view)}
    if len(matching) < len(expressions) or _holds(Term(term.feature, expressions, None), view):
        return matching
    return _best(expressions, feature)


def _best(expressions: Expressions, feature: Feature) -> set[str]:
    by_element = [
        {name for name, matcher in expressions if matcher.holds(one.get(name))} for one in feature.instances or ()
    ]
    return max(by_element, key=len, default=set())


def _holds(term: Term, view: View) -> bool:
    """Whether a term matches. An invalid expression does not match; its rule has the reason."""
    try:
        return match_term(term, view, None)
    except RuleError:
        return False


def text_of(expression: Json) -> str:
    """An expression as the table shows it: `In [a, b]`."""
    return str(compile_matcher(expression["op"], tuple(expression.get("value", ())), expression.get("type", "")))
