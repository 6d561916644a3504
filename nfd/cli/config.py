"""Print the JSON schema, an example with every default, or the reference in Markdown of the configuration of one of
the programs, check a file, or print an object of the NFD operator as values of the chart. The check also reports
unknown keys, and numbers where text is required. Keys that NFD has or once had, and numbers for klog, are warnings.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nfd.cli.convert import convert
from nfd.cli.parsers import path
from nfd.config import render
from nfd.config.load import check, files, layer_of, load
from nfd.config.named_files import read_standard_input
from nfd.config.overlay import Layer, place_in
from nfd.config.section import Section
from nfd.config.yamltext import parse
from nfd.errors import ConfigError
from nfd.message_text import visible

_CUSTOM = ("sources", "custom")

PROGRAMS = {
    "worker": "nfd-worker",
    "master": "nfd-master",
    "gfd": "gpu-feature-discovery",
    "topology-updater": "nfd-topology-updater",
}
_GFD_KEYS = frozenset({"version", "flags", "sharing", "imex"})
"""Keys of GPU feature discovery's file; the worker and the master have none of these names."""


def add_flags(parser: ArgumentParser) -> None:
    jobs = parser.add_subparsers(dest="job", required=True, metavar="schema|example|docs|validate|convert")
    for name, about in (("schema", "JSON schema"), ("example", "commented YAML file"), ("docs", "Markdown reference")):
        job = jobs.add_parser(name, help=about, allow_abbrev=False)
        job.add_argument("--program", choices=PROGRAMS, default="worker", help="the program (worker)")
    job = jobs.add_parser("validate", help="check files; exit status 1 if anything is wrong", allow_abbrev=False)
    job.add_argument("--program", choices=PROGRAMS, help="the program (default: found from name and content of FILE)")
    job.add_argument("files", metavar="FILE", type=path, nargs="+", help="a configuration file, - for standard input")
    about = "print a NodeFeatureDiscovery object of the NFD operator as values of the chart"
    job = jobs.add_parser("convert", help=about, allow_abbrev=False)
    job.add_argument("file", metavar="FILE", type=path, help="the object, or the text of its workerConfig.configData")


def run(args: Namespace) -> int:
    if args.job == "validate":
        return validate(args.files, args.program)
    if args.job == "convert":
        return convert(args.file)
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
    if program == "topology-updater":
        from nfd.topology.cli import Config as TopologyConfig

        return TopologyConfig
    if program == "gfd":
        from nfd.sources import known

        return next(source.program for source in known() if source.program is not None)()
    from nfd.worker.config import model

    return model()


def validate(paths: list[str], program: str | None) -> int:
    """Print every mistake of every file; drop-ins beside a file are included."""
    wrong = 0
    for name in paths:
        layers = layers_of(name)
        which = program or program_of(name, layers)
        found = check(model_of(which), layers, strict_text=which == "gfd")
        for finding in found:
            sys.stdout.write(f"{'warning: ' if finding.harmless else ''}{visible(str(finding))}\n")
        wrong += sum(not finding.harmless for finding in found)
        if any(finding.fatal for finding in found):
            continue
        for mistake in mistakes(model_of(which), layers, strict_text=which == "gfd"):
            sys.stdout.write(f"{visible(mistake)}\n")
            wrong += 1
    return 1 if wrong else 0


def program_of(name: str, layers: Sequence[Layer]) -> str:
    """The program of a file, by its keys, then by its name."""
    keys = {str(key).lower() for one in layers if isinstance(one.data, Mapping) for key in one.data}
    if keys & _GFD_KEYS:
        return "gfd"
    if "excludelist" in keys or "topology-updater" in Path(name).name:
        return "topology-updater"
    return "master" if "master" in Path(name).name else "worker"


def layers_of(path: str) -> list[Layer]:
    if path != "-":
        return files(path, required=True, pipes=True)
    return [layer_of("standard input", parse(read_standard_input(), "standard input"))]


def mistakes(model: type[Section], layers: list[Layer], *, strict_text: bool = False) -> Iterator[str]:
    """What a daemon would warn of later, in a configuration that can be loaded: plug-ins, rules, times."""
    config: Any = load(model, layers, strict_text=strict_text).config
    if hasattr(config, "sources"):
        yield from _of_worker(layers, config)
    elif hasattr(config, "leader_election"):
        try:
            config.leader_election.check()
        except ConfigError as error:
            yield f"{_name_of(layers)}: {error}"


def _of_worker(layers: Sequence[Layer], config: Any) -> Iterator[str]:
    from nfd.discovery import make_plan
    from nfd.rules.check import check_custom
    from nfd.rules.parse import parse_custom

    core, sources = config.core, config.sources
    for problem in make_plan(core.feature_sources, core.label_sources, sources).problems:
        yield f"{_name_of(layers)}: {problem.subject}: {problem.reason}"
    writers = [layer for layer in layers if _CUSTOM in layer.lines]
    rules = parse_custom(sources.custom.rules)
    for index, one in enumerate(rules):
        for mistake in check_custom(one, (index,)):
            place = place_in(writers[-1], (*_CUSTOM, *mistake.path)) if writers else _name_of(layers)
            yield f"{place}: sources.custom: rule {one.name!r}: {visible(mistake.reason)}"


def _name_of(layers: Sequence[Layer]) -> str:
    return layers[0].name if layers else ""
