"""Guards of what rules ask for, and of what is foretold of it."""

from __future__ import annotations

from tests.guards.guard import Guard

RULES = (
    Guard(  # nodes alike do not share what stands for a feature of each
        "nfd/master/desired.py",
        "policies.refers(self.labels, self.annotations, self.extended_resources)",
        "policies.refers(self.labels, self.extended_resources)",
        "tests/master/test_alike.py::test_derivations_are_those_of_derive_desired",
    ),
    Guard(  # what a master never sees gives nothing where it is tried
        "nfd/rules/compiled.py",
        "(one for one in objects if one.defect is None)",
        "objects",
        "tests/cli/test_report_cases.py::test_what_a_master_never_sees_gives_nothing_beside_rules_that_it_sees",
    ),
    Guard(  # what a failed rule gave stays
        "nfd/master/resources.py",
        "if unsure := found.unsure | verdict.book.relying_on(fresh.failed):",
        "if unsure := verdict.book.relying_on(fresh.failed):",
        "tests/master/test_rule_defects_cluster.py::test_rule_that_recurses_for_ever",
    ),
    Guard(  # so does what those after it gave that look at what it gives
        "nfd/master/rulebook.py",
        "if placed.dependent and self.unsure:",
        "if False:",
        "tests/master/test_rule_defects_cluster.py::test_rules_that_depend_on_a_failing_one",
    ),
    Guard(  # a node on which a rule of a group fails stays a member
        "nfd/master/statuses.py",
        "if node in found.unsure or self._silent(node)",
        "if self._silent(node)",
        "tests/master/test_rule_defects_cluster.py::test_group_whose_rule_fails_keeps_its_members",
    ),
    Guard(  # what a failed rule of the worker gave stays
        "nfd/sources/custom.py",
        'error = "; ".join(filter(None, (config.error, *failed)))',
        "error = config.error",
        "tests/rules/test_defects.py::test_worker",
    ),
    Guard(  # an outcome is not current before it is there
        "nfd/master/verdicts.py",
        "before, book = verdict.evaluation, self.book\n",
        "before, book = verdict.evaluation, self.book\n        verdict.book = book\n",
        "tests/master/test_rule_defects.py::test_outcome_is_current_only_once_it_is_there",
    ),
    Guard(  # what the master does not take is not foretold
        "nfd/cli/selected.py",
        "[one for one, counts in pairs if counts]",
        "found",
        "tests/cli/test_namespace_selector.py::test_a_plan_foresees_what_the_master_takes",
    ),
)
