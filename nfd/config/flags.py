"""Command lines as Go's `flag` package reads them, for the daemons: nfd-worker, nfd-master, gpu-feature-discovery.

    FLAGS = (*daemon_flags(CONFIG_FILE), feature_gates(GATES), Extra("oneshot", "scan once and exit", switch=True))

    parsed = parse("nfd-worker", argv, FLAGS, WorkerConfig, "NFD_WORKER")   # ConfigError: usage, exit status 2
    if parsed.answer:                                   # --help, --version: print it and exit 0
        ...
    config, findings = configure(WorkerConfig, parsed)  # file, drop-ins, --options, variables, flags
    parsed["oneshot"]                                   # value of an Extra: flag, variable or default

`-name` and `--name` are the same, values follow `=` or come as the next word, a switch takes a value only after `=`,
and a flag given twice has its last value; only `-feature-gates` adds up. Every leaf of the model is a flag of its own
(`--core.sleep-interval`) beside its established names. A flag or variable overrides the configuration only if it is
given. Variables of an empty text stand for an empty text or list, or for false. Where that is no legal value, they
count as unset.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import Any, TypeVar

from nfd import __version__
from nfd.config.load import Loaded, M, inline
from nfd.config.option_values import from_environment, parse_bool, parse_text
from nfd.config.options import Kind, Option, options
from nfd.config.overlay import Finding, Layer, Origin
from nfd.config.reload import FilesInUse, reload_files
from nfd.config.render import WIDTH, default_of, flow
from nfd.config.section import Section
from nfd.errors import ConfigError, NfdError
from nfd.message_text import did_you_mean
from nfd.runtime import log
from nfd.runtime.signals import begin
from nfd.runtime.stdout import say

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Extra:
    """A flag that is not part of the configuration file.

    `read` converts its text and raises ValueError with the reason if it is invalid. `env` are its variables; the first
    that exists is used, even if empty. With `adds_up`, the values are mappings that are merged over the default.
    """

    name: str
    help: str
    default: Any = ""
    read: Callable[[str], Any] = str
    switch: bool = False
    adds_up: bool = False
    aliases: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    hidden: bool = False

    def value(self, text: str) -> Any:
        return parse_bool(text) if self.switch else self.read(text)


@dataclass(frozen=True, slots=True)
class Gate:
    """A feature gate: its default, and whether it can still be changed."""

    default: bool
    locked: bool = False


@dataclass(frozen=True, slots=True)
class Parsed:
    """A command line and the environment, read."""

    values: Mapping[str, Any] = field(default_factory=dict)
    given: frozenset[str] = frozenset()
    """Names of the extra flags that were given, by flag or variable."""
    layers: tuple[Layer, ...] = ()
    """The configuration from variables and flags, in this order."""
    rest: tuple[str, ...] = ()
    """Words after the flags."""
    answer: str = ""
    """The text for --help or --version; empty otherwise."""
    in_use: FilesInUse = field(default_factory=FilesInUse, compare=False)
    """What the latest `configure` read."""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


def certificate_files(parsed: Parsed, advice: str = "") -> tuple[str, ...]:
    """The three files of mutual TLS, () if none is given. Raises: ConfigError if some are."""
    files = tuple(str(parsed[name]) for name in ("ca-file", "cert-file", "key-file"))
    if any(files) and not all(files):
        raise ConfigError(f"-ca-file, -cert-file and -key-file must be given together, all three or none{advice}")
    return files if all(files) else ()


def or_root(text: str) -> str:
    """A folder; an empty text stands for /, not for the working directory."""
    return text or "/"


def daemon_flags(config_file: str) -> tuple[Extra, ...]:
    """`--config` and `--options`."""
    return (
        Extra("config", f"configuration file; its drop-ins are {config_file}.d/*", config_file),
        Extra("options", "configuration as YAML or JSON text, overrides the file"),
    )


def feature_gates(known: Mapping[str, Gate]) -> Extra:
    """`-feature-gates Name=bool,…`; its value maps every known gate to whether it is on.

    NFD's Helm chart renders one flag for each gate. Upstream: pkg/utils/featuregate, SetFromMap.
    """
    defaults = {name: gate.default for name, gate in known.items()}
    names = ", ".join(f"{name}={str(gate.default).lower()}" for name, gate in known.items())

    def read(text: str) -> dict[str, bool]:
        return dict(_gate(item, known) for item in text.split(",") if item.strip())

    text = f"comma-separated NAME=true|false; known, with defaults: {names}"
    return Extra("feature-gates", text, defaults, read, adds_up=True)


def run_program(
    program: str,
    argv: Sequence[str] | None,
    run: Callable[[Parsed], int],
    extras: Iterable[Extra],
    model: type[Section],
    env_prefix: str = "",
    *,
    about: str,
) -> int:
    """A program from its command line, that of the process unless given, to its exit status: 0 after --help or
    --version, 2 for an error of usage or configuration, 1 for any other NfdError, else what `run` returns."""
    if argv is None:
        begin()
    try:
        parsed = parse(program, sys.argv[1:] if argv is None else argv, extras, model, env_prefix, about=about)
        if parsed.answer:
            say(parsed.answer)
            return 0
        return run(parsed)
    except NfdError as error:
        log.complain(program, error)
        return exit_status(error)


def exit_status(error: Exception) -> int:
    """Of a program that this error ends."""
    return 2 if isinstance(error, ConfigError) else 1


def parse(
    program: str,
    argv: Sequence[str],
    extras: Iterable[Extra] = (),
    model: type[Section] | None = None,
    env_prefix: str = "",
    *,
    about: str = "",
    allow_words: bool = False,
    version_flags: tuple[str, ...] = ("version",),
    environment: Mapping[str, str] | None = None,
) -> Parsed:
    """Parse a command line. A word that is no flag is an error unless `allow_words`; empty words are ignored, as in
    NFD."""
    extras = tuple(extras)
    leaves = options(model, env_prefix) if model else ()
    variables = os.environ if environment is None else environment
    table: dict[str, Extra | Option] = {name: leaf for leaf in leaves for name in leaf.flags}
    table |= {name: extra for extra in extras for name in (extra.name, *extra.aliases)}
    questions = dict.fromkeys(("h", "help", *version_flags), True)
    given, rest = _split(argv, {name: _is_switch(flag) for name, flag in table.items()} | questions)
    asked = [name for name, text in given if name in questions and _read(f"-{name}", parse_bool, text)]
    if "h" in asked or "help" in asked:
        return Parsed(answer=_usage(program, about, extras, leaves))
    if asked:
        return Parsed(answer=f"{program} {__version__}")
    if rest and not allow_words:
        raise ConfigError(f"{rest[0]!r}: not a flag; {program} takes no arguments")
    given = [(name, text) for name, text in given if name not in questions]
    _check_spellings(table, given)
    values, seen = _extras(extras, given, variables)
    layers = (*_environment(leaves, variables), *_flags(table, given))
    return Parsed(values, frozenset(seen), layers, tuple(rest))


def configure(model: type[M], parsed: Parsed) -> Loaded[M]:
    """The configuration of a daemon with the flags `config` and `options`; a second call is a reload.

    Raises: ConfigError; FileGone if only files of the configuration in use are missing.
    """
    path, in_use, anew = str(parsed["config"]), parsed.in_use, parsed.in_use.loaded
    rest = [*inline(parsed["options"]), *parsed.layers]
    (config, findings), read = reload_files(model, in_use, path, rest)
    if path and "config" in parsed.given and not anew and str(Path(path)) not in {one.name for one in read}:
        findings = (Finding(path, "", "no such file; defaults are used until it exists"), *findings)
    return Loaded(config, findings)


def _usage(program: str, about: str, extras: Iterable[Extra], leaves: Iterable[Option]) -> str:
    """What --help prints: established flags first, then one flag for each key of the configuration."""
    lines = [f"Usage: {program} [flags]", *(["", about] if about else []), "", "Flags:"]
    for extra in extras:
        if not extra.hidden:
            lines += _described((extra.name, *extra.aliases), extra.help, extra.default, extra.env)
    short = [leaf for leaf in leaves if leaf.mark.name and not leaf.mark.hidden]
    for leaf in short:
        lines += _described((leaf.mark.name, *leaf.mark.aliases), leaf.help, default_of(leaf), leaf.env)
    lines += _described(("version",), "print program and version", "", ())
    long = [leaf for leaf in leaves if leaf.flags and not leaf.mark.name]
    if long:
        lines += ["", "Every key of the configuration is a flag too:"]
        names = " ".join(f"--{leaf.flags[-1]}" for leaf in long)
        lines += wrap(names, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines)


def _described(names: Sequence[str], text: str, default: Any, env: Sequence[str]) -> Iterator[str]:
    notes = [] if default in ("", None, [], {}) or isinstance(default, dict) else [f"default {flow(default)}"]
    notes += [f"env {', '.join(env)}"] if env else []
    yield "  " + ", ".join(f"--{name}" for name in names)
    text = " ".join(text.split()) + (f" ({'; '.join(notes)})" if notes else "")
    yield from wrap(text, WIDTH, initial_indent="      ", subsequent_indent="      ", break_on_hyphens=False)


def _split(argv: Sequence[str], flags: Mapping[str, bool]) -> tuple[list[tuple[str, str]], list[str]]:
    """(name, text) pairs, and the words from the first that is no flag; `flags` says which are switches."""
    words = list(argv)
    given: list[tuple[str, str]] = []
    while words and (not words[0] or (words[0].startswith("-") and words[0] != "-")):
        word = words.pop(0)
        if not word:
            continue
        if word == "--":
            break
        name, equals, text = word.removeprefix("-").removeprefix("-").partition("=")
        if name not in flags:
            raise ConfigError(f"{word.partition('=')[0]}: unknown flag{did_you_mean(name, flags)}")
        if not equals and not flags[name] and not words:
            raise ConfigError(f"{word}: needs a value")
        if not equals:
            text = "true" if flags[name] else words.pop(0)
        given.append((name, text))
    return given, [word for word in words if word]


def _read(place: str, read: Callable[[str], T], text: str) -> T:
    """The value that a text stands for. Raises: ConfigError naming the flag or variable."""
    try:
        return read(text)
    except ValueError as error:
        raise ConfigError(f"{place}: {error}") from error


def _check_spellings(table: Mapping[str, Extra | Option], given: Iterable[tuple[str, str]]) -> None:
    """Two names of one flag are an error, since it is unclear which one counts."""
    used: dict[int, str] = {}
    for name, _ in given:
        if (other := used.setdefault(id(table[name]), name)) != name:
            raise ConfigError(f"-{name}: is the same flag as -{other}; use only one")


def _is_switch(flag: Extra | Option) -> bool:
    return flag.switch if isinstance(flag, Extra) else flag.shape.kind is Kind.BOOL


def _extras(
    extras: Iterable[Extra], given: Sequence[tuple[str, str]], variables: Mapping[str, str]
) -> tuple[dict[str, Any], set[str]]:
    """Values by name, and which of them were given."""
    values: dict[str, Any] = {}
    seen: set[str] = set()
    for extra in extras:
        values[extra.name] = extra.default
        variable = next((name for name in extra.env if name in variables), None)
        words = [(f"-{name}", text) for name, text in given if name in (extra.name, *extra.aliases)]
        if not words and variable is not None:
            text = variables[variable]
            words = [(variable, text or ("false" if extra.switch else ""))]
            if not text and not extra.switch and extra.read is not str:
                continue
        for place, text in words:
            value = _read(place, extra.value, text)
            values[extra.name] = values[extra.name] | value if extra.adds_up else value
            seen.add(extra.name)
    return values, seen


def _environment(leaves: Iterable[Option], variables: Mapping[str, str]) -> list[Layer]:
    """One layer for each option that a variable sets."""
    layers: list[Layer] = []
    for leaf in leaves:
        name = next((name for name in leaf.env if name in variables and _is_set(leaf, name, variables[name])), None)
        if name is not None:
            value = _read(name, partial(from_environment, leaf.shape, exact=leaf.mark.exact), variables[name])
            layers.append(Layer(name, _nest(leaf.path, value), Origin.VARIABLE))
    return layers


def _is_set(leaf: Option, name: str, text: str) -> bool:
    """Whether an existing variable sets a value."""
    if not text:
        return not leaf.mark.filled and from_environment(leaf.shape, text) is not None
    return not _is_link(name, text)


def _is_link(name: str, text: str) -> bool:
    """Kubernetes sets NAME_PORT=tcp://… for a Service called `name` (Services, "Environment variables")."""
    return name.endswith("_PORT") and text.startswith(("tcp://", "udp://", "sctp://"))


def _flags(table: Mapping[str, Extra | Option], given: Iterable[tuple[str, str]]) -> list[Layer]:
    layers: list[Layer] = []
    for name, text in given:
        leaf = table[name]
        if isinstance(leaf, Option):
            value = _read(f"-{name}", partial(parse_text, leaf.shape, exact=leaf.mark.exact), text)
            layers.append(Layer(f"-{name}", _nest(leaf.path, value), Origin.FLAG))
    return layers


def _nest(path: Sequence[str], value: Any) -> dict[str, Any]:
    for key in reversed(path):
        value = {key: value}
    return value  # type: ignore[no-any-return]  # a path has at least one key


def _gate(item: str, known: Mapping[str, Gate]) -> tuple[str, bool]:
    name, _, text = (part.strip() for part in item.partition("="))
    if name not in known:
        raise ValueError(f"{name!r} is not a feature gate; known: {', '.join(known)}")
    value = parse_bool(text)
    if known[name].locked and value is not known[name].default:
        raise ValueError(f"{name} is locked to {str(known[name].default).lower()}")
    return name, value
