"""A guest that is a Node: machine, worker in its pod, and the Node object as the API server has it."""

from __future__ import annotations

import http.client
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.nodes import F, Node
from tests.e2e.programs import Program
from tests.vm.agent import ANSWER_SECONDS, GuestError
from tests.vm.machine import Machine
from tests.vm.pod import GuestPod

REPORT_SECONDS = 900
VIRTUAL_FUNCTION = F + "vm-virtual-function"
DUMMY = F + "vm-dummy-module"
SETTINGS: dict[str, Any] = {
    "core": {"sleepInterval": "10m"},
    "sources": {
        "pci": {"deviceClassWhitelist": ["0"], "deviceLabelFields": ["class", "vendor", "device"]},
        "usb": {"deviceClassWhitelist": ["0", "e", "f"]},
        "custom": [
            {
                "name": "virtual function",
                "labels": {VIRTUAL_FUNCTION: "true"},
                "matchFeatures": [
                    {
                        "feature": "pci.device",
                        "matchExpressions": {
                            "class": {"op": "In", "value": ["0108"]},
                            "vendor": {"op": "In", "value": ["1b36"]},
                            "sriov_totalvfs": {"op": "DoesNotExist"},
                        },
                    }
                ],
            },
            {
                "name": "module",
                "labels": {DUMMY: "true"},
                "matchFeatures": [
                    {"feature": "kernel.loadedmodule", "matchExpressions": {"dummy": {"op": "Exists"}}},
                ],
            },
        ],
    },
}
"""Every device is labelled, and the timer hardly ever comes: what follows an event follows the event."""


@dataclass
class Guest:
    machine: Machine
    node: Node
    pod: GuestPod
    prepare: str = "true"
    """What is done in the machine after each boot, before the worker starts."""

    def start_worker(self) -> None:
        """After a boot: start the pod, and wait until its first report is taken."""
        self.machine.run(self.prepare)
        self.machine.run(self.pod.run_command)
        deadline = time.monotonic() + REPORT_SECONDS
        while not self.metric("nfd_worker_reports_total"):
            ended = self.machine.agent.status("test -e /run/worker.status")[0] == 0
            if ended or time.monotonic() > deadline:
                raise GuestError(f"the worker {'ended' if ended else 'does not report'}: {self.worker_log()}")
            time.sleep(0.5)

    def worker_log(self) -> str:
        return self.machine.run("cat /run/worker.log")

    def worker_pid(self) -> int:
        """The worker's process in the guest."""
        return int(self.machine.read("/run/worker.pid"))

    def metric(self, sample: str) -> float:
        """A sample of the worker's /metrics, 0 while it does not serve."""
        try:
            return Program("nfd-worker", (), Path(), self.machine.http_port).metric(sample)
        except (OSError, http.client.HTTPException):
            return 0.0

    def in_pod(self, *words: str, seconds: float = ANSWER_SECONDS) -> str:
        """What another program of the image prints, run beside the worker in its pod."""
        return self.machine.run(f"runc --root=/run/runc exec worker {' '.join(words)}", seconds)

    def labels(self) -> dict[str, str]:
        """The Node's labels that are features."""
        return {key: value for key, value in self.node.labels.items() if key.startswith(F)}
