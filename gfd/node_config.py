"""What the labels of a node choose: whether DRA hands out the GPUs, whether NVML must stay closed, and one of the
device plugin's configurations.

The label `nvidia.com/device-plugin.config` names the configuration. `config-manager` follows it for
`gpu-feature-discovery`. The worker chooses among the files in `FOLDER`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from gfd.labels.settings import DEVICE_PLUGIN, DRA
from nfd import names
from nfd.config.section import Section
from nfd.errors import ConfigError
from nfd.host import PLUGIN_D, Host
from nfd.host.replay import LIBRARY_VARIABLE

if TYPE_CHECKING:
    from gfd.config import Config

LABEL = f"{names.NVIDIA_NS}/device-plugin.config"
MIG_STATE = f"{names.NVIDIA_NS}/mig.config.state"
PENDING = "pending"
PAUSED = "paused-for-"
"""In values of the GPU operator's deploy labels, before `mig-change` or `driver-upgrade`."""
UNKNOWN = "the labels of the Node are not known yet: NVML is not opened"
AUTO = "auto"
NAMED = "default"
FALLBACKS = ("named", "single", "empty")
_IN_USE = ""
"""The key under which the host keeps the configuration in use."""


class NodeConfigs(Section):
    """The choice among the device plugin's configurations in `device-plugin.d`, by the label of the node."""

    default: str = ""
    """Name of the configuration for nodes without the label `nvidia.com/device-plugin.config`."""
    fallback_strategies: tuple[Literal["named", "single", "empty"], ...] = ("named", "single")
    """Without label and default: the file called `default`, the only file, or none; the first that is there."""


def choose(wanted: str, default: str, fallbacks: Sequence[str], names: Sequence[str]) -> str:
    """The name of the configuration to use, empty for an empty one. Raises ConfigError if none fits."""
    if name := wanted or default:
        if name not in names:
            raise ConfigError(f"no configuration {name!r}; existing are {', '.join(sorted(names)) or 'none'}")
        return name
    for fallback in fallbacks:
        if fallback == "named" and NAMED in names:
            return NAMED
        if fallback == "single" and len(names) == 1:
            return names[0]
        if fallback == "empty":
            return ""
    raise ConfigError("neither label nor default names a configuration, and no fallback matches")


def for_node(host: Host, config: Config) -> Config | None:
    """The configuration with what the node's labels choose; None while they are not known, and matter.

    Raises: as `with_file`.
    """
    if config.profile == AUTO:
        if host.node_labels is None and has_driver(host):
            return None
        profile = DRA if is_dra(host.node_labels or {}) else DEVICE_PLUGIN
        config = config.model_copy(update={"profile": profile})
    return config if config.profile == DRA else with_file(host, config)


def has_driver(host: Host) -> bool:
    """Whether NVIDIA's driver may be loaded; without it, labels are the same with DRA. Reads: proc/driver/nvidia."""
    return bool(host.env(LIBRARY_VARIABLE)) or host.exists("proc/driver/nvidia")


def is_dra(labels: Mapping[str, str]) -> bool:
    """Whether the GPU operator deploys the DRA driver on the node, and not the device plugin.

    Values other than `true` say that a component is paused (NVIDIA/gpu-operator, controllers/state_manager.go).
    """
    driver, plugin = (labels.get(f"{names.DEPLOY_LABELS}{name}", "false") for name in ("dra-driver", "device-plugin"))
    return driver not in ("", "false") and plugin in ("", "false")


def reason_for_pause(host: Host) -> str:
    """Why NVML must not be opened now; empty if it may be.

    Under MIG manager and driver manager an open device blocks the change (NVIDIA/mig-parted,
    deployments/container; NVIDIA/k8s-driver-manager): they mark the Node, then wait until its clients are gone.
    """
    if host.awaits_labels and has_driver(host):
        return UNKNOWN
    labels = host.node_labels or {}
    if labels.get(MIG_STATE) == PENDING:
        return f"{MIG_STATE} is {PENDING}: NVML is not opened"
    paused = sorted(key for key, value in labels.items() if key.startswith(names.DEPLOY_LABELS) and PAUSED in value)
    return f"{paused[0]} is {labels[paused[0]]}: NVML is not opened" if paused else ""


def with_file(host: Host, config: Config) -> Config | None:
    """The configuration with MIG strategy and sharing of the file that the node's label names; None while the label is
    not known.

    Reads: etc/kubernetes/node-feature-discovery/device-plugin.d/*, each a configuration of the device plugin
    Absent: without a file the configuration stays as it is.
    Raises: ConfigError for an unknown name or an invalid file, if no other one is in use.
    """
    files = [one for one in host.names(PLUGIN_D) if not one.startswith("..") and host.is_file(f"{PLUGIN_D}/{one}")]
    if not files:
        return config
    if host.node_labels is None:
        return None
    in_use, options = host.good(PLUGIN_D), config.node_configs
    try:
        name = choose(host.node_labels.get(LABEL, ""), options.default, options.fallback_strategies, files)
        path = f"{PLUGIN_D}/{name}"
        chosen = (host.parsed(path, lambda data: parse_chosen(data, path)) if name else None) or {}
        in_use[_IN_USE] = chosen
    except ConfigError as error:
        before = in_use.get(_IN_USE)
        if not isinstance(before, Mapping):
            raise ConfigError(f"node label {LABEL}: {error}") from error
        chosen = before
        host.note(f"node label {LABEL}", f"{error}; the configuration in use stays")
    return config.model_copy(update=chosen)


def parse_chosen(data: bytes, path: str) -> Mapping[str, Any]:
    """`mig_strategy` and `sharing` of a file, as far as it sets them. Raises ConfigError."""
    from gfd.options import MIG_STRATEGY, Config, Loaded
    from nfd.config.load import layer_of, load
    from nfd.config.yamltext import parse

    layers = (layer_of(path, parse(data, path)),)
    config = load(Config, layers, strict_text=True).config
    Loaded(config, layers).check_mig_strategy()
    chosen: dict[str, Any] = {}
    if MIG_STRATEGY[0] in config.model_fields_set and "mig_strategy" in config.flags.model_fields_set:
        chosen["mig_strategy"] = config.flags.mig_strategy
    if "sharing" in config.model_fields_set:
        chosen["sharing"] = config.sharing
    return chosen
