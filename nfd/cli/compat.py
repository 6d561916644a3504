"""Whether this machine suits an image, by the compatibility artifact that is attached to it in its registry, as NFD's
`nfd compat validate-node` tells. Exit status 0 also where it does not; 1 if there is no such artifact, if a rule of it
makes no sense, or if the registry does not answer within a minute."""

from __future__ import annotations

import json
import platform
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from nfd.cli.columns import columns, screen_width
from nfd.cli.machine import add_machine_flags, host_of, plan_of, scan
from nfd.cli.screen import Style, style_of
from nfd.cli.suitability import Json, judge_sets, parse_specification, text_of
from nfd.config.reading import read_standard_input
from nfd.config.text import split_items
from nfd.errors import ConfigError, NfdError
from nfd.visible import visible

if TYPE_CHECKING:
    from nfd.oci.client import Login

EXAMPLES = (
    ("compat validate-node --image registry.example.com/team/app:1.2", "a table for each rule"),
    ("compat validate-node --image registry.example.com/team/app:1.2 --output-json --tags gpu", "one set, as JSON"),
)


def add_flags(parser: ArgumentParser) -> None:
    jobs = parser.add_subparsers(dest="job", required=True, metavar="validate-node")
    job = jobs.add_parser("validate-node", help="judge this machine by what an image asks for", allow_abbrev=False)
    job.add_argument("--image", metavar="IMAGE", required=True, help="REGISTRY/REPOSITORY[:TAG][@DIGEST]")
    job.add_argument("--tags", metavar="LIST", action="append", default=[], help="only sets with one of these tags")
    job.add_argument(
        "--platform", metavar="OS/ARCH", default="", help="of this image, instead of the one for this machine"
    )
    job.add_argument("--plain-http", action="store_true", help="speak HTTP with the registry, without TLS")
    job.add_argument("--output-json", action="store_true", help="JSON instead of tables")
    job.add_argument("--registry-username", metavar="NAME", default="", help="for the registry")
    secret = job.add_mutually_exclusive_group()
    secret.add_argument("--registry-password-stdin", action="store_true", help="read the password from standard input")
    secret.add_argument("--registry-token-stdin", action="store_true", help="read a token from standard input")
    add_machine_flags(job)


def run(args: Namespace) -> int:
    sets = parse_specification(fetch(args), args.image)
    plan, _ = plan_of(Namespace(config=None, sources=None))
    seen = scan(host_of(args), plan)
    failed = {name: one.error for name, one in seen.discovery.scans.items() if one.error is not None}
    tags = frozenset(tag for listed in args.tags for tag in split_items(listed))
    found, errors = judge_sets(sets, seen.discovery.features, tags)
    errors += [f"source {name} failed: {error}" for name, error in failed.items()]
    sys.stdout.write(f"{json.dumps(found)}\n" if args.output_json else as_text(found, style_of(sys.stdout)))
    sys.stderr.write("".join(f"{visible(error)}\n" for error in errors))
    return 1 if errors else 0


def fetch(args: Namespace) -> bytes:
    """The specification, from the registry. Raises: ConfigError, NfdError."""
    try:
        from nfd.oci.artifact import fetch_specification
        from nfd.oci.reference import parse_platform, parse_reference
    except ImportError as error:
        raise ConfigError(f"nfd is installed without what talks to a registry: {error}") from error
    reference = parse_reference(args.image)
    wanted = parse_platform(args.platform or "linux", platform.machine())
    return fetch_specification(
        reference, wanted, login_of(args), strict=bool(args.platform), plain_http=args.plain_http
    )


def login_of(args: Namespace) -> Login:
    """Raises: ConfigError for a password without a user."""
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
        raise NfdError(f"{flag}: standard input is no line of text that could be one")
    return secret


def as_text(sets: Iterable[Json], style: Style) -> str:
    """For each set its head and a table for each rule."""
    lines = []
    for number, one in enumerate(sets, 1):
        tag = f"; Tag: {one['tag']}" if "tag" in one else ""
        lines.append(style.head(visible(f"COMPATIBILITY SET #{number} Weight: {one.get('weight', 0)}{tag}")))
        lines.append(f"Description: {visible(one.get('description', ''))}")
        for rule in one["rules"]:
            lines += ["", f"RULE: {visible(rule['name'].upper())} - {_verdict(rule['isMatch'], style)}"]
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


def _verdict(holds: bool, style: Style) -> str:
    return style.value("OK") if holds else style.bad("FAIL")
