"""Guards of what is written where something stands in the way: admission that refuses, and others who write, too."""

from __future__ import annotations

from tests.guards.guard import Guard

ADMISSION = "tests/master/test_admission.py::"
DRIFT = "tests/master/test_drift.py::"
ROWS = ADMISSION + "test_what_is_refused_holds_up_nothing_else"
STARTUP, CONDITIONS = "tests/master/test_startup_taints.py::", "tests/master/test_conditions.py::"
FLEET = ADMISSION + "test_three_nodes_are_enough_and_a_canary_sets_all_free"

IN_THE_WAY = (
    Guard(  # a startup taint that is set again is somebody's decision
        "nfd/master/node/startup_taints.py",
        "return [text for text in present if text not in removed]",
        "return present",
        STARTUP + "test_it_goes_once_and_foreign_taints_stay",
    ),
    Guard(  # no pod runs on a Node with the labels of an earlier boot
        "nfd/master/node/startup_taints.py",
        "if report.order.boot_id != node.boot_id:",
        "if False:",
        STARTUP + "test_a_report_of_another_boot_keeps_it",
    ),
    Guard(  # a state that another reader of the GPUs disproves is no fault
        "nfd/master/node/conditions.py",
        "left_out = desired.disproved.keys() | undecided.labels",
        "left_out: set[str] = set()",
        CONDITIONS + "test_labels_that_are_left_out_or_undecided_are_no_fault",
    ),
    Guard(  # nor is one that an object may disprove that is not known yet
        "nfd/master/node/undecided.py",
        "held = unseen and is_reader(owned.get(PRODUCT) or CLAIMED)",
        "held = False",
        "tests/faults/test_missing_kinds.py::test_a_state_that_an_unknown_object_disproves_is_not_written",
    ),
    Guard(  # conditions that are rejected keep no label away
        "nfd/master/node/writer.py",
        "self.set_aside, self.goal = planned.conditions, replace(self.goal, conditions={})",
        "return False",
        CONDITIONS + "test_a_policy_that_rejects_conditions_keeps_no_label_away",
    ),
    Guard(  # and on a fleet they are not tried node by node
        "nfd/master/node/condition_rejections.py",
        "return len(self._news) >= NODES",
        "return False",
        "tests/master/test_condition_rejections.py::test_a_policy_against_unknown_is_asked_once_in_five_minutes",
    ),
    Guard(  # a worker keeps the interval that it got
        "nfd/master/reports/heartbeats.py",
        "return max(self._intervals.get(node, 0.0), now)",
        "return now",
        CONDITIONS + "test_a_fleet_that_shrinks_makes_no_condition_unknown",
    ),
    Guard(  # a new leader has not heard the workers yet
        "nfd/master/node/conditions.py",
        "if self.heartbeats.led() <= self.patience():",
        "if False:",
        CONDITIONS + "test_a_new_leader_waits_and_then_says_unknown",
    ),
    Guard(  # a key comes back after seconds or minutes
        "nfd/master/node/drift.py",
        "2.0 ** min(times - FREE - 1, 10), longest)",
        "2.0 ** min(times - FREE - 1, 10), 3600.0)",
        DRIFT + "test_a_key_comes_back_later_each_time_and_never_later_than_minutes",
    ),
    Guard(  # what the plan itself removes from a list is no other writer's doing
        "nfd/master/node/reconcile.py",
        ".refused or removes",
        ".refused",
        DRIFT + "test_a_rule_that_is_evaluated_later_and_no_longer_matches_is_no_drift",
    ),
    Guard(  # a watch that has ended is not open, also while the next one waits
        "nfd/kube/informer.py",
        "begun.cancel()\n                self.connected = False",
        "begun.cancel()",
        "tests/kube/test_odd_lists.py::test_a_watch_that_ends_at_once_is_not_open_while_the_next_one_waits",
    ),
    Guard(  # but lists that others write are
        "nfd/master/node/reconcile.py",
        "removes = any(change.remove for change in planned.changes.values()) and not planned.before.doubt",
        "removes = any(planned.changes.values())",
        DRIFT + "test_a_list_that_others_keep_editing_is_restored_later_each_time",
    ),
    Guard(  # a fight is no hot loop
        "nfd/master/node/drift.py",
        "if times <= FREE:",
        "if True:",
        DRIFT + "test_a_key_that_others_keep_changing_or_removing_comes_back",
    ),
    Guard(  # nor is one over a condition
        "nfd/master/node/plan.py",
        "and name not in goal.contested.get(CONDITIONS, _NONE)",
        "",
        CONDITIONS + "test_one_that_others_keep_changing_comes_back_later",
    ),
    Guard(  # a shared label is its latest writer's, by what the API server notes
        "nfd/master/node/plan.py",
        "foreign = SHARED & (goal.foreign | node.writers.keys())",
        "foreign = SHARED & goal.foreign",
        DRIFT + "test_a_shared_label_of_another_is_never_removed",
    ),
    Guard(  # and by what was seen
        "nfd/master/node/reconcile.py",
        "self._foreign[node.name] = self._foreign.get(node.name, frozenset()) | foreign",
        "pass",
        DRIFT + "test_a_shared_label_is_left_at_once_to_whoever_changes_it",
    ),
    Guard(  # our lists name what is on the Node
        "nfd/master/node/plan.py",
        "left = change.refused | change.kept | goal.refused.get(kind, _NONE)",
        "left = change.refused | change.kept",
        ROWS,
    ),
    Guard(  # a taint that cannot be noted is not written
        "nfd/master/node/plan.py",
        "    if kind is Kind.TAINTS and goal.unlisted(kind):",
        "    if False:",
        ROWS,
    ),
    Guard(  # what admission refuses is found, whatever its status
        "nfd/kube/error_responses.py",
        "    if by := denied_by(said):",
        "    if status == 422 and (by := denied_by(said)):",
        ROWS,
    ),
    Guard(  # a webhook in trouble refuses nothing
        "nfd/kube/error_responses.py",
        "    if status in _WAIT or status >= 500:",
        "    if status in _WAIT:",
        ADMISSION + "test_a_webhook_in_trouble_is_no_refusal",
    ),
    Guard(  # nor does a right that is missing, which holds up resources alone
        "nfd/master/node/writer.py",
        "if resources := [act for act in self._planned().acts() if act[0] is Kind.RESOURCES]:",
        "if False:",
        ADMISSION + "test_a_missing_right_is_not_halved_and_holds_up_resources_alone",
    ),
    Guard(  # twelve PATCHes and no more
        "nfd/master/node/writer.py",
        "self.budget.left -= 1",
        "pass",
        ADMISSION + "test_two_policies_at_once",
    ),
    Guard(  # what is refused is not sent again
        "nfd/master/node/known_rejections.py",
        "if here is not None and here.value in (_ANY, value):",
        "if False:",
        "tests/faults/test_api_trouble.py::test_content_that_is_refused_is_not_sent_again",
    ),
    Guard(  # three nodes are enough
        "nfd/master/node/known_rejections.py",
        "if len(one.surely) >= NODES and ",
        "if False and ",
        FLEET,
    ),
    Guard(  # a canary sets all free
        "nfd/master/node/known_rejections.py",
        "                    one.leave(other)\n                    self._wake(other, 0.0)\n",
        "                    pass\n",
        FLEET,
    ),
    Guard(  # a Node that changes is tried at once
        "nfd/master/node/known_rejections.py",
        "        if self._retries(node, now):",
        "        if False:",
        ADMISSION + "test_a_change_of_the_node_is_tried_at_once_and_a_kubelets_status_is_not",
    ),
    Guard(  # a kubelet's status is no such change
        "nfd/store/base.py",
        '_DECLARED = ("uid", "labels", "annotations", "taints", "spec")',
        '_DECLARED = ("uid", "labels", "annotations", "taints", "spec", "resources", "boot_id", "version")',
        ADMISSION + "test_a_change_of_the_node_is_tried_at_once_and_a_kubelets_status_is_not",
    ),
)
