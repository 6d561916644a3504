"""The last test of a run: whatever our programs did on this control plane, they asked for nothing beyond their RBAC.

That none of it is idle, `test_rights.py` shows.
"""

from __future__ import annotations

from collections import Counter

from tests.controlplane.cluster import ControlPlane
from tests.deploy.rendering import ROOT, chart_objects, kustomized, load, overlay
from tests.e2e.release import CHART
from tests.e2e.rights import Right, granted, used

EVERYTHING = ROOT / "tests/deploy/all-components"
RELEASED = {"namespaceOverride": "released", "fullnameOverride": "nfd-node-feature-discovery"}
"""As `tests/deploy/test_release.py` installs it."""


def allowed() -> dict[str, set[Right]]:
    """User name → rights, of everything that we ship."""
    found: dict[str, set[Right]] = {}
    rendered = [load(kustomized(EVERYTHING)), overlay("prune"), overlay("ha"), chart_objects(CHART)]
    for objects in [*rendered, chart_objects(RELEASED)]:
        for who, rights in granted(objects).items():
            found.setdefault(who, set()).update(rights)
    return found


def test_nothing_was_asked_beyond_the_rights(control_plane: ControlPlane) -> None:
    rights = allowed()
    events = [event for event in control_plane.audit() if event.user in rights]
    refused = Counter(event for event in events if (event.code == 401 or event.forbidden) and not event.early)
    assert refused - Counter(control_plane.provoked) == Counter()
    assert {who: beyond for who, mine in rights.items() if (beyond := used(events, who, mine) - mine)} == {}
