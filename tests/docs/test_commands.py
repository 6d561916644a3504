"""The commands of the guides do on a cluster what they are there for, after an installation by Helm and by kustomize.

Helm is its own library (helm.py), the pods run (tests/consumers/kubelet.py), and kubectl is the real one.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from nfd.worker.config import CONFIG_FILE
from tests.children import run
from tests.consumers.cluster import scheduling_cluster
from tests.consumers.kubelet import Kubelet
from tests.consumers.proxy import ServiceProxy
from tests.controlplane.cluster import ControlPlane
from tests.docs.cluster import NAMESPACE, NODES, SERVICE, add_node, worker_flags
from tests.e2e.nodes import Node
from tests.e2e.programs import SCRIPTS, eventually
from tests.fleet20.machines import load_fleet

ROOT = Path(__file__).parents[2]
WAYS = {"Helm": SERVICE, "kustomize": "nfd-master"}
PLACES = {"NODE": "gpu-l4-1", "LABEL": "nvidia.com/gpu.product", "NAME": "mine"}
"""What a reader puts in."""
RULE = """apiVersion: nfd.k8s-sigs.io/v1alpha1
kind: NodeFeatureRule
metadata: {name: mine}
spec:
  rules:
    - {name: mine, labels: {mine: "yes"}, matchFeatures: [{feature: kernel.version}]}
"""

OVERLAY = "deploy/kustomize/overlays/mine/kustomization.yaml"
IN_A_POD = re.compile(r"^kubectl .* exec POD -- ")
"""Before a command that runs in a worker's pod; here it runs on this machine."""

_LINE = re.compile(r"^ *(?:\$ |    (?=kubectl|nfd|helm))(.*)")


@dataclass
class Installed:
    """An installation by one of the ways; `folder` is where the reader stands."""

    way: str
    plane: ControlPlane
    folder: Path
    url: str

    def run(self, command: str) -> str:
        """What it prints. Raises: ChildError."""
        for word, value in PLACES.items():
            command = re.sub(rf"(?<![\w-]){word}\b", value, command)
        if "nfd plan" in command and "--master" not in command:
            command += " --master http://localhost:8081"  # its default; here the port is another one
        command = command.replace("http://localhost:8081", self.url)
        paths = f"{self.folder / 'bin'}:{SCRIPTS}:{os.environ['PATH']}"
        env = {**os.environ, "PATH": paths, "KUBECONFIG": str(self.plane.kubeconfig), "KUBERC": "off"}
        return run(["bash", "-ec", command], cwd=self.folder, env=env, timeout=180).stdout


def commands_of(text: str) -> list[str]:
    """Shell commands of a guide: lines after a `$`, indented ones of kubectl, nfd and helm, with continued lines."""
    found: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if match := _LINE.match(line):
            command = match[1]
            while command.endswith("\\"):
                command = command[:-1] + next(lines).strip()
            found.append(re.sub(r"\s+#.*$", "", command))
    return found


def section(page: str, heading: str) -> list[str]:
    text = (ROOT / page).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert text, heading
    return commands_of(text)


@pytest.fixture(scope="module", params=WAYS)
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """By the guide's own commands; all pods are Ready, and the nodes have labels."""
    way, folder = request.param, tmp_path_factory.mktemp("guides")
    furnish(folder)
    with ExitStack() as stack:
        plane = stack.enter_context(scheduling_cluster())
        fleet = [one for one in load_fleet() if one.name in NODES]
        for one in fleet:
            add_node(plane, one)
        machines = {one.name: worker_flags(one, folder / one.name) for one in fleet}
        kubelet = stack.enter_context(Kubelet(plane, NAMESPACE, WAYS[way], folder / "pods", machines))
        http = ServiceProxy(plane, NAMESPACE, WAYS[way], lambda pod: kubelet.port_of(pod, "http"))
        stack.callback(http.stop)
        found = Installed(way, plane, folder, f"http://localhost:{http.port}")
        if way == "Helm":
            first = section("docs/install.md", "With Helm")[0]
            found.run(f"{first} --set master.serveReports=true --set master.servePage=true")
        else:
            copy, apply = section("docs/install.md", "With kubectl")
            found.run(copy)
            with (folder / OVERLAY).open("a") as overlay:
                overlay.write("components: [../../components/page, ../../components/reports]\n")
            found.run(apply)
        found.run(f"kubectl apply -f {folder / 'rule.yaml'}")
        for name in NODES:
            node = Node(plane, name)
            eventually(lambda node=node: "feature.node.kubernetes.io/mine" in node.labels, 120)  # type: ignore[misc]
        yield found
        assert "Traceback" not in kubelet.texts()


def furnish(folder: Path) -> None:
    """The reader's folder: a checkout, `helm`, and the files that the commands name."""
    shutil.copytree(ROOT / "deploy", folder / "deploy")
    (folder / ".venv").symlink_to(Path(sys.prefix))
    (folder / "bin").mkdir()
    helm = folder / "bin/helm"
    helm.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m tests.docs.helm "$@"\n')
    helm.chmod(0o755)
    for name in ("rule.yaml", "rules.yaml", "new-rules.yaml"):
        (folder / name).write_text(RULE)
    (folder / "nfd-worker.conf").write_text("core: {sleepInterval: 30s}\n")
    (folder / "nfd-master.conf").write_text("enableTaints: true\n")


