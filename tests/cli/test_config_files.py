"""Files that people have: NFD's examples with every option set, and objects of the NFD operator."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from nfd.cli import main
from nfd.cli.convert import VALUES, WITHOUT
from tests.deploy.rendering import chart_objects

KLOG = """
  addDirHeader: false
  alsologtostderr: false
  logBacktraceAt:
  logtostderr: true
  skipHeaders: false
  stderrthreshold: 2
  v: 0
  vmodule:
  logDir:
  logFile:
  logFileMaxSize: 1800
  skipLogHeaders: false
"""
MASTER = f"""
noPublish: false
autoDefaultNs: true
extraLabelNs: [added.ns.io, added.kubernets.io]
denyLabelNs: [denied.ns.io, denied.kubernetes.io]
resourceLabels: [vendor-1.com/feature-1]
enableTaints: false
informerPageSize: 200
labelWhiteList: foo
resyncPeriod: 2h
restrictions:
  disableLabels: true
  disableTaints: true
  disableExtendedResources: true
  disableAnnotations: true
  allowOverwrite: false
  denyNodeFeatureLabels: true
  nodeFeatureNamespaceSelector:
    matchLabels: {{kubernetes.io/metadata.name: node-feature-discovery}}
    matchExpressions: [{{key: kubernetes.io/metadata.name, operator: In, values: [node-feature-discovery]}}]
klog:{KLOG}
leaderElection: {{leaseDuration: 15s, renewDeadline: 10s, retryPeriod: 2s}}
nfdApiParallelism: 10
"""
WORKER = f"""
core:
  labelWhiteList:
  noPublish: false
  noOwnerRefs: false
  ownerRefs: [pod, ds]
  sleepInterval: 60s
  featureSources: [all]
  labelSources: [all]
  noPublishFeatures: []
  klog:{KLOG.replace(chr(10), chr(10) + "  ")}
sources:
  cpu: {{cpuid: {{attributeBlacklist: [AVX10, TDX_GUEST], attributeWhitelist: }}}}
  kernel: {{kconfigFile: /path/to/kconfig, configOpts: [NO_HZ, DMI]}}
  pci: {{deviceClassWhitelist: ["0200", "03", "12"], deviceLabelFields: [class, vendor, device, subsystem_vendor]}}
  usb: {{deviceClassWhitelist: [0e, ef, fe, ff], deviceLabelFields: [class, vendor, device]}}
  local: {{hooksEnabled: false}}
  custom:
    - name: my feature
      labels: {{my-ng-feature: "true"}}
      matchFeatures:
        - {{feature: kernel.loadedmodule, matchExpressions: {{my_kernel_mod: {{op: Exists}}}}}}
"""
TOPOLOGY = 'excludeList: {node1: [cpu], node2: [memory, example/deviceA], "*": [hugepages-2Mi]}\n'


@pytest.mark.parametrize(
    ("name", "text", "keys"),
    [
        ("nfd-master.conf", MASTER, ["klog.stderrthreshold", "restrictions.disableTaints"]),
        ("nfd-worker.conf", WORKER, ["core.klog.stderrthreshold", "sources.local.hooksEnabled"]),
        ("nfd-topology-updater.conf", TOPOLOGY, []),
    ],
)
def test_nfds_examples_with_every_option_are_valid(
    name: str, text: str, keys: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in `deployment/components/*-config/*.conf.example` of NFD, and keys of NFD 0.16."""
    (tmp_path / name).write_text(text)
    assert main(["config", "validate", str(tmp_path / name)]) == 0
    warned = capsys.readouterr().out.splitlines()
    assert all(line.startswith(f"warning: {tmp_path / name}:") for line in warned)
    assert [line.split(": ")[2] for line in sorted(warned, key=lambda line: line.split(": ")[2])] == keys
    (tmp_path / name).write_text(text + "hookEnabled: true\n")
    assert main(["config", "validate", str(tmp_path / name)]) == 1
    assert "hookEnabled: unknown key" in capsys.readouterr().out


OBJECT = {
    "apiVersion": "nfd.openshift.io/v1",
    "kind": "NodeFeatureDiscovery",
    "spec": {
        "instance": "blue",
        "topologyUpdater": False,
        "extraLabelNs": ["a.io"],
        "labelWhiteList": "cpu",
        "operand": {"image": "quay.io/x", "servicePort": 12000, "workerTolerations": [{"operator": "Exists"}]},
        "workerConfig": {"configData": "core:\n  sleepInterval: 90s\n"},
        "customConfig": {"configData": "- name: x\n"},
        "unheard": 1,
    },
}


def test_an_object_of_the_nfd_operator_becomes_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "nfd.yaml"
    file.write_text(yaml.safe_dump(OBJECT))
    assert main(["config", "convert", str(file)]) == 0
    said = capsys.readouterr()
    values = yaml.safe_load(said.out)
    assert values == {
        "master": {
            "instance": "blue",
            "extraLabelNs": ["a.io"],
            "config": {"labelWhiteList": "cpu"},
            "service": {"port": 12000},
        },
        "topologyUpdater": {"enable": False},
        "worker": {"tolerations": [{"operator": "Exists"}], "config": {"core": {"sleepInterval": "90s"}}},
    }
    assert chart_objects(values)
    fields = sorted(line.split(": ")[1] for line in said.err.splitlines())
    assert fields == ["spec.customConfig.configData", "spec.operand.image", "spec.unheard"]


def test_a_workers_configuration_alone_is_taken_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "w"
    file.write_text("sources:\n  pci:\n    deviceClassWhitelist: ['0200']\n")
    assert main(["config", "convert", str(file)]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == {"worker": {"config": yaml.safe_load(file.read_text())}}


def test_another_object_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p"
    file.write_text("kind: Pod\n")
    assert main(["config", "convert", str(file)]) != 0
    assert "kind is 'Pod', not NodeFeatureDiscovery" in capsys.readouterr().err


def test_the_page_has_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs/openshift.md").read_text()
    table = dict(re.findall(r"^\| `([\w.]+)` \| (.*?) \|$", page, re.MULTILINE))
    assert {field: f"`{value}`" for field, value in VALUES.items()} == {
        field: text.partition(";")[0] for field, text in table.items() if field in VALUES
    }
    assert set(WITHOUT) <= set(table)
