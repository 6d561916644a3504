"""Guards of attribution, of Nodes that come and go, and of writes; and the list of all guards."""

from __future__ import annotations

from tests.guards.answers import ANSWERS
from tests.guards.endless import ENDLESS
from tests.guards.epochs import EPOCHS
from tests.guards.gpus import GPUS
from tests.guards.guard import Guard
from tests.guards.inherited import INHERITED
from tests.guards.leadership import LEADERSHIP
from tests.guards.lives import LIVES
from tests.guards.proofs import PROOFS
from tests.guards.replication import REPLICATION
from tests.guards.rules import RULES
from tests.guards.trust import TRUST
from tests.guards.writes import IN_THE_WAY

STATES = "tests/master/test_states.py::"
FLEETS = "tests/faults/test_fleets.py::"
TROUBLE = "tests/faults/test_api_trouble.py::"

ATTRIBUTION = (
    Guard(  # a topology that may not be read says nothing about a GPU
        "nfd/sources/amd/kfd.py",
        'if denied and counted[address].get("driver") == AMDGPU and "cu.count" not in parts[0]:',
        "if False:",
        "tests/sources/test_amd.py::test_what_is_not_known_otherwise_is_unknown",
    ),
    Guard(  # nor that a vendor's data cannot be loaded
        "nfd/sources/accelerator/__init__.py",
        'reading.errors.append(HostError("nfd.accelerators", str(error)))',
        "pass",
        "tests/sources/test_accelerator.py::test_without_the_data_of_a_vendor_nothing_of_it_is_removed",
    ),
    Guard(  # nor that a value cannot be read
        "nfd/host/__init__.py",
        "if error.errno not in NO_VALUE:",
        "if False:",
        "tests/sources/test_read_errors.py::test_labels_of_the_processors_stay",
    ),
    Guard(  # nor that it has fewer partitions
        "nfd/sources/amd/kfd.py",
        "if nodes and complete:",
        "if nodes:",
        "tests/sources/test_amd.py::test_a_topology_that_may_not_be_read_loses_no_label",
    ),
    Guard(  # a rule finds a module in either spelling
        "nfd/rules/kernel_module_names.py",
        "return name in names or spell(name) in _spelled(names)",
        "return name in names",
        "tests/rules/test_modules.py::test_either_spelling_matches",
    ),
    Guard(  # a file that nobody has read holds what it may have given
        "nfd/sources/local/__init__.py",
        "whole=held and not folder.unknown",
        "whole=held",
        "tests/sources/test_one_bad_file.py::test_of_a_file_that_was_never_read_nothing_may_be_removed",
    ),
    Guard(  # so does a rule file
        "nfd/sources/custom.py",
        "unknown = unknown or older is None",
        "unknown = False",
        "tests/sources/test_one_bad_file.py::test_of_a_file_that_was_never_read_nothing_may_be_removed",
    ),
    Guard(  # nor is one of the container read instead
        "nfd/host/tree.py",
        "except (FileNotFoundError, NotADirectoryError):",
        "except OSError:",
        "tests/sources/test_one_bad_file.py::test_a_folder_that_cannot_be_listed_holds_everything",
    ),
    Guard(  # a folder that cannot be listed is no news of its files
        "nfd/sources/custom.py",
        "whole = bool(error) and listed and not unknown",
        "whole = bool(error) and not unknown",
        "tests/sources/test_one_bad_file.py::test_a_folder_that_cannot_be_listed_holds_everything",
    ),
    Guard(  # a device with an unreadable file stays
        "nfd/sources/feature_reader.py",
        "held = {name: last[name] for name in same}",
        "held: dict[str, Sequence[Instance]] = {}",
        "tests/sources/test_incomplete_devices.py::test_a_device_with_an_unreadable_file_stays_as_it_was",
    ),
    Guard(  # rules of a file hold while features of other sources are unknown
        "nfd/discovery.py",
        "if unknown and (found.whole or not found.error):",
        "if unknown and not found.error:",
        "tests/sources/test_one_bad_file.py::test_rules_of_before_hold_while_features_are_unknown",
    ),
    Guard(  # a failed source holds its keys
        "nfd/master/node/desired.py",
        "return self.sources is None or self.sources.get(origin, False)",
        "return True",
        STATES + "test_failed_source_holds_its_keys_and_no_others",
    ),
    Guard(  # so does a source that the report does not name
        "nfd/master/node/desired.py",
        "self.sources.get(origin, False)",
        "self.sources.get(origin, True)",
        FLEETS + "test_attribution_lasts_from_one_master_to_the_next",
    ),
    Guard(  # a key of unknown origin goes only when every source is fresh
        "nfd/master/node/desired.py",
        "certain = self.reported and self.settled and not self.blind and all((self.sources or {}).values())",
        "certain = self.reported and self.settled and not self.blind",
        "tests/master/test_objects.py::test_what_absence_tells",
    ),
    Guard(  # rules hold their keys until their list is complete
        "nfd/master/node/desired.py",
        "return self.rules_synced and not (exists and (self.blind or not self.objects_settled))",
        "return not (exists and (self.blind or not self.objects_settled))",
        "tests/faults/test_missing_kinds.py::test_404_is_no_news_of_rules",
    ),
    Guard(  # a rule that sees less than there is holds its keys
        "nfd/master/node/desired.py",
        "return self.rules_synced and not (exists and (self.blind or not self.objects_settled))",
        "return self.rules_synced",
        "tests/faults/test_restarts.py::test_after_a_restart_rules_hold_until_each_worker_has_spoken",
    ),
    Guard(  # objects of third parties hold theirs
        "nfd/master/node/desired.py",
        "return self.objects_synced\n",
        "return True\n",
        "tests/faults/test_missing_kinds.py::test_404_is_no_news_of_rules",
    ),
    Guard(  # a failed source holds its value, too
        "nfd/master/node/desired.py",
        "failed = {name for name, source in report.sources.items() if source.state is State.FAILED}",
        "failed = set[str]()",
        STATES + "test_failed_source_keeps_its_value_against_a_weaker_one",
    ),
    Guard(  # objects of third parties do not stand for a worker that is silent
        "nfd/master/rules/nodefeatures.py",
        "return owned.alone or bool(objects and not owned)",
        "return True",
        "tests/faults/test_restarts.py::test_after_a_restart_rules_hold_until_each_worker_has_spoken",
    ),
    Guard(  # an object that makes no sense is not gone
        "nfd/master/node/desired.py",
        'if self.uncertain and (origin in self.uncertain or origin.partition("/")[0] in self.uncertain):',
        "if origin is self.uncertain:",
        "tests/master/test_objects_cluster.py::test_what_an_object_gave_outlives_a_restart_while_it_makes_no_sense",
    ),
    Guard(  # without a worker's word nothing of its goes
        "nfd/master/node/outcome.py",
        "fresh = replace(lists, rules=existing, sources={}, blind=True, reported=False)",
        "fresh = replace(lists, rules=existing, sources={})",
        "tests/faults/test_restarts.py::test_after_a_restart_rules_hold_until_each_worker_has_spoken",
    ),
    Guard(  # a server that knows no such kind tells nothing about objects of it
        "nfd/kube/informer.py",
        "            self._settle()\n\n    def _settle(self)",
        "            self.synced.set()\n            self._settle()\n\n    def _settle(self)",
        "tests/faults/test_missing_kinds.py::test_404_is_no_news_of_rules",
    ),
)

