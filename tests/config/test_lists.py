"""Lists that repeat themselves are findings; a daemon works with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nfd.cli import main
from nfd.config.load import inline, load
from nfd.worker.config import model


@pytest.mark.parametrize(
    ("option", "findings"),
    [
        ("pci: {deviceClassWhitelist: ['03', '03']}", ["pci.deviceClassWhitelist[1]: '03' is listed twice"]),
        (
            "pci: {deviceClassWhitelist: ['0300', '03']}",
            ["pci.deviceClassWhitelist[0]: '03', which is also listed, includes '0300'"],
        ),
        (
            "pci: {deviceClassWhitelist: ['03', '0B40', '0b', '12']}",
            ["pci.deviceClassWhitelist[1]: '0b', which is also listed, includes '0b40'"],
        ),
        ("usb: {deviceClassWhitelist: [ff, FF]}", ["usb.deviceClassWhitelist[1]: 'ff' is listed twice"]),
        (
            "usb: {deviceClassWhitelist: ['', ff]}",
            ["usb.deviceClassWhitelist[1]: '', which is also listed, includes 'ff'"],
        ),
        ("usb: {deviceLabelFields: [class, class]}", ["usb.deviceLabelFields[1]: 'class' is listed twice"]),
        (
            "cpu: {cpuid: {attributeBlacklist: [SSE, AVX, SSE, SSE2]}}",
            ["cpu.cpuid.attributeBlacklist[2]: 'SSE' is listed twice"],
        ),
        (
            "kernel: {configOpts: [A, A, A]}",
            [f"kernel.configOpts[{index}]: 'A' is listed twice" for index in (1, 2)],
        ),
        ("pci: {deviceClassWhitelist: ['03', '0b40', '12', '0200']}", []),
        ("pci: {deviceClassWhitelist: []}", []),
    ],
)
def test_a_list_that_repeats_itself(
    option: str, findings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "nfd-worker.conf"
    file.write_text(f"sources: {{{option}}}\n")
    assert main(["config", "validate", str(file)]) == bool(findings)
    assert capsys.readouterr().out.splitlines() == [f"{file}:1: sources.{one}" for one in findings]
    assert load(model(), inline(f"sources: {{{option}}}")).config is not None


def test_the_defaults_do_not() -> None:
    default = load(model(), []).config.model_dump(mode="json", by_alias=True)["sources"]
    lists = {name: default[name] for name in ("pci", "usb", "cpu", "kernel")}
    assert load(model(), inline(json.dumps({"sources": lists}))).findings == ()
