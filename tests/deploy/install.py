"""`python -m tests.deploy.install` renders the chart with Helm, applies it to a test control plane, and labels a node.

Master and worker then run as processes with the arguments and service accounts of the rendered pods, since nothing runs
pods there. Ends by telling what the request log says about the chart's RBAC; exit status 1 if a right was missing.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import helm_python

from tests.controlplane.cluster import ControlPlane
from tests.deploy.rendering import CHART, chart_objects
from tests.e2e.nodes import Node
from tests.e2e.programs import eventually
from tests.e2e.release import Release, grpc_port
from tests.e2e.rights import granted

NAME = "this-machine"
NAMESPACE = "node-feature-discovery"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def main() -> int:
    with ControlPlane() as plane, tempfile.TemporaryDirectory() as folder:
        version = plane.request("GET", "/version")["gitVersion"]
        print(f"kube-apiserver {version} at {plane.url}", flush=True)
        plane.kubectl("apply", "-f", str(CHART / "crds"))
        release = Release(plane, chart_objects({"namespaceOverride": NAMESPACE}), Path(folder))
        kinds = Counter(each["kind"] for each in release.objects)
        release.apply(kinds)
        print(f"helm {helm_python.__version__}: {sum(kinds.values())} objects applied, hooks included:", flush=True)
        print("  " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())), flush=True)
        return run(release, plane)


def run(release: Release, plane: ControlPlane) -> int:
    """Label a node, prune it, and look back."""
    plane.create_node(NAME, boot_id=BOOT_ID.read_text().strip())
    node, master = Node(plane, NAME), release.master(0)
    master.start()
    try:
        eventually(master.ready)
        worker = release.worker(node, grpc_port(master))
        worker.start()
        try:
            eventually(lambda: node.owned())
        finally:
            worker.kill()
        print(f"node {NAME} has {len(node.owned())} labels, such as {', '.join(sorted(node.owned())[:3])}", flush=True)
        master.stop()
    finally:
        master.kill()
    release.prune()
    print(f"after the prune job it has {len(node.owned())}", flush=True)
    rights, missing = sum(map(len, granted(release.objects).values())), release.beyond(release.applied)
    print(f"the request log: no request refused, {len(missing)} beyond the {rights} rights of the chart")
    return bool(missing)


if __name__ == "__main__":
    raise SystemExit(main())
