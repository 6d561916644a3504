"""Command line, environment and configuration file of `gpu-feature-discovery`, in this order of precedence.

Names, aliases, variables and defaults are NVIDIA's (k8s-device-plugin, `cmd/gpu-feature-discovery`); `--host-root`,
`--replay`, `--families-file`, `--nvml-timeout`, `--cleanup` and `--log-level` are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gfd.configfile import FileConfig, read_config
from gfd.discover import MACHINE_TYPE_FILE, STRATEGIES, TIMEOUT
from gfd.durations import read_duration, read_sleep
from nfd.config.flags import Extra, Parsed, parse
from nfd.config.text import parse_bool, parse_integer, parse_number
from nfd.errors import ConfigError
from nfd.log import LEVELS

PROGRAM = "gpu-feature-discovery"
OUTPUT_FILE = "/etc/kubernetes/node-feature-discovery/features.d/gfd"


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `env` are variables, of which the first that exists counts; `key` is its path in the file."""

    name: str
    help: str
    default: Any = ""
    read: Callable[[str], Any] = str
    env: tuple[str, ...] = ()
    key: str = ""
    aliases: tuple[str, ...] = ()

    @property
    def switch(self) -> bool:
        return self.read is parse_bool


def read_level(text: str) -> str:
    if text not in LEVELS:
        raise ValueError(f"{text!r} is none of {', '.join(LEVELS)}")
    return text


