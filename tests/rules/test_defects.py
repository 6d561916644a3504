"""Whatever a rule brings out spoils that rule alone: in the engine, in groups, in the worker's rules, when compiled."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

from nfd.errors import RuleError
from nfd.host import CUSTOM_D
from nfd.master.node.outcome import evaluate_report
from nfd.master.rules.ruleset import bind
from nfd.report import Report
from nfd.rules.compile import Group, compile_rule
from nfd.rules.evaluate import run_custom, run_rule
from nfd.rules.match_features import View
from nfd.rules.model import ParsedRule, Rule
from nfd.rules.parse import parse_custom, parse_rule
from nfd.rules.policy import Policy
from nfd.rules.template import Template, TemplateError
from nfd.sources import custom
from tests.rules.raising import HERE, UNFORESEEN, Unreadable, raising
from tests.sources.hosts import make_host

GOOD = compile_rule(parse_rule({"name": "good", "labels": {"y": "2"}, "matchFeatures": [{"feature": "a.b"}]}, Rule))
each = pytest.mark.parametrize("error", UNFORESEEN, ids=lambda error: type(error).__name__)


@each
def test_evaluation(error: Exception) -> None:
    with pytest.raises(RuleError, match=type(error).__name__):
        run_rule(raising(error), View(HERE))


@each
def test_groups(error: Exception) -> None:
    groups = (Group("a", "n", (raising(error),)), Group("b", "n", (raising(error), GOOD)))
    found = evaluate_report(Report("n", features=HERE), bind((), groups), Policy()).evaluation
    assert found.groups == (("n", "b"),)
    assert found.group_problems.keys() == {("n", "a"), ("n", "b")}


@each
def test_worker(error: Exception) -> None:
    """The labels of the others, and word that some may be missing: what the rule gave before stays."""
    rules = (raising(error, labels={"x": "1"}), GOOD)
    assert run_custom(rules, HERE).labels == {"y": "2"}
    found = custom.labels(HERE, custom.Rules(rules, clock=lambda: pytest.fail("nobody asks for the time")))
    assert found.labels == {"y": "2"}
    assert "rule 'raising' failed: " + type(error).__name__ in found.error
    assert [subject for subject, _ in found.notes] == ["rule 'raising'"]


@each
def test_parsing_and_compiling(error: Exception) -> None:
    odd, fine = map(compile_rule, parse_custom([Unreadable(error), {"name": "fine", "labels": {"y": "2"}}]))
    assert "rule cannot be read: " + type(error).__name__ in str(odd.defect)
    assert (fine.defect, fine.labels) == (None, {"y": "2"})
    broken = ParsedRule("broken", Rule.model_construct(name="broken", match_features=(Unreadable(error),)))
    assert "cannot be compiled: " + type(error).__name__ in str(compile_rule(broken).defect)


def test_file_of_the_worker_that_cannot_be_read(tmp_path: Path) -> None:
    """Nested deeper than any parser follows; the file is rejected, and the others are used."""
    deep = "[" * 5000 + "]" * 5000
    files = {f"{CUSTOM_D}/a.yaml": deep, f"{CUSTOM_D}/b.yaml": '- {name: fine, labels: {"y": "2"}}\n'}
    found = custom.load(make_host(tmp_path, files), custom.Config())
    assert found.rules[-1].name == "fine"
    assert "a.yaml" in found.error


def recursive(blocks: int, block: str = "if true") -> str:
    inside = f"{{{{ {block} }}}}" * blocks + '{{ template "a" . }}' + "{{ end }}" * blocks
    return f'{{{{ define "a" }}}}{inside}{{{{ end }}}}{{{{ template "a" . }}}}'


@pytest.mark.parametrize("block", ["if true", "with 1", "range 1", "if gt 1 0", "with (list 1)"])
@pytest.mark.parametrize("blocks", [0, 1, 10, 30, 58])
def test_templates_that_call_themselves(blocks: int, block: str) -> None:
    with pytest.raises(TemplateError, match="deeper than"):
        Template(recursive(blocks, block)).render({})


@pytest.mark.parametrize("blocks", [0, 5, 10, 50])
def test_recursion_that_ends(blocks: int) -> None:
    deep = (
        f'{{{{ define "a" }}}}{"{{ if . }}" * (blocks + 1)}x{{{{ template "a" (rest .) }}}}{"{{ end }}" * (blocks + 1)}'
    )
    text = deep + '{{ end }}{{ template "a" (list 1) }}'
    assert Template(text).render({}) == "x"


def test_stack_that_is_nearly_full() -> None:
    """A template that runs close to the end of Python's stack fails its rule, like one that is too deep."""
    written = {"name": "r", "labelsTemplate": recursive(9), "matchFeatures": [{"feature": "a.b"}]}
    rule, view = compile_rule(parse_rule(written, Rule)), View(HERE)

    def deeper(levels: int) -> None:
        if levels:
            deeper(levels - 1)
        else:
            with pytest.raises(RuleError):
                run_rule(rule, view)

    for left in range(120, 400, 40):
        deeper(sys.getrecursionlimit() - len(inspect.stack()) - left)


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        (recursive(10), ["template 'a' calls itself without end"]),
        (recursive(1, "if .x"), []),
        ('{{ define "a" }}{{ template "b" }}{{ end }}{{ define "b" }}{{ template "a" }}{{ end }}',
         ["template 'a' calls itself without end", "template 'b' calls itself without end"]),
        ('{{ if .x }}{{ template "nope" }}{{ end }}', ["template 'nope' not defined"]),
        ('{{ block "a" . }}{{ if false }}{{ template "a" }}{{ end }}{{ end }}', []),
        ('{{ range .x }}{{ else }}{{ template "c" }}{{ end }}', ["template 'c' not defined"]),
    ],
)  # fmt: skip
def test_what_is_known_without_data(text: str, reasons: list[str]) -> None:
    assert Template(text).mistakes() == reasons
