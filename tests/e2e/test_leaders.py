"""Two masters as processes, with the rights that are shipped: hand-over, kill, freeze, new configuration."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

from tests.controlplane.process import free_ports
from tests.e2e.conftest import MakeNode, StartWorker
from tests.e2e.machines import Machine
from tests.e2e.nodes import NAMESPACE, F, Node
from tests.e2e.programs import Program, eventually, leads, pass_again

GONE = "configuration file is missing or empty; the configuration in use stays"
ID = F + "system-os_release.ID"


def changed(machine: Machine, worker: Program, node: Node, value: str) -> None:
    """The machine changes, and the Node follows."""
    machine.write("etc/os-release", f"ID={value}\n")
    pass_again(worker)
    eventually(lambda: node.labels[ID] == value)


def test_the_leader_leaves_is_killed_and_is_frozen(
    replicas: list[Program], machines: Callable[[str], Machine], nodes: MakeNode, workers: StartWorker
) -> None:
    """Each time the other goes on, and at no moment a label was absent."""
    machine = machines("raspberry-pi-4")
    node = nodes(machine)
    first, second = replicas
    worker = workers(node, second, f"--host-root={machine.root}")
    assert first.metric("nfd_master_reports_total") >= 1
    assert second.metric("nfd_master_reports_total") == 0
    version, keys = node.version, node.labels.keys()
    changed(machine, worker, node, "first")
    assert first.stop() == 0
    assert first.said("lease released")
    eventually(lambda: leads(second))
    changed(machine, worker, node, "second")
    first.start()
    eventually(first.ready)
    second.kill()
    eventually(lambda: leads(first))
    second.start()
    eventually(second.ready)
    changed(machine, worker, node, "third")
    first.signal(signal.SIGSTOP)
    eventually(lambda: leads(second))
    changed(machine, worker, node, "fourth")
    first.signal(signal.SIGCONT)
    eventually(lambda: not leads(first))
    changed(machine, worker, node, "fifth")
    seen = node.states(version)
    assert [labels[ID] for labels in seen] == ["first", "second", "third", "fourth", "fifth"]
    assert all(labels.keys() >= keys - {key for key in keys if "os_release.VERSION_ID" in key} for labels in seen)
    assert worker.alive()


def test_a_new_configuration_is_taken_in(
    kubeconfig: Path, tmp_path: Path, machines: Callable[[str], Machine], nodes: MakeNode, workers: StartWorker
) -> None:
    """By SIGHUP and by the changed file; one that cannot be used changes nothing."""
    config, (port, http_port) = tmp_path / "nfd-master.conf", free_ports(2)
    config.write_text("")
    words = (f"-port={port}", f"-http-port={http_port}", f"-config={config}", f"-kubeconfig={kubeconfig}")
    variables = {"KUBERNETES_NAMESPACE": NAMESPACE}
    master = Program("nfd-master", words, tmp_path / "master.log", http_port, variables)
    master.start()
    eventually(master.ready)
    machine = machines("raspberry-pi-4")
    node = nodes(machine)
    worker = workers(node, master, f"--host-root={machine.root}")
    every, version = node.labels, node.version
    config.write_text("labelWhiteList: '^cpu-model'\n")
    master.signal(signal.SIGHUP)
    few = {key: value for key, value in every.items() if key.startswith(F + "cpu-model")}
    eventually(lambda: node.labels == few)
    config.write_text("labelWhiteList: '('\n")
    master.signal(signal.SIGHUP)
    eventually(lambda: master.said("configuration is invalid; the previous one stays in use"))
    assert node.labels == few
    config.unlink()
    eventually(lambda: len(master.said(GONE)) == 1)
    config.touch()
    master.signal(signal.SIGHUP)
    eventually(lambda: len(master.said(GONE)) == 2)
    assert node.labels == few
    config.write_text("{}")
    eventually(lambda: node.labels == every)
    assert node.states(version) == [few, every]
    assert (worker.alive(), master.stop()) == (True, 0)
