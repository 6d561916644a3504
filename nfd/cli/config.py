"""The configuration of nfd-worker and nfd-master: its JSON schema, an example file with every default, its reference in
Markdown, or everything that is wrong with a file. Unknown keys and numbers where text belongs are errors here."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nfd.config import render
from nfd.config.load import check, files, layer_of, load
from nfd.config.overlay import Layer
from nfd.config.reading import read_standard_input
from nfd.config.section import Section
from nfd.config.yamltext import parse
from nfd.errors import ConfigError
from nfd.visible import visible

PROGRAMS = {"worker": "nfd-worker", "master": "nfd-master"}


def add_flags(parser: ArgumentParser) -> None:
    jobs = parser.add_subparsers(dest="job", required=True, metavar="schema|example|docs|validate")
    for name, about in (("schema", "JSON schema"), ("example", "commented YAML file"), ("docs", "Markdown reference")):
        job = jobs.add_parser(name, help=about, allow_abbrev=False)
        job.add_argument("--program", choices=PROGRAMS, default="worker", help="whose configuration (worker)")
    job = jobs.add_parser("validate", help="check files; exit status 1 if anything is wrong", allow_abbrev=False)
    job.add_argument("--program", choices=PROGRAMS, help="whose configuration (master if FILE's name says so)")
    job.add_argument("files", metavar="FILE", nargs="+", help="a configuration file, - for standard input")


def run(args: Namespace) -> int:
    if args.job == "validate":
        return validate(args.files, args.program)
    model, title = model_of(args.program), f"{PROGRAMS[args.program]} configuration"
    renderers: dict[str, Callable[[], str]] = {
        "schema": lambda: render.schema(title, model),
        "example": lambda: render.example(model),
        "docs": lambda: render.reference(title, model, PROGRAMS[args.program].upper().replace("-", "_")),
    }
    sys.stdout.write(renderers[args.job]())
    return 0


def model_of(program: str) -> type[Section]:
    """The model of one program."""
    if program == "master":
        from nfd.master.config import Config

        return Config
    from nfd.worker.config import model

    return model()


def validate(paths: list[str], program: str | None) -> int:
    """Print every mistake of every file; drop-ins beside a file count as part of it."""
    wrong = 0
    for path in paths:
        which = program or ("master" if "master" in Path(path).name else "worker")
        for mistake in mistakes(model_of(which), layers_of(path)):
            sys.stdout.write(f"{visible(mistake)}\n")
            wrong += 1
    return 1 if wrong else 0


def layers_of(path: str) -> list[Layer]:
    if path != "-":
        return files(path, required=True, pipes=True)
    return [layer_of("standard input", parse(read_standard_input(), "standard input"))]


def mistakes(model: type[Section], layers: list[Layer]) -> Iterator[str]:
    """What a daemon would refuse or warn of, one line each; then what it would say of source names and rules."""
    found = check(model, layers)
    yield from map(str, found)
    if any(one.fatal for one in found):
        return
    config: Any = load(model, layers).config
    name = layers[0].name if layers else ""
    yield from _of_worker(name, config.core, config.sources) if hasattr(config, "sources") else _of_master(name, config)


def _of_master(name: str, config: Any) -> Iterator[str]:
    try:
        config.leader_election.check()
    except ConfigError as error:
        yield f"{name}: {error}"


def _of_worker(name: str, core: Any, sources: Any) -> Iterator[str]:
    from nfd.discovery import make_plan
    from nfd.rules.parse import parse_custom

    for problem in make_plan(core.feature_sources, core.label_sources, sources).problems:
        yield f"{name}: {problem.subject}: {problem.reason}"
    for rule in parse_custom(sources.custom.rules):
        yield from (f"{name}: sources.custom: rule {rule.name!r}: {one.reason}" for one in rule.mistakes)
