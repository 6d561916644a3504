"""The section `sources.nvidia` of the worker's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator

from gfd.discover import MACHINE_TYPE_FILE, TIMEOUT, ReadSettings
from gfd.families import overlay, parse_rows
from gfd.labels.settings import LabelSettings, settings_for
from gfd.node_config import NodeConfigs
from gfd.sharing import Sharing
from nfd.config.section import Duration, Section


def check_families(rows: Mapping[str, str]) -> Mapping[str, str]:
    parse_rows(rows)
    return rows


def check_timeout(seconds: float) -> float:
    if seconds <= 0:
        raise ValueError("must be above 0")
    return seconds


class Config(Section):
    """GPU labels in the worker; names and values are those of GPU feature discovery."""

    mig_strategy: Literal["none", "single", "mixed"] = "none"
    """How MIG devices are offered: the strategy of the device plugin on this node."""
    device_discovery_strategy: Literal["auto", "nvml", "tegra", "vfio"] = "auto"
    """Which library reads the devices."""
    no_timestamp: bool = False
    """Leave out `nvidia.com/gfd.timestamp`, the time of the last scan that found changed values."""
    machine_type_file: str = MACHINE_TYPE_FILE
    """File below the host root with the machine's name; empty for `unknown`."""
    sharing: Sharing = Sharing()
    """`timeSlicing` and `mps`, as in the device plugin's configuration."""
    profile: Literal["auto", "device-plugin", "dra"] = "auto"
    """What hands out the GPUs. With `dra`, labels of the device plugin (sharing, MIG strategy) are left out. `auto` is
    `dra` on nodes on which the GPU operator deploys NVIDIA's DRA driver, else `device-plugin`.
    """
    families: Annotated[Mapping[str, str], AfterValidator(check_families)] = {}
    """Names of architectures by compute capability (`"14.0": vera`), added to the built-in ones."""
    node_configs: NodeConfigs = NodeConfigs()
    """Which configuration of the device plugin gives sharing and MIG strategy, if some are mounted."""
    timeout: Annotated[Duration, AfterValidator(check_timeout)] = TIMEOUT
    """How long the driver may take for one reading."""

    def options(self) -> ReadSettings:
        return ReadSettings(self.device_discovery_strategy, self.machine_type_file, self.timeout)

    def settings(self) -> LabelSettings:
        return settings_for(self.profile, self.mig_strategy, self.sharing, overlay(self.families))
