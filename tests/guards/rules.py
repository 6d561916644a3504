"""Guards of what rules ask for, and of what is foretold of it."""

from __future__ import annotations

from tests.guards.guard import Guard

RULES = (
    Guard(  # nodes alike do not share what stands for a feature of each
        "nfd/master/node/desired.py",
        "policies.refers(self.labels, self.annotations, self.extended_resources)",
        "policies.refers(self.labels, self.extended_resources)",
        "tests/master/test_interned_values.py::test_derivations_are_those_of_derive_desired",
    ),
    Guard(  # what a master never sees gives nothing where it is tried
        "nfd/master/rules/ruleset.py",
        "seen = [one for one in objects if one.defect is None]",
        "seen = list(objects)",
        "tests/cli/test_report_cases.py::test_what_a_master_never_sees_gives_nothing_beside_rules_that_it_sees",
    ),
    Guard(  # what objects gave that are too many stays
        "nfd/master/node/outcome.py",
        "known.lists.without_objects(surplus)",
        "known.lists",
        "tests/master/test_many_objects.py::test_what_surplus_objects_gave_stays",
    ),
    Guard(  # many objects of one namespace do not displace those of another
        "nfd/master/rules/nodefeatures.py",
        "_equal_share(amounts, limit) for amounts",
        "limit for amounts",
        "tests/master/test_many_objects.py::test_a_namespace_leaves_to_others_what_it_does_not_need",
    ),
    Guard(  # what a failed rule gave stays
        "nfd/master/node/outcome.py",
        "unsure = found.evaluation.unsure | rules.relying_on(fresh, unreadable)",
        "unsure = rules.relying_on(fresh, unreadable)",
        "tests/master/test_rule_defects_cluster.py::test_rule_that_recurses_for_ever",
    ),
    Guard(  # so does what refers to a feature that could not be read
        "nfd/master/node/outcome.py",
        "fresh.failed | {GIVEN} if unsure or unreadable else fresh.failed",
        "{GIVEN} if unsure or unreadable else frozenset()",
        "tests/master/test_references.py::test_reference_into_a_source_that_failed_in_part",
    ),
    Guard(  # and what refers to what a failed rule gives
        "nfd/master/node/outcome.py",
        "fresh.failed | {GIVEN} if unsure or unreadable else fresh.failed",
        "fresh.failed",
        "tests/master/test_references.py::test_reference_to_what_a_rule_gives_that_fails",
    ),
    Guard(  # a feature of no reported source may be one of a plug-in that failed
        "nfd/master/node/desired.py",
        "bool(self.partial & known) if known else bool(self.partial - FEATURELESS - {GIVEN})",
        "bool(self.partial & known)",
        "tests/master/test_references.py::test_rule_over_a_feature_of_a_source_with_another_name",
    ),
    Guard(  # the name of a feature tells its source
        "nfd/features.py",
        'OTHER_DOMAINS = {"rdma": "network"}',
        "OTHER_DOMAINS: dict[str, str] = {}",
        "tests/sources/test_feature_domains.py::test_every_feature_is_one_of_its_source_and_of_no_other",
    ),
    Guard(  # a rule of the worker gives what a master accepts, or nothing
        "nfd/rules/evaluate.py",
        "            budget.take(given)\n",
        "            pass\n",
        "tests/sources/test_custom.py::test_a_rule_that_gives_too_much_fails_alone",
    ),
    Guard(  # so does any source
        "nfd/worker/agent.py",
        "found = leave_out(found, excess)",
        "pass",
        "tests/worker/test_agent.py::test_a_source_that_gives_more_than_a_master_accepts_fails_alone",
    ),
    Guard(  # and labels of objects that refer to a feature that could not be read
        "nfd/master/node/plan.py",
        "    if goal.fresh.partial:\n",
        "    if False:\n",
        "tests/master/test_references.py::test_label_of_an_object_that_refers_to_a_source_that_failed_in_part",
    ),
    Guard(  # an empty text is no amount, and none was read
        "nfd/rules/policy.py",
        'feature_of(text) if unresolved or not value else ""',
        'feature_of(text) if unresolved else ""',
        "tests/master/test_references.py::test_reference_into_a_source_that_failed_in_part",
    ),
    Guard(  # and what depends on rules of an object that nobody can read
        "nfd/master/node/outcome.py",
        "unreadable = any(one.startswith(RULE_ORIGIN) for one in lists.uncertain)",
        "unreadable = False",
        "tests/master/test_references.py::test_rules_that_may_depend_on_an_object_that_cannot_be_read",
    ),
    Guard(  # so does what those after it gave that look at what it gives
        "nfd/master/rules/evaluation.py",
        "if placed.dependent and self.unsure:",
        "if False:",
        "tests/master/test_rule_defects_cluster.py::test_rules_that_depend_on_a_failing_one",
    ),
    Guard(  # a node on which a rule of a group fails stays a member
        "nfd/master/rules/status_writer.py",
        "if node in found.unsure or self._silent(node)",
        "if self._silent(node)",
        "tests/master/test_rule_defects_cluster.py::test_group_whose_rule_fails_keeps_its_members",
    ),
    Guard(  # and one on which a source failed that the group looks at
        "nfd/master/rules/status_writer.py",
        "tally.group(group).unsure.add(node)",
        "pass",
        "tests/master/test_group_members.py::test_source_of_the_feature_failed_in_part",
    ),
    Guard(  # and one for which an object cannot be read, or has yet to be listed
        "nfd/master/rules/resources.py",
        " or lists.blind or not lists.objects_settled",
        "",
        "tests/master/test_group_members.py::test_objects_that_are_not_known_speak_for_no_absence",
    ),
    Guard(  # what a failed rule of the worker gave stays
        "nfd/sources/custom.py",
        'error = "; ".join(filter(None, (config.error, *failed)))',
        "error = config.error",
        "tests/rules/test_defects.py::test_worker",
    ),
    Guard(  # an outcome is not current before it is there
        "nfd/master/rules/evaluator.py",
        "        last = begun.rule_set if begun is not None else None\n"
        "        found = yield from self._cached_evaluation(key[0], rule_set, features)\n"
        "        now = self._find(key)\n",
        "        last, now = None, begun\n        if now is not None:\n"
        "            now.rule_set, now.evaluated = rule_set, features\n"
        "        found = yield from self._cached_evaluation(key[0], rule_set, features)\n",
        "tests/master/test_rule_defects.py::test_outcome_is_current_only_once_it_is_there",
    ),
    Guard(  # while the rules of a node are not done, nothing is taken off it
        "nfd/master/node/outcome.py",
        "evaluated = found.evaluation.complete and found.current",
        "evaluated = found.evaluation.complete",
        "tests/master/test_outcome.py::test_absence_proves_nothing_before_all_rules_are_evaluated",
    ),
    Guard(  # what takes too long is suspended
        "nfd/master/rules/suspensions.py",
        "return len(recent) == STRIKES and self._everywhere.suspend(members, now)",
        "return False",
        "tests/master/test_costly_rules.py::test_heavy_object_is_suspended_with_all_its_rules",
    ),
    Guard(  # but not on all nodes for what one of them reports
        "nfd/master/rules/suspensions.py",
        "        times.pop(node, None)\n        recent = [*times.items(), (node, now)][-STRIKES:]\n",
        "        recent = [*times.items(), (f'{node} {now}', now)][-STRIKES:]\n",
        "tests/master/test_suspensions.py::test_one_node_suspends_nothing_on_others",
    ),
    Guard(  # what is suspended is tried again
        "nfd/master/rules/suspensions.py",
        "if now < one.until}",
        "if True}",
        "tests/master/test_suspensions.py::test_suspended_rule_is_tried_again_after_a_while",
    ),
    Guard(  # a machine that stands still suspends nothing
        "nfd/master/rules/evaluator.py",
        "            if self._surprises(rule_set, found):\n",
        "            if False:\n",
        "tests/master/test_suspensions.py::test_machine_that_stands_still_for_once",
    ),
    Guard(  # nor does the collector of garbage
        "nfd/rule_clock.py",
        "return time.thread_time() - collection_seconds()",
        "return time.thread_time()",
        "tests/master/test_suspensions.py::test_garbage_collection_is_not_charged",
    ),
    Guard(  # a search that would take seconds is refused
        "nfd/rules/regexp.py",
        "if size > self.longest:",
        "if False:",
        "tests/master/test_costly_rules.py::test_text_that_is_too_long_for_a_pattern",
    ),
    Guard(  # what an object gave stays while its namespace is not known
        "nfd/master/rules/resources.py",
        ").without_objects(frozenset(one.origin for one in objects if not self._knows(one.namespace)))",
        ")",
        "tests/master/test_namespace_selector.py::test_objects_of_a_namespace",
    ),
    Guard(  # what the master does not take is not foretold
        "nfd/cli/namespace_selector.py",
        "selected = [one for one in found if one.namespace in taken]",
        "selected = found",
        "tests/cli/test_namespace_selector.py::test_a_plan_foresees_what_the_master_takes",
    ),
    Guard(  # what an invalid object gave stays, in a plan as on the node
        "nfd/cli/plan/model.py",
        "lists = replace(one_node.lists, uncertain=one_node.lists.uncertain | invalid)",
        "lists = replace(one_node.lists, uncertain=frozenset(invalid))",
        "tests/cli/test_planned_node.py::test_what_an_invalid_object_gave_stays",
    ),
    Guard(  # what the API server rejects is not foretold
        "nfd/cli/plan/model.py",
        "goal.without(act for _, acts in rejected for act in acts)",
        "goal",
        "tests/cli/test_planned_node.py::test_what_the_api_server_rejects_is_not_done",
    ),
)
