"""What the workers of the fleet report: recorded machines, brought to 61 labels and 48 kB of features each.

The recordings lack what is 84 % of a real report, the kernel configuration, and most modules: both are made up, one of
each for all nodes of a kind, as kernels are. The node's name is all that differs between two nodes of a kind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from nfd import __version__
from nfd.discovery import discover, make_plan
from nfd.features import Features
from nfd.host.replay import open_host
from nfd.report import Report, SourceState
from nfd.rpc import convert, labeler_pb2
from nfd.worker.config import model
from nfd.worker.report_content import derive_content

HOSTS = Path(__file__).parents[2] / "tests/hosts"
RECORDINGS = (
    "debian-12-epyc-milan", "dgx-h100", "rhel-9.4-cascade-lake", "sles-15.6-kvm-guest", "talos-1.12-epyc-genoa",
    "ubuntu-24.04-sapphire-rapids", "ubuntu-24.04-gb200", "ubuntu-24.04-google-axion",
)  # fmt: skip
LABELS = 61
FEATURE_BYTES = 48_000
MODULES = 150
NAME = "system.name"


@dataclass
class Worker:
    """One node's worker: its token, and how often it has spoken."""

    number: int
    token: str = ""
    sequence: int = 0
    started: int = 1
    changes: dict[str, str] = field(default_factory=dict)

    @property
    def node(self) -> str:
        return node_name(self.number)

    def speak(self) -> convert.Outgoing:
        """Its next report, as it goes over the wire; later fields of a protobuf message win over earlier ones."""
        self.sequence += 1
        kind = kinds()[self.number % len(kinds())]
        own = {"nodename": self.node}
        blob = convert.to_blob(convert.to_set(own))
        rest = labeler_pb2.ReportRequest(
            node_name=self.node,
            order=labeler_pb2.Order(boot_id=boot_id(self.number), started=self.started, sequence=self.sequence),
            labels=self.changes,
            features=[labeler_pb2.FeatureRef(name=NAME, digest=convert.digest(blob))],
            blobs=[blob] if len(blob) <= convert.SMALL else [],
        )
        return convert.Outgoing(kind.request + rest.SerializeToString(), {**kind.contents, convert.digest(blob): own})


def node_name(number: int) -> str:
    return f"fleet-{number:05d}"


def boot_id(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


@cache
def kinds() -> tuple[convert.Outgoing, ...]:
    """One report of each kind, without a node's name."""
    return tuple(convert.encode(report(name, number)) for number, name in enumerate(RECORDINGS))


def report(recording: str, number: int) -> Report:
    """What a worker on that machine finds, cut or filled up to the size of the fleet's reports."""
    host = open_host("/", str(HOSTS / recording), {})
    plan = make_plan(["all"], ["all"], model()().sources)
    found = derive_content(plan, discover(host, plan))
    labels = dict(sorted(found.labels.items())[:LABELS])
    for missing in range(LABELS - len(labels)):
        labels[f"feature.node.kubernetes.io/kernel-config.FILL_{missing}"] = "true"
    modules = frozenset(f"module_{one}_{number % 3}" for one in range(MODULES))
    attributes = {key: value for key, value in found.features.attributes.items() if key != NAME}
    features = Features({**found.features.flags, "kernel.loadedmodule": modules}, attributes, found.features.instances)
    attributes["kernel.config"] = kernel_config(number, FEATURE_BYTES - size(features))
    states = {name: SourceState(state) for name, state in found.states.items()}
    origins = {key: origin for key, origin in found.origins.items() if key in labels}
    return Report("", __version__, "", None, labels, {}, origins, states, features)


def kernel_config(number: int, room: int) -> dict[str, str]:
    """Names and values of some 20 letters, as many as fill `room` bytes."""
    options = room // 34
    return {f"SOME_DRIVER_{number}_OPTION_{one}": "ym"[one % 3 == 0] for one in range(options)}


def size(features: Features) -> int:
    """Bytes of all blobs."""
    contents: tuple[convert.Content, ...] = (
        *features.flags.values(),
        *features.attributes.values(),
        *features.instances.values(),
    )
    return sum(len(convert.to_blob(convert.to_set(one))) for one in contents)
