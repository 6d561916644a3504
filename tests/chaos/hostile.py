"""What hostile neighbours do through the API server: policies that refuse keys, rules that never end."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.checker import Checker
from tests.chaos.fleet import Undo
from tests.chaos.model import VENDORS
from tests.chaos.schedule import Event
from tests.chaos.watcher import Undisturbed
from tests.controlplane.api import ApiError

RULES = "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
NAME = "chaos-neighbour"
PLACES = ("metadata.?labels", "metadata.?annotations", "status.?capacity", "status.?allocatable")
ALWAYS = [{"feature": "kernel.version", "matchExpressions": {"major": {"op": "Exists"}}}]
"""A term that every machine of the fleet matches."""
BRANCHES = 10


@dataclass
class Hostile:
    """Each kind happens once at a time; `stop` leaves nothing behind."""

    server: Undisturbed
    checker: Checker
    _there: set[str] = field(default_factory=set)

    def begin(self, event: Event) -> Undo | None:
        """Answers how to end it, or None if one of its kind is there already."""
        dice = random.Random(event.detail)
        actions: Mapping[str, Callable[[random.Random], Undo]] = {
            "admission refuses the keys of a rule": self._refuse,
            "rule is hostile": self._rule,
        }
        if event.kind in self._there:
            return None
        self._there.add(event.kind)
        undo = actions[event.kind](dice)

        def end() -> None:
            undo()
            self._there.discard(event.kind)

        return end

    def stop(self) -> None:
        for path in (f"{BINDINGS}/{NAME}", f"{POLICIES}/{NAME}", *(f"{RULES}/{NAME}-{kind}" for kind in HOSTILE)):
            with suppress(ApiError):
                self.server.request("DELETE", path)

    def _refuse(self, dice: random.Random) -> Undo:
        """No key of one vendor's rule may come or change; that a key goes, or stays as it is, is let through."""
        part = f"chaos-rule-{dice.choice(VENDORS)}-"
        self.checker.refusing(True)
        self.server.request("POST", POLICIES, policy(part, dice.choice(("Invalid", "Forbidden"))))
        binding = {"policyName": NAME, "validationActions": ["Deny"]}
        self.server.request("POST", BINDINGS, _object("ValidatingAdmissionPolicyBinding", binding))

        def allow() -> None:
            self.server.request("DELETE", f"{BINDINGS}/{NAME}")
            self.server.request("DELETE", f"{POLICIES}/{NAME}")
            self.checker.refusing(False)

        return allow

    def _rule(self, dice: random.Random) -> Undo:
        kind = dice.choice(sorted(HOSTILE))
        body = {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeatureRule"}
        body |= {"metadata": {"name": f"{NAME}-{kind}"}, "spec": {"rules": HOSTILE[kind]()}}
        self.server.request("POST", RULES, body)
        return lambda: self.server.request("DELETE", f"{RULES}/{NAME}-{kind}") and None


def policy(part: str, reason: str) -> dict[str, Any]:
    """A policy on Nodes against every key with `part` in it that is new or has another value."""
    expressions = [
        f'object.{place}.orValue({{}}).all(k, !k.contains("{part}") || '
        f"oldObject.{place}.orValue({{}})[?k] == optional.of(object.{place.replace('?', '')}[k]))"
        for place in PLACES
    ]
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes", "nodes/status"]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": " && ".join(expressions), "reason": reason, "message": "not here"}],
    }
    return _object("ValidatingAdmissionPolicy", spec)


def _object(kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": NAME},
        "spec": dict(spec),
    }


def _recursive() -> list[dict[str, Any]]:
    """A template that calls itself inside nested branches."""
    body = "{{if true}}" * BRANCHES + '{{template "again" .}}' + "{{end}}" * BRANCHES
    text = f'{{{{define "again"}}}}{body}{{{{end}}}}{{{{template "again" .}}}}'
    return [{"name": "recursive", "labelsTemplate": text, "matchFeatures": ALWAYS}]


def _expensive_template() -> list[dict[str, Any]]:
    """A pattern with a large automaton, on text that is made in the template, many times."""
    match = '{{if regexMatch "[0-7].{900}x" (repeat 5000 "01234567")}}{{end}}'
    return [{"name": "expensive", "labelsTemplate": match * 30, "matchFeatures": ALWAYS}]


def _expensive_patterns() -> list[dict[str, Any]]:
    """Hundreds of plain rules, each with such a pattern; none of them matches."""
    term = {"feature": "kernel.version", "matchExpressions": {"full": {"op": "InRegexp", "value": ["[0-7].{900}x"]}}}
    return [
        {"name": f"pattern-{number}", "labels": {f"never-{number}": "true"}, "matchFeatures": [term]}
        for number in range(300)
    ]


def _invalid() -> list[dict[str, Any]]:
    """A rule that cannot be compiled beside one that fails on every node."""
    return [
        {"name": "unfinished", "labelsTemplate": "{{if", "matchFeatures": ALWAYS},
        {"name": "failing", "labelsTemplate": '{{fail "always"}}', "matchFeatures": ALWAYS},
    ]


HOSTILE: Mapping[str, Callable[[], list[dict[str, Any]]]] = {
    "recursive": _recursive,
    "template": _expensive_template,
    "patterns": _expensive_patterns,
    "invalid": _invalid,
}