def labels_of(plane: ControlPlane) -> dict[str, set[str]]:
    """Node → the keys that are not those of a node without any product."""
    return {name: {key for key in Node(plane, name).labels if "kubernetes.io/" not in key or key.startswith("feature.")}
            for name in NODES}  # fmt: skip


def test_readme_and_troubleshooting(installed: Installed) -> None:
    lines = [line for line in commands_of((ROOT / "README.md").read_text()) if line.startswith("kubectl")]
    lines += commands_of((ROOT / "docs/troubleshooting.md").read_text())
    assert len(lines) > 20
    here = [IN_A_POD.sub("", line).replace(CONFIG_FILE, "nfd-worker.conf") for line in lines]
    silent = [line for line in here if "port-forward" not in line and not installed.run(line)]
    assert silent == [
        "kubectl nfd nodes --master http://localhost:8081 --problems",
        "nfd config validate nfd-worker.conf",
    ]


def test_both_masters_and_workers_have_logs(installed: Installed) -> None:
    for role, count in (("worker", len(NODES)), ("master", 1)):
        text = installed.run(f"kubectl -n {NAMESPACE} logs -l role={role} --prefix --tail=-1")
        assert len({line.partition("]")[0] for line in text.splitlines()}) == count


def test_the_page_and_reports(installed: Installed) -> None:
    """What forwards the port names the Deployment; the role of readers is there, and its token opens the reports."""
    pages = [(ROOT / page).read_text() for page in ("docs/page.md", "docs/cli.md", "docs/troubleshooting.md")]
    forwards = [line for text in pages for line in commands_of(text) if "port-forward" in line]
    assert len(forwards) == 4
    for line in forwards:
        (inner,) = re.findall(r'"(\$\(.*\))"', line)
        assert installed.run(f'kubectl -n {NAMESPACE} get "{inner}" -o name') == f"{deployment(installed)}\n"
    (access,) = re.findall(r"^### Access to the master's reports$(.*?)^###", pages[1], re.M | re.S)
    for line in commands_of(access):
        if "port-forward" not in line:
            prefix = "nfd-node-feature-discovery-" if installed.way == "Helm" else "nfd-"
            installed.run(line.replace("=nfd-reports-reader", f"={prefix}reports-reader"))
    found = installed.run("kubectl nfd plan --rules rules.yaml --master http://localhost:8081 --token-file token")
    assert "no node changes" in found or "0 of 3 nodes change" in found


def deployment(installed: Installed) -> str:
    return f"deployment.apps/{WAYS[installed.way]}"


def test_upgrading(installed: Installed) -> None:
    """No label is missing afterwards; the guide for gpushare gives labels without a namespace."""
    before = labels_of(installed.plane)
    *by_helm, by_kustomize = section("docs/install.md", "Upgrading")
    lines = section("docs/install.md", "Pod Security")
    if installed.way == "Helm":
        lines += [*by_helm, *section("docs/consumers.md", "Labels without a namespace: `gpus`, `gpushare`")]
    else:
        lines.append(by_kustomize)
    for line in lines:
        installed.run(line)
    for name, keys in before.items():
        assert keys - labels_of(installed.plane)[name] <= {"feature.node.kubernetes.io/mine"}
    if installed.way == "Helm":
        node = Node(installed.plane, "gpu-h200-1")
        eventually(lambda: node.labels.get("gpus") == "true", 120)


def test_the_notes(installed: Installed) -> None:
    """What Helm prints after an installation."""
    if installed.way != "Helm":
        return
    from tests.deploy.rendering import notes

    text = notes({"master": {"servePage": True}})
    lines = [line.strip() for line in text.splitlines() if line.startswith("  kubectl")]
    assert len(lines) > 4
    for line in lines:
        if "port-forward" in line:
            line = re.sub(r"port-forward (\S+) \d+", r"get \1", line)
        assert installed.run(line), line


def test_migrating(installed: Installed) -> None:
    """The steps of the switch, from our own release as it stands for NFD's: names and values are the same."""
    if installed.way != "Helm":
        return
    before = labels_of(installed.plane)
    lines = section("docs/migrating.md", "Switch in place")
    there = lines[: next(at for at, line in enumerate(lines) if "oci://" in line) - 1]
    for line in there:
        installed.run(line)
        after = labels_of(installed.plane)
        assert all(not keys - after[name] for name, keys in before.items()), line
    eventually(lambda: all(Node(installed.plane, name).owned() for name in NODES))


def test_removing(installed: Installed) -> None:
    """By Helm, whose hook removes the labels."""
    if installed.way != "Helm":
        return
    for line in section("docs/install.md", "Removing"):
        if line.startswith("helm"):
            installed.run(line)
    eventually(lambda: not any(labels_of(installed.plane).values()), 60)
