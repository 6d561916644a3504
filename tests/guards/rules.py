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
)
