"""Which NodeFeatureGroups a node belongs to (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nfd.features import Features
from nfd.master.rulebook import Evaluation, GroupKey, Problems
from nfd.rules.compiled import Group
from nfd.rules.engine import run_groups


def with_groups(found: Evaluation, groups: Sequence[Group], features: Features) -> Evaluation:
    """The same with the groups that the node belongs to, and those that cannot tell since a rule of theirs failed."""
    members: list[GroupKey] = []
    problems: dict[GroupKey, Problems] = {}
    for group in groups:
        names, failures = run_groups((group,), features)
        if failures:
            problems[group.key] = tuple(f"rule {one.rule!r}: {one.reason}" for one in failures)
        if names:
            members.append(group.key)
    if not members and not problems:
        return found
    return replace(
        found, groups=tuple(members), group_problems=problems, errors=found.errors + sum(map(len, problems.values()))
    )
