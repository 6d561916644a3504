"""Whatever is wrong with an option is told in one line, with the flag, variable, or line and key of the file."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from gfd.agent import check, make_run
from gfd.inventory import Gpu, Inventory
from gfd.options import Config, Loaded, parse_options
from nfd.config.load import layer_of
from nfd.config.load import load as load_config
from nfd.config.options import Kind, Option, options
from nfd.config.yamltext import parse
from nfd.errors import ConfigError
from tests.gfd.cases import prepare, run_process
from tests.gfd.machines import H100
from tests.nvml.asking import needs_compiler

UNFIT = {
    Kind.TEXT: ("5", "true", "[a]"),
    Kind.BOOL: ("5", '"true"', "{}"),
    Kind.DURATION: ("60s5", "true", "{}", '""'),
    Kind.ANY: ("5", "[a, 5]", "{}"),
    Kind.LIST: ("5", "[a]", "[true]", "{}"),
    Kind.SECTION: ("5", "[a]", "text"),
}
OPTIONS = [option for option in options(Config) if option.mark.name]
KEYS = {option.path: option.shape.kind for option in options(Config) if not option.mark.outside}
KEYS |= {path[:end]: Kind.SECTION for path in KEYS for end in range(1, len(path))}


def read(text: str, name: str = "config.yaml") -> tuple[Config, tuple[str, ...]]:
    """A configuration file, and the warnings about it."""
    config, findings = load_config(Config, [layer_of(name, parse(text, name))], strict_text=True)
    return config, tuple(map(str, findings))


def test_a_key_written_twice_is_a_warning() -> None:
    text = "flags:\n  gfd:\n    oneshot: true\n    oneshot: false\n"
    config, warnings = read(text, "c")
    assert not config.flags.gfd.oneshot
    assert warnings == ("c:4: flags.gfd.oneshot: is written twice; the last one is used",)


def nested(path: tuple[str, ...], value: str) -> str:
    """One key a line."""
    return "".join(f"{'  ' * depth}{key}:\n" for depth, key in enumerate(path)).rstrip() + f" {value}\n"


FILES = {
    ".".join(path) + f" = {value}": (nested(path, value), f"{len(path)}: {'.'.join(path)}")
    for path, kind in KEYS.items()
    if path[0] != "sharing"
    for value in UNFIT[kind]
}
FILES |= {
    "version": ("flags: {}\nversion: v2\n", "2: version"),
    "sharing = 5": ("version: v1\nsharing: 5\n", "2: sharing"),
    "sharing = [a]": ("sharing: [a]\n", "1: sharing"),
    "resources = 5": ("version: v1\nresources: 5\n", "2: resources"),
    "resources.gpus = 5": ("resources:\n  gpus: 5\n", "2: resources.gpus"),
    "resources.mig[1] = 5": ("resources:\n  mig:\n  - {pattern: a, name: b}\n  - 5\n", "4: resources.mig[1]"),
    "no pattern": ("resources:\n  gpus:\n  - name: a\n", "3: resources.gpus[0].pattern"),
    "pattern = 5": ("resources:\n  gpus:\n  - name: a\n    pattern: 5\n", "4: resources.gpus[0].pattern"),
    "pattern without name": ("resources:\n  gpus:\n  - pattern: a\n", "3: resources.gpus[0].name"),
}
SECTIONS = (
    (" 5\n", "2", ""),
    (" {}\n", "2", ".resources"),
    ("\n    resources: []\n", "3", ".resources"),
    ("\n    resources: [{name: gpu, replicas: 2}]\n    renameByDefault: 5\n", "4", ".renameByDefault"),
    (
        "\n    resources: [{name: gpu, replicas: 2}]\n    failRequestsGreaterThanOne: a\n",
        "4",
        ".failRequestsGreaterThanOne",
    ),
)
FILES |= {
    f"{name}:{text}": (f"sharing:\n  {name}:{text}", f"{line}: sharing.{name}{key}")
    for name in ("timeSlicing", "mps")
    for text, line, key in SECTIONS
}
DEVICES = ("some", "null", 0, -1, 2.5, "{}")
LISTED = (-1, "GPU-1", "true", "1.5")
ENTRIES = {
    "5": "",
    "null": "",
    "{replicas: 2}": ".name",
    "{Name: gpu, replicas: 2}": ".name",
    "{name: '', replicas: 2}": ".name",
    "{name: GPU, replicas: 2}": ".name",
    "{name: a/b, replicas: 2}": ".name",
    f"{{name: {'a' * 60}, replicas: 2}}": ".name",
    "{name: gpu}": ".replicas",
    "{name: gpu, replicas: 1}": ".replicas",
    "{name: gpu, replicas: 2.5}": ".replicas",
    "{name: gpu, replicas: 9223372036854775808}": ".replicas",
    "{name: gpu, replicas: 1e21}": ".replicas",
    "{name: gpu, replicas: .inf}": ".replicas",
    "{name: gpu, replicas: '2'}": ".replicas",
    "{name: gpu, replicas: 2, rename: null}": ".rename",
    "{name: gpu, replicas: 2, rename: A}": ".rename",
    **{f"{{name: gpu, replicas: 2, devices: {one}}}": ".devices" for one in DEVICES},
    **{f"{{name: gpu, replicas: 2, devices: [0, {one}]}}": ".devices[1]" for one in LISTED},
}
FILES |= {
    entry: (f"sharing:\n  timeSlicing:\n    resources:\n    - {entry}\n", f"4: sharing.timeSlicing.resources[0]{key}")
    for entry, key in ENTRIES.items()
}


@pytest.mark.parametrize("case", FILES)
def test_file(case: str) -> None:
    text, place = FILES[case]
    with pytest.raises(ConfigError) as caught:
        read(text)
    line = str(caught.value)
    assert re.match(rf"config\.yaml:{re.escape(place)}(\[\d\])?: ", line)
    assert len(line.splitlines()) == 1


@pytest.mark.parametrize(("text", "place"), [("- a\n", ": expected a mapping"), ("version: v1\n  flags: [\n", ":2: ")])
def test_what_is_no_mapping(text: str, place: str) -> None:
    with pytest.raises(ConfigError, match=rf"^config\.yaml{place}.*$"):
        read(text)


TYPED = [option for option in OPTIONS if option.shape.kind is not Kind.TEXT]


@pytest.mark.parametrize("variable", [one for option in TYPED for one in option.env])
def test_variable(variable: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{variable}: .*'odd'.*$"):
        parse_options([], {variable: "odd"}).load()


@pytest.mark.parametrize("name", [word for option in TYPED for word in option.flags])
def test_flag(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^-{name}: .*'odd'.*$"):
        parse_options([f"--{name}=odd"], {}).load()


def test_every_flag_is_an_established_one() -> None:
    """No further flags and variables follow from the keys of the file."""
    assert all(option.flags == (option.mark.name, *option.mark.aliases) for option in OPTIONS)
    assert all(not option.flags and not option.env for option in options(Config) if not option.mark.name)


UNKNOWN = {
    "Surprise: 1\n": "1: Surprise: unknown key",
    "flags:\n  gdf: {}\n": "2: flags.gdf: unknown key; did you mean gfd?",
    "flags:\n  gfd:\n    sleepintervall: 5\n": "3: flags.gfd.sleepintervall: unknown key; did you mean sleepInterval?",
    "flags:\n  plugin:\n    x: 5\n": "3: flags.plugin.x: unknown key",
    "kubeconfig: a\n": "1: kubeconfig: unknown key; use the flag --kubeconfig",
    "imex: {a: b}\n": "1: imex.a: unknown key",
    "resources:\n  gpu: []\n": "2: resources.gpu: unknown key; did you mean gpus?",
    "sharing:\n  MPSS: 1\n": "2: sharing.MPSS: unknown key; did you mean mps?",
    "sharing:\n  mps:\n    Rename: 1\n    resources: [{name: gpu, replicas: 2}]\n": (
        "3: sharing.mps.Rename: unknown key"
    ),
    "sharing: {mps: {resources: [{name: gpu, replicas: 2, Devices: all}]}}\n": (
        "1: sharing.mps.resources[0].Devices: unknown key"
    ),
}


@pytest.mark.parametrize("leaf", [leaf for leaf in options(Config) if leaf.mark.outside], ids=lambda leaf: leaf.key)
def test_a_key_that_only_a_flag_may_set_is_named_with_it(leaf: Option) -> None:
    """And a misspelt one is never said to be the key that no file may have."""
    for written in (leaf.key, leaf.key.upper(), leaf.mark.name):
        (warning,) = read(f"{written}: 1\n")[1]
        assert warning == f"config.yaml:1: {written}: unknown key; use the flag --{leaf.mark.name}"
    (warning,) = read(f"{leaf.key}x: 1\n")[1]
    assert "use the flag" not in warning
    assert f"did you mean {leaf.key}?" not in warning


@pytest.mark.parametrize("text", UNKNOWN)
def test_an_unknown_key_is_a_warning(text: str) -> None:
    """It names file, line and key."""
    (warning,) = read(text)[1]
    assert warning.startswith(f"config.yaml:{UNKNOWN[text]}")


def load(tmp_path: Path, where: str, words: Mapping[str, str]) -> Loaded:
    """The key (file), variable or flag in `words` set to a text that is given there."""
    config = tmp_path / "config.yaml"
    config.write_text(f"version: v1\nflags:\n  {words['file']}: {words['text']}\n" if where == "file" else "")
    argv = [f"--config-file={config}", *([f"{words['flag']}={words['text']}"] if where == "flag" else [])]
    return parse_options(argv, {words["variable"]: words["text"]} if where == "variable" else {}).load()


STRATEGIES = {
    "device-discovery-strategy": ("deviceDiscoveryStrategy", ("DEVICE_DISCOVERY_STRATEGY",)),
    "mig-strategy": ("migStrategy", ("GFD_MIG_STRATEGY", "MIG_STRATEGY")),
}
WORDS = [
    (where, {"file": key, "variable": variable, "flag": f"--{name}", "text": text})
    for name, (key, variables) in STRATEGIES.items()
    for variable in variables
    for where in ("file", "variable", "flag")
    for text in {"file": ("Odd", "''"), "variable": ("Odd",), "flag": ("Odd", "")}[where]
]


@pytest.mark.parametrize(("where", "words"), WORDS)
def test_strategies(where: str, words: Mapping[str, str], tmp_path: Path) -> None:
    """What counts in the end is checked, and the place it comes from is named."""
    name, key = words["flag"].removeprefix("--"), f"flags.{words['file']}"
    places = {"file": f"{tmp_path}/config.yaml:3", "variable": words["variable"], "flag": f"-{name}"}
    with pytest.raises(ConfigError) as caught:
        make_run(load(tmp_path, where, words), 0).loaded.check_mig_strategy()
    wrong = words["text"].strip("'")
    assert str(caught.value).startswith(f"{places[where]}: {key}: {wrong!r} is not one of ")


def test_what_is_overridden_is_not_checked(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("flags: {deviceDiscoveryStrategy: odd, migStrategy: odd}\n")
    odd = {"DEVICE_DISCOVERY_STRATEGY": "odd", "MIG_STRATEGY": "odd"}
    flags = [f"--config-file={config}", "--device-discovery-strategy=nvml", "--mig-strategy=single"]
    make_run(parse_options(flags, odd).load(), 0).loaded.check_mig_strategy()


def test_a_strategy_is_not_checked_where_nothing_computes() -> None:
    run = make_run(parse_options(["--mig-strategy=odd"], {}).load(), 0)
    check(run, Inventory("nvml", gpus=(Gpu(0, "DGX Display"),)), first=True)
    with pytest.raises(ConfigError, match="odd"):
        check(run, Inventory("nvml", gpus=(Gpu(0, "Tesla T4"),)), first=True)


@needs_compiler
def test_the_program_names_the_place_of_a_strategy(tmp_path: Path) -> None:
    text = "version: v1\nflags:\n  migStrategy: Single\n"
    outcome = run_process(prepare({"machine": {"devices": [H100]}, "config": text}, tmp_path))
    assert outcome.code == 2
    assert outcome.stderr.strip().endswith(
        "config.yaml:3: flags.migStrategy: 'Single' is not one of none, single, mixed"
    )


FAMILIES = {
    "[a]\n": ": must be a mapping",
    '"9.0": hopper\nnine: x\n': ":2: 'nine' is not",
    '"9.0": not a value\n': ":1: 9.0: 'not a value' must be",
    '"9.0": {a: b}\n': ":1: 9.0: ",
}


@pytest.mark.parametrize("text", FAMILIES)
def test_families_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "families.yaml"
    path.write_text(text)
    for loaded in (
        parse_options([f"--families-file={path}"], {}).load(),
        parse_options([], {"GFD_FAMILIES_FILE": str(path)}).load(),
    ):
        with pytest.raises(ConfigError) as caught:
            make_run(loaded, 0)
        assert str(caught.value).startswith(f"{path}{FAMILIES[text]}")


def test_a_missing_families_file_names_its_place() -> None:
    with pytest.raises(ConfigError, match=r"^GFD_FAMILIES_FILE: /nowhere: No such file"):
        make_run(parse_options([], {"GFD_FAMILIES_FILE": "/nowhere"}).load(), 0)