NODES = (
    Guard(  # a Node of another boot gets nothing of the old one
        "nfd/master/reports/store.py",
        'if kept.uid not in ("", node.uid) and another:',
        "if False:",
        STATES + "test_recreated_node_of_another_boot_waits_for_its_worker",
    ),
    Guard(  # one of the same boot gets it back
        "nfd/master/reports/store.py",
        "and another:\n            if order",
        "and True:\n            if order",
        STATES + "test_recreated_node_of_the_same_boot_gets_its_labels_at_once",
    ),
    Guard(  # older reports are refused
        "nfd/master/reports/store.py",
        "if order.older(before):",
        "if False:",
        STATES + "test_order_of_reports",
    ),
    Guard(  # so are those of another boot than the Node's own
        "nfd/master/reports/store.py",
        "if node is not None and known_boot and known_boot != order.boot_id and node.boot_id == known_boot:",
        "if False:",
        FLEETS + "test_two_workers_claim_a_node",
    ),
    Guard(  # and those of the machine that an earlier Node was on
        "nfd/master/reports/store.py",
        "            self._check_past(report.order, node)\n",
        "",
        FLEETS + "test_recreated_node_has_its_labels_within_seconds",
    ),
    Guard(  # and those for the Node of that name before this one
        "nfd/master/reports/store.py",
        "if node is not None and report.node_uid and node.uid and report.node_uid != node.uid:",
        "if False:",
        STATES + "test_order_of_reports",
    ),
    Guard(  # a late answer brings no Node back
        "nfd/store/kube.py",
        "if known is None or known.uid != node.uid:",
        "if known is not None and known.uid != node.uid:",
        "tests/faults/test_answers_that_are_late.py::test_a_node_that_goes_while_it_is_written_leaves_nothing_behind",
    ),
    Guard(  # memory of Nodes that are gone
        "nfd/master/node/reconcile.py",
        "        self.forget(name)  # a pass over a deleted node must leave no state\n",
        "",
        "tests/faults/test_answers_that_are_late.py::test_a_node_that_goes_while_it_is_written_leaves_nothing_behind",
    ),
    Guard(
        "nfd/master/reports/accept_reports.py",
        "                self.features.forget(name)\n",
        "                pass\n",
        FLEETS + "test_deleted_nodes_leave_nothing_behind",
    ),
)

