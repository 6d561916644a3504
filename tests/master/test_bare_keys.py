"""deploy/examples/gpushare-rules.yaml: labels without a namespace, with the feature gate DisableAutoPrefix."""

from __future__ import annotations

from pathlib import Path

from nfd.cli.rule_check import compile_files
from nfd.features import Features
from nfd.master.node.outcome import evaluate_report
from nfd.report import Report
from nfd.rules.policy import Policy
from tests.master.conftest import BOOT, Masters, Worker, send
from tests.master.places import Place, labels_of, notes_of

EXAMPLE = Path(__file__).parents[2] / "deploy/examples/gpushare-rules.yaml"
F = "feature.node.kubernetes.io/"
BARE = Policy(auto_prefix=False)
GPU = Features(instances={"pci.device": ({"vendor": "10de", "class": "0302"},)})
NETWORK = Features(instances={"pci.device": ({"vendor": "10de", "class": "0200"},)})


def labels_with(policy: Policy, features: Features) -> dict[str, str]:
    rules = compile_files([str(EXAMPLE)], policy)
    found = evaluate_report(Report("n1", features=features), rules, policy).evaluation.contributions
    return {key: value for one in found for key, value in one.labels.items()}


def test_the_rule_needs_the_gate() -> None:
    assert labels_with(BARE, GPU) == {"gpus": "true", "gpushare": "true"}
    assert labels_with(Policy(), GPU) == {F + "gpus": "true", F + "gpushare": "true"}
    assert labels_with(BARE, NETWORK) == {}


async def test_labels_without_a_namespace_come_and_go(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {"team": "a"}, {}, BOOT)
    rules, worker = compile_files([str(EXAMPLE)], BARE), Worker(name)
    master = await masters.start(
        policy=BARE, evaluate=lambda node, report: report and evaluate_report(report, rules, BARE)
    )
    await send(master, worker.report({F + "cpu-a": "1"}, features=GPU))
    assert labels_of(place, name) == {"team": "a", "gpus": "true", "gpushare": "true", F + "cpu-a": "1"}
    assert "gpus" in notes_of(place, name)["nfd.node.kubernetes.io/feature-labels"]
    await send(master, worker.report({F + "cpu-a": "1"}, features=NETWORK))
    assert labels_of(place, name) == {"team": "a", F + "cpu-a": "1"}
