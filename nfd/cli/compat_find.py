"""`nfd compat find`: which nodes of a cluster meet the requirements of an image, and why the others do not."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nfd.cli.cluster import add_cluster_flags, add_master_flags
from nfd.cli.find import as_yaml
from nfd.cli.nodes import as_data
from nfd.cli.parsers import path
from nfd.cli.terminal_tables import Style, columns, screen_width, style_of
from nfd.errors import ConfigError, NfdError
from nfd.features import Features
from nfd.fleet.affinity import Selector
from nfd.fleet.requirements import selector_for
from nfd.message_text import visible

if TYPE_CHECKING:
    from nfd.cli.compat import CompatibilitySet
    from nfd.cli.plan.cluster import ClusterDocuments

ARCHITECTURE = "kubernetes.io/arch"
UNREPORTED = "the master has no features of it"
Json = dict[str, Any]


def add_flags(parser: ArgumentParser) -> None:
    add_cluster_flags(parser)
    add_master_flags(parser)
    about = "a snapshot made by nfd export fleet, instead of the cluster; - is standard input"
    parser.add_argument("--cluster-snapshot", metavar="FILE", type=path, help=about)
    parser.add_argument("-o", "--output", choices=("text", "name", "affinity", "json"), default="text")


@dataclass(frozen=True, slots=True)
class NodeResult:
    """A node: the number of the set that it meets, 0 if none, and why not; `known` is False without its features."""

    name: str
    labels: Mapping[str, str]
    meets: int = 0
    reasons: tuple[str, ...] = ()
    known: bool = True


@dataclass(frozen=True, slots=True)
class _Specification:
    """The sets of requirements for one architecture, or the reason why there are none."""

    sets: Sequence[CompatibilitySet] = ()
    missing: str = ""


def run(args: Namespace, tags: frozenset[str]) -> int:
    """Exit status 1 if a rule is invalid, or no artifact is there. Raises: ConfigError, NfdError."""
    from nfd.cli.plan.cluster import features_of

    given = features_of(_documents(args))
    by_architecture = _specifications(args, {_architecture(labels) for _, labels, _ in given}, tags)
    results, errors = list[NodeResult](), dict[str, None]()
    for name, labels, features in given:
        specification = by_architecture[_architecture(labels)]
        if features is None:
            results.append(NodeResult(name, labels, reasons=(UNREPORTED,), known=False))
            continue
        result, failed = evaluate(name, labels, features, specification)
        results.append(result)
        errors |= dict.fromkeys(failed)
    sets: list[Sequence[CompatibilitySet]] = []
    for one in by_architecture.values():
        sets += [one.sets] if one.sets and one.sets not in sets else []
    known = {one.name: one.labels for one in results if one.known}
    suitable = {one.name for one in results if one.meets}
    selector = selector_for(
        [[rule.rule for rule in one.rules] for one in (sets[0] if len(sets) == 1 else ())],
        known,
        {name: features for name, _, features in given if features is not None},
        suitable,
    )
    sys.stdout.write(_rendered(args, results, selector))
    sys.stderr.write("".join(f"{visible(error)}\n" for error in errors))
    return 1 if errors else 0


def _documents(args: Namespace) -> ClusterDocuments:
    from nfd.cli.plan.cluster import documents_of
    from nfd.cli.plan.snapshot import check_flags, read_snapshot

    if not args.cluster_snapshot:
        return documents_of(args)
    check_flags(args)
    return read_snapshot(args.cluster_snapshot, args.selector)


def _specifications(args: Namespace, architectures: set[str], tags: frozenset[str]) -> dict[str, _Specification]:
    """By architecture. An image may have an artifact for each. Raises: NfdError if there is none for any."""
    from nfd.cli.compat import login_of, parse_specification
    from nfd.oci.artifact import fetch_specification
    from nfd.oci.reference import parse_platform, parse_reference

    login, reference, found = login_of(args), parse_reference(args.image), dict[str, _Specification]()
    wanted, error = parse_platform(args.platform, "") if args.platform else None, NfdError("no node is selected")
    for architecture in sorted(architectures):
        if wanted is not None and wanted.architecture not in ("", architecture):
            found[architecture] = _Specification(missing=f"the node is not {wanted}")
            continue
        platform = wanted or parse_platform(f"linux/{architecture}", "")
        try:
            text = fetch_specification(
                reference, platform, login, strict=wanted is not None, plain_http=args.plain_http
            )
        except NfdError as problem:
            found[architecture], error = _Specification(missing=str(problem)), problem
            continue
        sets = [one for one in parse_specification(text, args.image) if not tags or one.tag in tags]
        found[architecture] = _Specification(sets, "" if sets else "no set of requirements has one of the --tags")
    if not any(one.sets for one in found.values()):
        raise (
            error
            if not any(one.missing.startswith("no set") for one in found.values())
            else ConfigError(f"--tags: no set of requirements of {args.image} has one of them")
        )
    return found


def _architecture(labels: Mapping[str, str]) -> str:
    return labels.get(ARCHITECTURE, "amd64")


def evaluate(
    name: str, labels: Mapping[str, str], features: Features, specification: _Specification
) -> tuple[NodeResult, list[str]]:
    """The result of a node, and the errors of rules. Of several sets that it meets, that with most weight counts."""
    from nfd.cli.compat import evaluate_sets

    if specification.missing:
        return NodeResult(name, labels, reasons=(specification.missing,)), []
    sets = specification.sets
    found, errors = evaluate_sets(sets, features, ())
    met = [number for number, one in enumerate(found) if all(rule["isMatch"] for rule in one["rules"])]
    if met:
        return NodeResult(name, labels, 1 + max(met, key=lambda number: (sets[number].weight, -number))), errors
    several = len(found) > 1
    reasons = [
        f"{f'set #{number}, ' if several else ''}rule {rule['name']}: {reason}"
        for number, one in enumerate(found, 1)
        for rule in one["rules"]
        if not rule["isMatch"]
        for reason in _reasons(rule)
    ]
    return NodeResult(name, labels, reasons=tuple(reasons)), errors


def _reasons(rule: Json) -> Iterator[str]:
    """The expressions of a rule that do not match, and of alternatives those of the one that misses least."""
    from nfd.cli.compat import text_of

    parts = [[one for one in rule.get("matchedExpressions", ()) if not one["isMatch"]]]
    alternatives = [
        [one for one in part["matchedExpressions"] if not one["isMatch"]] for part in rule.get("matchedAny", ())
    ]
    if alternatives and all(alternatives):
        parts.append(min(alternatives, key=len))
    failed = [one for part in parts for one in part]
    for one in failed:
        feature = f"{one['feature']}.{one['name']}" if one["name"] else one["feature"]
        yield f"{feature} {text_of(one['expression'])}"
    if not failed:
        yield "does not match"


def _rendered(args: Namespace, results: Sequence[NodeResult], selector: Selector) -> str:
    suitable = [one for one in results if one.meets]
    if args.output == "name":
        return "".join(f"node/{one.name}\n" for one in suitable)
    if args.output == "json":
        nodes = [
            {"name": one.name, "isMatch": bool(one.meets), "set": one.meets or None, "reasons": list(one.reasons)}
            for one in results
        ]
        rest = {"warnings": list(selector.warnings), "affinity": selector.to_affinity()}
        return as_data({"image": args.image, "nodes": nodes, **rest}, "json")
    style = style_of(sys.stdout)
    affinity = as_yaml(selector, style, short=args.output == "text") if suitable else ""
    return affinity if args.output == "affinity" else _tables(results, style) + affinity


def _tables(results: Sequence[NodeResult], style: Style) -> str:
    """Suitable nodes with the set that they meet, then the others with their reasons."""
    suitable = [[one.name, f"#{one.meets}"] for one in results if one.meets]
    others = [[one.name, "; ".join(one.reasons)] for one in results if not one.meets]
    found = [columns(("SUITABLE", "SET"), suitable, style, [style.value, None], screen_width()) + "\n"] * bool(suitable)
    found += [columns(("NOT SUITABLE", "WHY"), others, style, [None, None], screen_width()) + "\n"] * bool(others)
    return "".join([*found, style.dim(f"{len(suitable)} of {len(results)} nodes"), "\n\n"])
