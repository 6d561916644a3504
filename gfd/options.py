"""The options of `gpu-feature-discovery`: command line over environment over configuration file over default.

The file is that of GPU feature discovery and the device plugin, version v1. Names, aliases, variables, defaults and
keys are NVIDIA's (k8s-device-plugin, `cmd/gpu-feature-discovery` and `api/config/v1`), except for `--host-root`,
`--replay`, `--families-file`, `--nvml-timeout`, `--xid-events`, `--xid-list`, `--cleanup` and `--log-level`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from gfd.config import check_timeout
from gfd.discover import MACHINE_TYPE_FILE, TIMEOUT
from gfd.labels.settings import MIG_STRATEGIES
from gfd.recent_xids import SAFE
from gfd.sharing import Entry, FileSharing, resource_name
from nfd.config.flags import Parsed, parse
from nfd.config.load import file_layer, load, place_of
from nfd.config.overlay import Layer
from nfd.config.section import Duration, Flag, Interval, Section
from nfd.errors import ConfigError
from nfd.runtime.log import LEVELS

PROGRAM = "gpu-feature-discovery"
OUTPUT_FILE = "/etc/kubernetes/node-feature-discovery/features.d/gfd"
LAST_XID = 999
"""Stands for one that the driver does not know by number (nvml.h, nvmlEventData_t)."""
KEPT = "its previous content stays in use"


def check_version(text: str) -> str:
    if text not in ("", "v1"):
        raise ValueError(f"{text!r} is not supported, only v1 is")
    return text


def check_level(text: str) -> str:
    if text not in LEVELS:
        raise ValueError(f"{text!r} is not one of {', '.join(LEVELS)}")
    return text


def check_xids(xids: tuple[int, ...]) -> tuple[int, ...]:
    if not xids or not all(0 < xid <= LAST_XID for xid in xids):
        raise ValueError(f"must be numbers from 1 to {LAST_XID}, not {list(xids)}")
    return tuple(dict.fromkeys(xids))


def check_texts(value: Any) -> Any:
    items = value if isinstance(value, list) else [value]
    if not all(one is None or isinstance(one, str) for one in items):
        raise ValueError(f"must be text or a list of texts, not {value!r}")
    return value


class Part(Section):
    """A section of the file; a null stands for the default."""

    nullable: ClassVar[bool] = True
    derived: ClassVar[bool] = False


class GfdFlags(Part):
    """`flags.gfd`."""

    oneshot: Annotated[bool, Flag("oneshot", env=("GFD_ONESHOT",))] = False
    """Label once and exit."""
    no_timestamp: Annotated[bool, Flag("no-timestamp", env=("GFD_NO_TIMESTAMP",))] = False
    """Leave out nvidia.com/gfd.timestamp."""
    sleep_interval: Annotated[Interval, Flag("sleep-interval", env=("GFD_SLEEP_INTERVAL",))] = 60.0
    """Time between two passes, such as 60s, or infinite."""
    output_file: Annotated[str, Flag("output-file", aliases=("output", "o"), env=("GFD_OUTPUT_FILE",))] = OUTPUT_FILE
    """Feature file; empty for standard output."""
    machine_type_file: Annotated[str, Flag("machine-type-file", env=("GFD_MACHINE_TYPE_FILE",))] = MACHINE_TYPE_FILE
    """File with the machine's name, below the host root; empty for unknown."""
    xid_events: Annotated[bool, Flag("xid-events", env=("GFD_XID_EVENTS",))] = False
    """Wait for Xid events in a child process. A GPU that has had a listed Xid is degraded."""
    xid_list: Annotated[
        tuple[int, ...], AfterValidator(check_xids), Flag("xid-list", env=("GFD_XID_LIST",), filled=True)
    ] = SAFE
    """Xids to wait for; of several, the label names the one that is first in this list."""


class PluginFlags(Part):
    """`flags.plugin`: for the device plugin alone."""

    pass_device_specs: bool | None = None
    """For the device plugin alone."""
    device_list_strategy: Annotated[Any | None, AfterValidator(check_texts)] = None
    """For the device plugin alone."""
    device_id_strategy: Annotated[str | None, Field(alias="deviceIDStrategy")] = None
    """For the device plugin alone."""
    cdi_annotation_prefix: str | None = None
    """For the device plugin alone."""
    nvidia_ctk_path: Annotated[str | None, Field(alias="nvidiaCTKPath")] = None
    """For the device plugin alone."""
    container_driver_root: str | None = None
    """For the device plugin alone."""
    shared_devices_allocation_policy: str | None = None
    """For the device plugin alone."""