WRITES = (
    Guard(  # a lost race is a conflict
        "nfd/master/node/patch.py",
        'return {"resourceVersion": node.version} | ',
        "return {} | ",
        "tests/master/test_on_cluster.py::test_lost_race_is_a_conflict_and_planned_again",
    ),
    Guard(  # and a Node of the same name is not the same
        "nfd/master/node/patch.py",
        '({"uid": node.uid} if node.uid else {})',
        "{}",
        "tests/faults/test_restarts.py::test_every_patch_names_the_very_node_and_version",
    ),
    Guard(  # what is somebody else's stays his
        "nfd/master/node/plan.py",
        "(not overwrite and actual[key] != desired[key])",
        "False",
        STATES + "test_allow_overwrite",
    ),
    Guard(
        "nfd/master/node/plan.py",
        "if key in shared or ",
        "if ",
        STATES + "test_gpu_present_of_the_operator_stays_the_operators",
    ),
    Guard(  # a server that asks for time gets it
        "nfd/master/node/queue.py",
        "max(delay, at_least)",
        "delay",
        TROUBLE + "test_retry_after_is_obeyed",
    ),
    Guard(  # failures come later and later
        "nfd/master/node/queue.py",
        "delay = min(BACKOFF[0] * 2 ** min(failures, 20), BACKOFF[1])",
        "delay = BACKOFF[0]",
        TROUBLE + "test_outage_of_writes_is_told_once_and_asked_seldom",
    ),
    Guard(  # watches that end at once are no hot loop
        "nfd/kube/informer.py",
        "if asyncio.get_running_loop().time() - self._listed_at < SHORTEST_LIST:",
        "if False:",
        TROUBLE + "test_a_watch_that_is_always_too_old_is_no_hot_loop",
    ),
    Guard(  # nothing is done before the Nodes are known
        "nfd/store/kube.py",
        "await tasks.reached(self._informer.synced, self._watching)",
        "await asyncio.sleep(0)",
        TROUBLE + "test_lists_that_hang",
    ),
)

CONFIGURATION = (
    Guard(  # a configuration file that is gone or empty is no news
        "nfd/config/reload.py",
        "if layer is None or layer.blank:",
        "if layer is None and not layers:",
        "tests/config/test_missing_files.py::test_an_empty_file_is_no_news",
    ),
    Guard(  # sources that nobody knows are a mistake, no wish
        "nfd/worker/agent.py",
        "if settings.plan.pointless:",
        "if False:",
        "tests/worker/test_mishaps.py::test_a_configuration_of_unknown_sources_alone_is_refused",
    ),
)

GUARDS = (
    *ATTRIBUTION,
    *NODES,
    *WRITES,
    *LEADERSHIP,
    *RULES,
    *CONFIGURATION,
    *TRUST,
    *GPUS,
    *LIVES,
    *PROOFS,
    *IN_THE_WAY,
    *ANSWERS,
    *INHERITED,
    *REPLICATION,
    *ENDLESS,
    *EPOCHS,
)
