"""`python -m tests.docs.cluster FOLDER`: a cluster to try things on, until interrupted; its kubeconfig is in FOLDER.

etcd, kube-apiserver, scheduler and controller manager are real, the chart is rendered with Helm and applied, master and
workers run as processes with the arguments and service accounts of the rendered pods. The nodes are recorded machines;
nothing runs pods there, so a pod that is bound to a node stays Pending.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from tests.consumers.cluster import scheduling_cluster
from tests.controlplane import objects
from tests.controlplane.build import BuildError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.servers import StartError
from tests.deploy.rendering import CHART, chart_objects
from tests.e2e.nodes import Node
from tests.e2e.programs import Program, eventually
from tests.e2e.release import SWIFT, Release, grpc_port
from tests.e2e.rights import KINDS
from tests.fleet20.machines import FleetNode, boot_id, build_machine, load_fleet

NAMESPACE = "node-feature-discovery"
NODES = ("gpu-h200-1", "gpu-l4-1", "cpu-arm-1")
READY = "the cluster is ready; Ctrl-C ends it"


def main(folder: str) -> int:
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with labelled_cluster() as plane:
            (place / "kubeconfig").write_text(plane.kubeconfig.read_text())
            print(f"export KUBECONFIG={place.resolve() / 'kubeconfig'}\n{READY}", flush=True)
            signal.pause()
    except (BuildError, StartError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        (place / "kubeconfig").unlink(missing_ok=True)
    return 0


@contextmanager
def labelled_cluster() -> Iterator[ControlPlane]:
    """With our release installed, and the labels of its workers on the nodes."""
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        plane, folder = stack.enter_context(scheduling_cluster()), Path(temporary)
        print(f"kube-apiserver {plane.request('GET', '/version')['gitVersion']} at {plane.url}", flush=True)
        plane.kubectl("apply", "-f", str(CHART / "crds"))
        release = Release(plane, chart_objects({"namespaceOverride": NAMESPACE}), folder, options=SWIFT)
        release.apply(KINDS)
        print(f"the chart is installed in namespace {NAMESPACE}", flush=True)
        fleet = [one for one in load_fleet() if one.name in NODES]
        for one in fleet:
            add_node(plane, one)
        master = started(stack, release.master(0, NODES[-1]))
        eventually(master.ready)
        for one in fleet:
            join(stack, one, release, grpc_port(master))
        yield plane


def add_node(plane: ControlPlane, member: FleetNode) -> None:
    """A Node as its kubelet and its device plug-in make it."""
    labels = {"kubernetes.io/hostname": member.name, "kubernetes.io/arch": member.arch, "kubernetes.io/os": "linux"}
    plane.create_node(member.name, labels, boot_id=boot_id(member))
    status = objects.node_status(boot_id(member))["status"]
    room = status["capacity"] | {key: str(amount) for key, amount in member.offered.items()}
    plane.request("PATCH", f"/api/v1/nodes/{member.name}/status", {"status": {"capacity": room, "allocatable": room}})


def join(stack: ExitStack, member: FleetNode, release: Release, port: int) -> None:
    """Start a worker on its Node, and wait until the Node has labels."""
    plane, folder = release.plane, release.folder / member.name
    folder.mkdir()
    machine, node = build_machine(member, folder / "machine"), Node(plane, member.name)
    started(stack, replace(release, folder=folder).worker(node, port, f"--replay={machine}"))
    print(f"node {member.name} has {len(eventually(node.owned))} labels", flush=True)


def started(stack: ExitStack, program: Program) -> Program:
    program.start()
    stack.callback(program.kill)
    return program


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
