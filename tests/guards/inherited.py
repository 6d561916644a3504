"""Guards of what a master does with reports that another one, or a file, has handed down."""

from __future__ import annotations

from tests.guards.guard import Guard

PURE = "tests/master/test_inherited.py::"
ADDS = PURE + "test_what_may_be_old_only_adds_and_only_to_a_node_that_is_as_it_says"

INHERITED = (
    Guard(  # the record names the report that changed a value, also where the list of keys stays the same
        "nfd/master/node/plan.py",
        "if idle and key == annotation(ORIGINS, goal.instance) and",
        "if key == annotation(ORIGINS, goal.instance) and",
        PURE + "test_a_report_before_a_changed_value_is_outdated",
    ),
    Guard(  # a Node that carries something else has had a newer report
        "nfd/master/node/reconcile.py",
        "asked = self._settings.outcome_of(node, report if carried else None)",
        "asked = self._settings.outcome_of(node, report)",
        ADDS,
    ),
    Guard(  # as long as nothing changes
        "nfd/master/node/reconcile.py",
        "known[1] is not report or not node.same_content(known[0]):",
        "known[1] is not report:",
        PURE + "test_a_node_that_changes_is_compared_again",
    ),
    Guard(  # one that carries it may still be due for a newer one
        "nfd/master/node/reconcile.py",
        "return replace(asked, fresh=asked.fresh.for_inherited()) if carried and asked is not None else asked",
        "return asked",
        PURE + "test_a_rule_that_changes_adds_until_the_worker_has_reported",
    ),
    Guard(  # a value that is there stays
        "nfd/master/node/plan.py",
        "if key in wanted or key not in owned or owned[key] in silent}",
        "if key not in owned or owned[key] in silent}",
        ADDS,
    ),
    Guard(  # features may be newer although the labels are the same
        "nfd/master/node/inherited.py",
        "if listed.at is not None and listed.at > (order.started, order.sequence):",
        "if False:",
        PURE + "test_a_rule_that_newer_features_no_longer_meet_is_not_met_again_by_older_ones",
    ),
    Guard(  # another boot is another machine, as far as anybody knows
        "nfd/master/node/inherited.py",
        'if order is None or listed.boot_id != order.boot_id or node.boot_id not in ("", order.boot_id):',
        "if order is None:",
        ADDS,
    ),
    Guard(  # the worker's own report stays
        "nfd/master/reports/store.py",
        "if before is not None and before.standing is Standing.REPORTED:",
        "if False:",
        PURE + "test_a_newer_report_wins_and_a_reported_one_stays",
    ),
    Guard(  # a term that is over leaves reports that may be old
        "nfd/master/reports/store.py",
        "kept.standing = Standing.INHERITED\n        return silent",
        "pass\n        return silent",
        PURE + "test_a_newer_report_wins_and_a_reported_one_stays",
    ),
)