class Flags(Part):
    """`flags`."""

    mig_strategy: Annotated[str, Flag("mig-strategy", env=("GFD_MIG_STRATEGY", "MIG_STRATEGY"), filled=True)] = "none"
    """How MIG devices are offered: none, single or mixed."""
    fail_on_init_error: Annotated[
        bool, Flag("fail-on-init-error", env=("GFD_FAIL_ON_INIT_ERROR", "FAIL_ON_INIT_ERROR"))
    ] = True
    """Exit with status 1 if the first pass finds no working driver."""
    use_node_feature_api: Annotated[
        bool,
        Field(alias="useNodeFeatureAPI"),
        Flag("use-node-feature-api", env=("GFD_USE_NODE_FEATURE_API", "USE_NODE_FEATURE_API")),
    ] = True
    """Write a NodeFeature object instead of a feature file."""
    device_discovery_strategy: Annotated[
        Literal["auto", "nvml", "tegra", "vfio"], Flag("device-discovery-strategy", env=("DEVICE_DISCOVERY_STRATEGY",))
    ] = "auto"
    """Which library reads the devices: auto, nvml, tegra, vfio."""
    mps_root: str | None = None
    """For the device plugin alone."""
    nvidia_driver_root: str | None = None
    """For the device plugin alone."""
    nvidia_dev_root: str | None = None
    """For the device plugin alone."""
    gdrcopy_enabled: bool | None = None
    """For the device plugin alone."""
    gds_enabled: bool | None = None
    """For the device plugin alone."""
    mofed_enabled: bool | None = None
    """For the device plugin alone."""
    gfd: GfdFlags = GfdFlags()
    plugin: PluginFlags = PluginFlags()


class Renamed(Entry):
    """An entry of `resources`."""

    pattern: str | None
    name: Annotated[str, AfterValidator(resource_name)]


class Resources(Part):
    """`resources`: checked, without effect."""

    gpus: tuple[Renamed, ...] = ()
    """Checked, without effect."""
    mig: tuple[Renamed, ...] = ()
    """Checked, without effect."""


class Imex(Part):
    """`imex`: for the device plugin alone."""

    channel_ids: Annotated[tuple[int, ...], Field(alias="channelIDs")] = ()
    """For the device plugin alone."""
    required: bool | None = None
    """For the device plugin alone."""


