"""The table of fuzz targets: every parser that reads what others wrote."""

from __future__ import annotations

from tests.fuzz.target import Target
from tests.fuzz.targets import cluster, configs, gpu, hosts, machine, registry, reports, rules

TARGETS: dict[str, Target] = {
    target.name: target
    for part in (reports, machine, hosts, gpu, rules, configs, cluster, registry)
    for target in part.TARGETS
}
