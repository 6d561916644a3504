"""What cannot be said of a node's accelerators while the NodeFeature objects are not all known (pure).

An object that is not known yet may disprove the state that the worker gives. Then the Node carries labels of its
program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nfd.fleet.gpu_labels import GPU, PRODUCT, STATE, is_reader, is_unseen
from nfd.master.node.desired import Desired, Freshness
from nfd.master.node.ownership import CLAIMED, Origin, parse_owned
from nfd.master.node.proof import Proof
from nfd.names import FEATURE_NS
from nfd.store.base import Kind, Node

_READINGS = re.compile(
    rf"(?:{re.escape(GPU)}\.(?:state|product)|{re.escape(FEATURE_NS)}/accelerator-[a-z0-9-]+\.(?:state|present))",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Undecided:
    """`labels` are not added or changed yet. `states`: whether accelerators work is not known, unless one has a
    fault."""

    labels: frozenset[str] = frozenset()
    states: bool = False


NOTHING = Undecided()


def find_undecided(desired: Desired, fresh: Freshness, node: Node, instance: str, proof: Proof) -> Undecided:
    """From the labels about accelerators that the Node carries, that nothing gives at present, and that stay."""
    if fresh.objects_synced and fresh.settled and not (fresh.blind or fresh.uncertain or fresh.failed):
        return NOTHING
    wanted = desired.of(Kind.LABELS)
    given = wanted.keys() | desired.disproved.keys()
    carried = [key for key in node.labels if key not in given and _READINGS.fullmatch(key)]
    if not carried:
        return NOTHING
    owned = parse_owned(node.annotations, instance, node.uid, proof).of(Kind.LABELS)
    staying = {key for key in carried if _stays(key, owned, fresh)}
    unseen = PRODUCT in staying and is_unseen(wanted, desired.origins.get(Kind.LABELS, {}))
    held = unseen and is_reader(owned.get(PRODUCT) or CLAIMED)
    return Undecided(frozenset((STATE,)) if held else frozenset(), bool(staying))


def _stays(key: str, owned: Mapping[str, Origin], fresh: Freshness) -> bool:
    """Whether a label that nothing gives stays: its origin is not fully known, or it is of another program."""
    return not fresh.proves_absent(owned[key]) if key in owned else not fresh.objects_settled
