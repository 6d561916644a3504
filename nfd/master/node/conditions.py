"""Node conditions of nfd: `FeaturesReported` and `AcceleratorsUsable`, with the prefix of the bookkeeping annotations.

They are derived from a report of the Node's own boot that this master has received itself. A silent worker, or another
boot than that of the last report, makes them Unknown (`Unknowns`). `lastTransitionTime` is when the status changed;
there are no heartbeats.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from nfd.errors import Forbidden, Invalid, KubeError, Unauthorized
from nfd.fleet.gpu_labels import STATE
from nfd.master.node.condition_rejections import ConditionRejections
from nfd.master.node.desired import Desired
from nfd.master.node.ownership import annotation
from nfd.master.node.patch import condition_patch
from nfd.master.node.undecided import Undecided
from nfd.master.reports.heartbeats import Heartbeats
from nfd.names import FEATURE_NS, NVIDIA_NS, full_key
from nfd.report import Report, State
from nfd.runtime import log
from nfd.store.base import Condition, Kind, Node, NodeStore

REPORTED, USABLE = "FeaturesReported", "AcceleratorsUsable"
TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
REBOOTED, SILENT = "Rebooted", "WorkerSilent"
"""Reasons of Unknown."""
PACE = 0.2
"""Seconds between two conditions that become Unknown: five a second."""
VFIO = "vfio"
"""A state that is no fault: the devices are for virtual machines."""
SOURCES = frozenset(("nvidia", "accelerator", "local"))
"""Feature sources that label accelerators and their states."""

_VENDOR_STATE = re.compile(rf"{re.escape(FEATURE_NS)}/accelerator-([a-z0-9-]+)\.state", re.ASCII)
_VENDOR_PRESENT = re.compile(rf"{re.escape(FEATURE_NS)}/accelerator-[a-z0-9-]+\.present", re.ASCII)
_log = log.get("master")


def types(instance: str) -> tuple[str, str]:
    """The two condition types of an instance."""
    return annotation(REPORTED, instance), annotation(USABLE, instance)


def derive_conditions(
    node: Node, report: Report, desired: Desired, undecided: Undecided, instance: str
) -> dict[str, Condition | None]:
    """The conditions that the report and the desired labels give, None for one to remove. One that is not certain is
    left out.

    Empty for a report without boot id, or of another boot than the Node's.
    """
    boot = report.order.boot_id if report.order is not None else ""
    if not boot or boot != node.boot_id or not report.sources:
        return {}
    reported, usable = types(instance)
    found: dict[str, Condition | None] = {
        reported: Condition(TRUE, "WorkerReported", f"nfd-worker has reported the features of boot {boot}")
    }
    labels = _labels(report, desired, undecided)
    states = dict(_states(labels))
    faults = {vendor: state for vendor, state in states.items() if state != VFIO}
    if faults:
        text = ", ".join(f"{vendor}: {state}" for vendor, state in sorted(faults.items()))
        first = faults.get("nvidia") or faults[min(faults)]
        found[usable] = Condition(FALSE, _camel(first), f"state of accelerators: {text}")
    elif undecided.states or _failed(report, desired):
        return found
    elif labels.get(f"{NVIDIA_NS}/gpu.present") == "true" or any(map(_VENDOR_PRESENT.fullmatch, labels)):
        found[usable] = Condition(TRUE, _camel(VFIO) if states else "Usable", "no accelerator has a fault")
    else:
        found[usable] = None
    return found


def _failed(report: Report, desired: Desired) -> frozenset[str]:
    """The sources of states that failed. Where another program reads the GPUs, a worker's own need not."""
    failed = frozenset(name for name, one in report.sources.items() if name in SOURCES and one.state is State.FAILED)
    return failed - {"nvidia"} if STATE in desired.disproved else failed