class Config(Part):
    """All options: the keys of the file, then those that only flags and variables set."""

    version: Annotated[str, AfterValidator(check_version)] = "v1"
    """Version of the file; only v1 is supported."""
    flags: Flags = Flags()
    resources: Resources = Resources()
    sharing: FileSharing = FileSharing()
    """How GPUs and MIG devices are shared: `timeSlicing` and `mps`."""
    imex: Imex = Imex()

    config_file: Annotated[str, Flag("config-file", env=("GFD_CONFIG_FILE", "CONFIG_FILE"), outside=True)] = ""
    """Configuration file (version v1)."""
    driver_root_ctr_path: Annotated[
        str,
        Flag(
            "driver-root-ctr-path",
            aliases=("container-driver-root",),
            env=("DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"),
            outside=True,
        ),
    ] = "/driver-root"
    """Accepted, without effect on labels."""
    kubeconfig: Annotated[str, Flag("kubeconfig", env=("KUBECONFIG",), outside=True)] = ""
    """Kubeconfig file; empty inside a cluster."""
    kube_api_qps: Annotated[float, Flag("kube-api-qps", env=("KUBE_API_QPS",), outside=True)] = 5.0
    """Accepted, without effect."""
    kube_api_burst: Annotated[int, Flag("kube-api-burst", env=("KUBE_API_BURST",), outside=True)] = 10
    """Accepted, without effect."""
    namespace: Annotated[str, Flag("namespace", env=("NAMESPACE",), outside=True, filled=True)] = "default"
    """Namespace of the NodeFeature object."""
    node_name: Annotated[str, Flag("node-name", env=("NODE_NAME",), outside=True)] = ""
    """Name of this node."""
    pod_name: Annotated[str, Flag("pod-name", env=("POD_NAME",), outside=True)] = ""
    """Name of this pod, for owner references."""
    host_root: Annotated[str, Flag("host-root", env=("NFD_HOST_ROOT",), outside=True, filled=True)] = "/"
    """Where the machine's file systems are mounted."""
    replay: Annotated[str, Flag("replay", outside=True)] = ""
    """Recorded machine to label instead of this one."""
    families_file: Annotated[str, Flag("families-file", env=("GFD_FAMILIES_FILE",), outside=True)] = ""
    """YAML: names of architectures by compute capability ("14.0": vera), added to the built-in ones."""
    profile: Annotated[Literal["device-plugin", "dra"], Flag("profile", env=("GFD_PROFILE",), outside=True)] = (
        "device-plugin"
    )
    """What hands out the GPUs: the device plugin, or NVIDIA's DRA driver."""
    nvml_timeout: Annotated[
        Duration, AfterValidator(check_timeout), Flag("nvml-timeout", env=("GFD_NVML_TIMEOUT",), outside=True)
    ] = TIMEOUT
    """How long the driver may take for one reading."""
    cleanup: Annotated[bool, Flag("cleanup", outside=True)] = False
    """Remove the feature file or NodeFeature object and exit."""
    log_level: Annotated[
        str, AfterValidator(check_level), Flag("log-level", env=("GFD_LOG_LEVEL",), outside=True, filled=True)
    ] = "info"
    """One of debug, info, warning, error."""

    def remarks(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Path and reason of what is written without effect, and of a MIG strategy that does not exist."""
        if self.flags.mig_strategy not in MIG_STRATEGIES:
            yield MIG_STRATEGY, f"{self.flags.mig_strategy!r} is not one of {', '.join(MIG_STRATEGIES)}"
        for path, reason in self.sharing.without_effect():
            yield ("sharing", *path), reason
        for name, entries in (("gpus", self.resources.gpus), ("mig", self.resources.mig)):
            if entries:
                yield ("resources", name), "has no effect"


MIG_STRATEGY = ("flags", "migStrategy")


@dataclass(frozen=True, slots=True)
class Loaded:
    """The options, and what they were read from."""

    config: Config
    layers: tuple[Layer, ...] = ()
    warnings: tuple[str, ...] = ()
    file: Layer | None = None

    def check_mig_strategy(self) -> None:
        """Raises ConfigError that names where the strategy is from."""
        wrong = next((reason for path, reason in self.config.remarks() if path == MIG_STRATEGY), "")
        if wrong:
            raise ConfigError(f"{place_of(Config, self.layers, MIG_STRATEGY)}: {'.'.join(MIG_STRATEGY)}: {wrong}")


@dataclass(frozen=True, slots=True)
class Choice:
    """Command line and environment, read once; the file is read again at each reload."""

    parsed: Parsed = field(default_factory=Parsed)

    @property
    def answer(self) -> str:
        """What --help or --version ask to print."""
        return self.parsed.answer

    def load(self, current: Loaded | None = None) -> Loaded:
        """Every option's value; at a reload, with what is `current`. Raises ConfigError."""
        path = load(Config, self.parsed.layers, strict_text=True).config.config_file
        file, warnings = read_file(path, current.file if current else None) if path else (None, ())
        layers = (*([file] if file else ()), *self.parsed.layers)
        config, findings = load(Config, layers, strict_text=True)
        return Loaded(config, layers, (*warnings, *map(str, findings)), file)


def read_file(path: str, current: Layer | None = None) -> tuple[Layer, tuple[str, ...]]:
    """The file and warnings; one that is empty or `/dev/null` gives the defaults. Raises ConfigError.

    An editor or `cp` may just be writing the file. So at a reload, if the file is missing or has become empty, what is
    `current` stays, with a warning.
    """
    layer = file_layer(Path(path))
    if layer is None and current is None:
        raise ConfigError(f"config file {path}: {os.strerror(errno.ENOENT)}")
    if current is not None and (layer is None or (layer.blank and not current.blank)):
        return current, (f"{path}: is {'empty' if layer else 'missing'}; {KEPT}",)
    assert layer is not None
    return layer, ()


def parse_options(argv: Sequence[str], environment: Mapping[str, str]) -> Choice:
    """Read command line and environment. Raises ConfigError.

    What follows the first word that is no flag is ignored, but for `help`, which is as good as the flag.
    """
    parsed = _parse(argv, environment)
    return Choice(_parse(["--help"], {}) if parsed.rest[:1] in (("help",), ("h",)) else parsed)


def _parse(argv: Sequence[str], environment: Mapping[str, str]) -> Parsed:
    return parse(
        PROGRAM,
        argv,
        model=Config,
        about="Labels a node by its NVIDIA GPUs.",
        allow_words=True,
        version_flags=("version", "v"),
        environment=environment,
    )
