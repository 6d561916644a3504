"""`python -m tests.docs.helm COMMAND …`: the commands of Helm that the guides use, with Helm itself as a library.

    install NAME CHART, upgrade NAME CHART, uninstall NAME, get values NAME

The library cannot leave out hooks, so `uninstall --no-hooks` first takes the chart's only hook out of the release, by
its value `postDeleteCleanup`.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import helm_python
import yaml

Values = dict[str, Any]


def main(words: list[str]) -> int:
    args = parser().parse_args(words)
    try:
        with helm_python.Config(kubeconfig_path=os.environ["KUBECONFIG"], namespace=args.namespace) as helm:
            COMMANDS[args.command](helm, args)
    except helm_python.HelmError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    return 0


def parser() -> ArgumentParser:
    found = ArgumentParser("helm")
    commands = found.add_subparsers(dest="command", required=True)
    for name in COMMANDS:
        one = commands.add_parser(name)
        one.add_argument("words", nargs="+")
        one.add_argument("-n", "--namespace", default="default")
        one.add_argument("-f", "--values", action="append", default=[])
        one.add_argument("--set", action="append", default=[])
        one.add_argument("-o", "--output", choices=("yaml",))
        for flag in ("create-namespace", "reset-then-reuse-values", "no-hooks", "wait"):
            one.add_argument(f"--{flag}", action="store_true")
    return found


def install(helm: helm_python.Config, args: Namespace) -> None:
    name, chart = args.words
    options = {"namespace": args.namespace, "create_namespace": args.create_namespace}
    helm.install(chart, name, values_of(args), **options, **waiting(args))


def upgrade(helm: helm_python.Config, args: Namespace) -> None:
    name, chart = args.words
    before = present(helm, name) if args.reset_then_reuse_values else {}
    helm.upgrade(chart, name, merged(before, values_of(args)), namespace=args.namespace, **waiting(args))


def uninstall(helm: helm_python.Config, args: Namespace) -> None:
    (name,) = args.words
    if args.no_hooks:
        chart = str(Path("deploy/helm/node-feature-discovery"))
        helm.upgrade(chart, name, merged(present(helm, name), {"postDeleteCleanup": False}), namespace=args.namespace)
    helm.uninstall(name, **waiting(args))


def get(helm: helm_python.Config, args: Namespace) -> None:
    kind, name = args.words
    assert kind == "values"
    sys.stdout.write(yaml.safe_dump(present(helm, name)))


COMMANDS = {"install": install, "upgrade": upgrade, "uninstall": uninstall, "get": get}


def present(helm: helm_python.Config, name: str) -> Values:
    found = helm.get_values(name)
    return dict(found.get("values", found) or {})


def values_of(args: Namespace) -> Values:
    found: Values = {}
    for file in args.values:
        found = merged(found, helm_python.values_from_yaml(Path(file).read_text()))
    for text in args.set:
        found = merged(found, helm_python.parse_set_string(text))
    return found


def merged(base: Values, over: Values) -> Values:
    """As Helm merges values: mappings by key, all else is replaced."""
    found = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = merged(found[key], value) if both else value
    return found


def waiting(args: Namespace) -> dict[str, Any]:
    return {"wait": "watcher", "timeout": 120} if args.wait else {"timeout": 120}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