def _labels(report: Report, desired: Desired, undecided: Undecided) -> dict[str, str]:
    """The labels that count: the desired ones, and those of the report that the configuration keeps away from
    Nodes."""
    labels = {full_key(key): value for key, value in report.labels.items()} | dict(desired.of(Kind.LABELS))
    left_out = desired.disproved.keys() | undecided.labels
    return {key: value for key, value in labels.items() if key not in left_out}


def _states(labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Vendor → state."""
    for key, state in labels.items():
        if key == STATE:
            yield "nvidia", state
        elif (match := _VENDOR_STATE.fullmatch(key)) and match[1] != "any":
            yield match[1], state


def _camel(state: str) -> str:
    """A state as the reason of a condition: no-driver → NoDriver."""
    return "".join(part.capitalize() for part in state.split("-"))


def no_conditions(node: Node, instance: str) -> dict[str, Condition | None]:
    """Remove those of the instance."""
    return {one: None for one in types(instance) if one in node.conditions}


def find_unknown(node: Node, instance: str, *, silent: bool) -> dict[str, Condition]:
    """The conditions of the Node that are to be Unknown: of another boot than the report, or of a silent worker."""
    reported = node.conditions.get(types(instance)[0])
    if reported is None or reported.status != TRUE:
        return {}
    if node.boot_id and not reported.message.endswith(f" {node.boot_id}"):
        wanted = Condition(UNKNOWN, REBOOTED, f"nfd-worker has not reported in boot {node.boot_id} of the Node yet")
    elif silent:
        wanted = Condition(UNKNOWN, SILENT, "nfd-worker has not reported for three heartbeats")
    else:
        return {}
    return {one: wanted for one in types(instance) if one in node.conditions}


def is_own_unknown(one: Condition | None) -> bool:
    """Whether `Unknowns` may have written it."""
    return one is not None and one.status == UNKNOWN and one.reason in (REBOOTED, SILENT)


def utc_now() -> str:
    """The time as conditions have it (RFC 3339)."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Unknowns:
    """Makes conditions Unknown, once this master has led for as long as a worker may be silent."""

    store: NodeStore
    instance: str
    heartbeats: Heartbeats
    rejections: ConditionRejections

    def patience(self, name: str = "") -> float:
        return self.heartbeats.patience(len(self.store.names()), name)

    def is_heard(self, name: str) -> bool:
        """Whether the worker's latest report to this master is recent; one from before it led may be, too."""
        age = self.heartbeats.age(name)
        return (self.heartbeats.led() if age is None else age) <= self.patience(name)

    def due(self, names: Iterable[str]) -> list[tuple[str, Mapping[str, Condition]]]:
        """Nodes with conditions that are to be Unknown, and these."""
        if self.heartbeats.led() <= self.patience():
            return []
        nodes = (node for name in names if (node := self.store.get(name)) is not None)
        found = ((node.name, find_unknown(node, self.instance, silent=self._is_silent(node.name))) for node in nodes)
        return [(name, wanted) for name, wanted in found if wanted]

    def _is_silent(self, name: str) -> bool:
        age = self.heartbeats.age(name)
        return age is None or age > self.patience(name)

    async def mark(self, leads: Callable[[], bool]) -> None:
        """Write those that are due, five a second at most, while this master leads."""
        for name, wanted in self.due(list(self.store.names())):
            if not leads():
                return
            if self.rejections.waits(name):
                continue
            node = self.store.get(name)
            if node is not None and (name, wanted) in self.due([name]) and self.rejections.claim(name):
                await self._write(node, wanted)
                await asyncio.sleep(PACE)

    async def _write(self, node: Node, wanted: Mapping[str, Condition]) -> None:
        try:
            await self.store.patch(node.name, condition_patch(node, wanted, utc_now()))
        except KubeError as error:
            if isinstance(error, Invalid | Forbidden) and not isinstance(error, Unauthorized):
                self.rejections.note(node.name, error)
            else:  # tried again at the next check
                _log.debug("cannot write node conditions", node=node.name, error=error)
        else:
            self.rejections.accept(node.name)
            why = next(one.message for one in wanted.values())
            _log.info("node conditions are unknown", node=node.name, error=why)