OPTIONS: tuple[Option, ...] = (
    Option(
        "mig-strategy",
        "how MIG devices are offered: none, single or mixed",
        "none",
        env=("GFD_MIG_STRATEGY", "MIG_STRATEGY"),
        key="migStrategy",
    ),
    Option(
        "fail-on-init-error",
        "exit with status 1 if the first pass finds no working driver",
        True,
        parse_bool,
        ("GFD_FAIL_ON_INIT_ERROR", "FAIL_ON_INIT_ERROR"),
        "failOnInitError",
    ),
    Option("oneshot", "label once and exit", False, parse_bool, ("GFD_ONESHOT",), "gfd.oneshot"),
    Option(
        "no-timestamp",
        "leave out nvidia.com/gfd.timestamp",
        False,
        parse_bool,
        ("GFD_NO_TIMESTAMP",),
        "gfd.noTimestamp",
    ),
    Option(
        "sleep-interval",
        "time between two passes, such as 60s, or infinite",
        60.0,
        read_sleep,
        ("GFD_SLEEP_INTERVAL",),
        "gfd.sleepInterval",
    ),
    Option(
        "output-file",
        "feature file; empty for standard output",
        OUTPUT_FILE,
        env=("GFD_OUTPUT_FILE",),
        key="gfd.outputFile",
        aliases=("output", "o"),
    ),
    Option(
        "machine-type-file",
        "file with the machine's name, below the host root; empty for unknown",
        MACHINE_TYPE_FILE,
        env=("GFD_MACHINE_TYPE_FILE",),
        key="gfd.machineTypeFile",
    ),
    Option("config-file", "configuration file (version v1)", env=("GFD_CONFIG_FILE", "CONFIG_FILE")),
    Option(
        "use-node-feature-api",
        "write a NodeFeature object instead of a feature file",
        True,
        parse_bool,
        ("GFD_USE_NODE_FEATURE_API", "USE_NODE_FEATURE_API"),
        "useNodeFeatureAPI",
    ),
    Option(
        "device-discovery-strategy",
        f"which library is asked for the devices: {', '.join(STRATEGIES)}",
        "auto",
        env=("DEVICE_DISCOVERY_STRATEGY",),
        key="deviceDiscoveryStrategy",
    ),
    Option(
        "driver-root-ctr-path",
        "accepted, without effect on labels",
        "/driver-root",
        env=("DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"),
        aliases=("container-driver-root",),
    ),
    Option("kubeconfig", "kubeconfig file; empty inside a cluster", env=("KUBECONFIG",)),
    Option("kube-api-qps", "accepted, without effect", 5.0, parse_number, ("KUBE_API_QPS",)),
    Option("kube-api-burst", "accepted, without effect", 10, parse_integer, ("KUBE_API_BURST",)),
    Option("namespace", "namespace of the NodeFeature object", "default", env=("NAMESPACE",)),
    Option("node-name", "name of this node", env=("NODE_NAME",)),
    Option("pod-name", "name of this pod, for owner references", env=("POD_NAME",)),
    Option("host-root", "where the machine's file systems are mounted", "/", env=("NFD_HOST_ROOT",)),
    Option("replay", "recorded or hand-made machine to label instead of the running one"),
    Option(
        "families-file",
        'YAML: names of architectures by compute capability ("14.0": vera), laid over the built-in ones',
        env=("GFD_FAMILIES_FILE",),
    ),
    Option(
        "nvml-timeout", "how long the driver may take for one reading", TIMEOUT, read_duration, ("GFD_NVML_TIMEOUT",)
    ),
    Option("cleanup", "remove the feature file or NodeFeature object and exit", False, parse_bool),
    Option("log-level", f"one of {', '.join(LEVELS)}", "info", read_level, ("GFD_LOG_LEVEL",)),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """What was asked for on the command line and in the environment; the file is read anew at each reload."""

    given: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    """The flag or variable that each of them comes from."""
    answer: str = ""
    """What --help or --version ask to print."""

    def load(self, current: FileConfig | None = None) -> Loaded:
        """Every option's value; at a reload, with what the file said before. Raises ConfigError."""
        path = self.given.get("config-file", "")
        config = read_config(path, current) if path else FileConfig()
        values = {option.name: config.flags.get(option.key, option.default) for option in OPTIONS}
        places = {option.name: config.places[option.key] for option in OPTIONS if option.key in config.places}
        loaded = Loaded({**values, **self.given}, config, {**places, **self.places})
        loaded.check("device-discovery-strategy", STRATEGIES)
        return loaded


@dataclass(frozen=True, slots=True)
class Loaded:
    """The value of each option, by its flag; `config` is what the file says besides."""

    values: Mapping[str, Any]
    config: FileConfig
    places: Mapping[str, str] = field(default_factory=dict)
    """The flag, variable, or line and key of the file that each value comes from; defaults come from nowhere."""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def place(self, name: str) -> str:
        """Where the value of an option comes from, as messages name it."""
        return self.places.get(name, f"--{name}")

    def check(self, name: str, allowed: Sequence[str]) -> None:
        """Raises ConfigError unless the option has one of these values."""
        if self[name] not in allowed:
            raise ConfigError(f"{self.place(name)}: {self[name]!r} is none of {', '.join(allowed)}")


def parse_options(argv: Sequence[str], environment: Mapping[str, str]) -> Choice:
    """Read command line and environment. Raises ConfigError.

    What follows the first word that is no flag is ignored, but for `help`, which is as good as the flag.
    """
    parsed = _parse(argv)
    if parsed.rest[:1] in (("help",), ("h",)):
        parsed = _parse(["--help"])
    if parsed.answer:
        return Choice(answer=parsed.answer)
    given: dict[str, tuple[str, Any]] = {}
    for option in OPTIONS:
        given |= _variable(option, environment)
        given |= _flag(option, parsed)
    return Choice(
        {name: value for name, (_, value) in given.items()}, {name: place for name, (place, _) in given.items()}
    )


def _parse(argv: Sequence[str]) -> Parsed:
    return parse(
        PROGRAM,
        argv,
        [extra for option in OPTIONS for extra in _extras(option)],
        about="Labels a node after its NVIDIA GPUs.",
        stray=True,
        version_flags=("version", "v"),
        environment={},
    )


def _extras(option: Option) -> list[Extra]:
    """One for each spelling, so that two at once are seen."""
    words = (option.name, *option.aliases)
    return [
        Extra(
            word,
            option.help,
            option.default,
            option.read,
            switch=option.switch,
            env=option.env if word == option.name else (),
            hidden=word != option.name,
        )
        for word in words
    ]


def _flag(option: Option, parsed: Parsed) -> dict[str, tuple[str, Any]]:
    """Place and value of an option that was given."""
    words = [word for word in (option.name, *option.aliases) if word in parsed.given]
    if len(words) > 1:
        raise ConfigError(f"--{words[0]} and --{words[1]} are the same flag; give one of them")
    return {option.name: (f"--{words[0]}", parsed[words[0]])} if words else {}


def _variable(option: Option, environment: Mapping[str, str]) -> dict[str, tuple[str, Any]]:
    """As `_flag`. An empty variable is an empty text or false; for other types it counts as unset."""
    name = next((name for name in option.env if name in environment), None)
    if name is None:
        return {}
    text, place = environment[name], f"{name} ({option.name})"
    if not text and option.read is not str:
        return {option.name: (place, False)} if option.switch else {}
    try:
        return {option.name: (place, option.read(text))}
    except ValueError as error:
        raise ConfigError(f"{place}: {error}") from error
