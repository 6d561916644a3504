"""Guards of what on a Node is ours: proofs, what policy may never touch, hand-overs."""

from __future__ import annotations

from tests.guards.guard import Guard

OWNERSHIP = "tests/master/test_ownership.py::"
PROPERTIES = "tests/master/test_plan_properties.py::"
POISONED = "tests/master/test_poisoned.py::"
KEYS = "tests/master/test_proofkey.py::"
HANDED = "tests/master/test_from_and_to_nfd.py::"
STATES = "tests/master/test_states.py::"
TAKING_OVER = "tests/faults/test_taking_over_rules.py::"

PROOFS = (
    Guard(  # origins are believed only as long as the lists are those that they were written for
        "nfd/master/node/ownership.py",
        'fits = record.get("lists") == _digest(signed.values())',
        "fits = True",
        OWNERSHIP + "test_nothing_of_a_record_counts_unless_its_proof_holds",
    ),
    Guard(  # and only with a proof
        "nfd/master/node/ownership.py",
        "known = fits and _is_proven(record, signed.values(), instance, uid, proof)",
        "known = fits",
        POISONED + "test_nothing_of_others_goes_whatever_a_kubelet_writes",
    ),
    Guard(  # nor are taints of another instance, which are in the same list
        "nfd/master/node/ownership.py",
        'signed = lists if Kind.TAINTS.value in record else {**lists, Kind.TAINTS: ""}',
        "signed = lists",
        PROPERTIES + "test_a_master_without_taints_leaves_those_of_another_instance",
    ),
    Guard(  # and their list stays, since the other could not remove its taints without it
        "nfd/master/node/plan.py",
        "return found - {annotation(LISTS[Kind.TAINTS])}",
        "return found",
        PROPERTIES + "test_a_master_without_taints_leaves_those_of_another_instance",
    ),
    Guard(  # but of its own taints it leaves none
        "nfd/master/node/plan.py",
        "if goal.policy.enable_taints or before.of(Kind.TAINTS):",
        "if goal.policy.enable_taints:",
        PROPERTIES + "test_a_master_that_may_no_longer_set_taints_removes_its_own",
    ),
    Guard(  # which is for this Node
        "nfd/master/node/proof.py",
        "json.dumps([uid, instance, record, *lists]",
        "json.dumps([instance, record, *lists]",
        OWNERSHIP + "test_a_proof_is_for_one_node_one_instance_and_one_key",
    ),
    Guard(  # and this instance
        "nfd/master/node/proof.py",
        "json.dumps([uid, instance, record, *lists]",
        "json.dumps([uid, record, *lists]",
        OWNERSHIP + "test_a_proof_is_for_one_node_one_instance_and_one_key",
    ),
    Guard(  # and for what the record says
        "nfd/master/node/proof.py",
        "json.dumps([uid, instance, record, *lists]",
        "json.dumps([uid, instance, *lists]",
        OWNERSHIP + "test_nothing_of_a_record_counts_unless_its_proof_holds",
    ),
    Guard(  # no key is one that everybody has
        "nfd/master/node/proof.py",
        "if not self._key or not isinstance(proof, str):",
        "if not isinstance(proof, str):",
        OWNERSHIP + "test_nobody_without_a_key_makes_or_believes_a_proof",
    ),
    Guard(  # a list makes claims, until we know better
        "nfd/master/node/ownership.py",
        "return MappingProxyType(dict.fromkeys(keys, CLAIMED))",
        "return MappingProxyType(dict.fromkeys(keys))",
        POISONED + "test_claims_are_no_proof_after_we_wrote_the_list",
    ),
    Guard(  # what is not ours to touch is not touched
        "nfd/master/node/plan.py",
        "return listed, _ours(listed, goal, node)",
        "return listed, listed",
        POISONED + "test_nothing_of_others_goes_whatever_a_kubelet_writes",
    ),
    Guard(  # Kubernetes' own stays even if we wrote it once
        "nfd/rules/policy.py",
        "return not is_protected(kind, namespace) or may_write(kind, key, policy)",
        "return True",
        POISONED + "test_what_is_proven_goes_after_policy_has_changed",
    ),
    Guard(  # what a kubelet may not remove, it may not have removed
        "nfd/rules/policy.py",
        "if is_below(namespace, _K8S) and not (kind == LABEL and namespace in policy.extra_label_ns):",
        "if False:",
        POISONED + "test_nothing_of_others_goes_whatever_a_kubelet_writes",
    ),
    Guard(  # nor what policy denies
        "nfd/rules/policy.py",
        "        return False\n    return may_write(kind, key, policy)",
        "        return False\n    return True",
        POISONED + "test_nothing_of_others_goes_whatever_a_kubelet_writes",
    ),
    Guard(  # nor taints while they are switched off
        "nfd/rules/policy.py",
        'if kind == "taint" and not (policy.enable_taints and namespace_of(key)):',
        'if kind == "taint" and not namespace_of(key):',
        POISONED + "test_without_a_proof_denied_keys_and_taints_stay",
    ),
    Guard(  # a claim is from a source that nobody knows: all of them have to be fresh
        "nfd/master/node/desired.py",
        "if origin is None or origin == CLAIMED:",
        "if origin is None:",
        POISONED + "test_what_policy_lets_us_write_goes_and_a_kubelet_could_have_removed_it_itself",
    ),
    Guard(  # and no rule may be open
        "nfd/master/node/desired.py",
        "certain = self.reported and self.settled and not self.blind and all((self.sources or {}).values())",
        "certain = self.reported and self.settled and all((self.sources or {}).values())",
        "tests/master/test_objects.py::test_a_key_of_unknown_origin_goes_only_where_every_origin_is_told_of",
    ),
    Guard(  # which would take its labels at a new master's first report
        "nfd/master/node/desired.py",
        "certain = self.reported and self.settled and not self.blind and all((self.sources or {}).values())",
        "certain = self.reported and self.settled and all((self.sources or {}).values())",
        TAKING_OVER + "test_rules_take_nothing_from_a_node_without_a_proof_before_they_are_evaluated",
    ),
    Guard(  # nor have failed
        "nfd/master/node/desired.py",
        "return certain and not any(one.startswith(RULE_ORIGIN) for one in self.uncertain)",
        "return certain",
        "tests/master/test_objects.py::test_what_absence_tells",
    ),
    Guard(  # a key of this process is no reason to write to every Node
        "nfd/master/node/plan.py",
        "(not before.doubt or not goal.proof.lasting)",
        "not before.doubt",
        KEYS + "test_a_key_that_does_not_last_is_no_reason_to_write",
    ),
    Guard(  # nor is a report that says nothing new
        "nfd/master/node/plan.py",
        "(not before.doubt or not goal.proof.lasting)",
        "not goal.proof.lasting",
        "tests/master/test_inherited.py::test_heartbeats_write_nothing_although_the_record_names_a_report",
    ),
    Guard(  # lists that another key proves, or none, are proven again
        "nfd/master/node/plan.py",
        "(not before.doubt or not goal.proof.lasting)",
        "True",
        KEYS + "test_a_rolled_key_loses_no_label_freezes_nothing_and_costs_one_patch_a_node",
    ),
    Guard(  # rotation of certificates leaves the key
        "nfd/master/security/certificates.py",
        'secret["data"] = kept | made',
        'secret["data"] = made',
        KEYS + "test_the_key_outlives_rotations_of_the_authority",
    ),
    Guard(  # the key leaves the authority
        "nfd/master/security/proof_key.py",
        'secret["data"] = {**(secret.get("data") or {}), ENTRY: base64.b64encode(key).decode()}',
        'secret["data"] = {ENTRY: base64.b64encode(key).decode()}',
        KEYS + "test_the_key_is_made_beside_an_authority_that_is_there",
    ),
    Guard(  # a leftover of NFD's worker is no report, while ours may be on its way
        "nfd/master/node/outcome.py",
        "if owned.hint and not one.kept and (one.namespace, one.name) not in known.changing:",
        "if False:",
        HANDED + "test_an_object_that_may_be_a_leftover_takes_no_label_until_it_changes",
    ),
    Guard(  # a Node of third parties alone is one by what is on it
        "nfd/master/node/outcome.py",
        "return not any(plan_node(Goal(desired, policy=joining.policy), node).changes.values())",
        "return True",
        HANDED + "test_a_node_that_says_of_itself_that_no_worker_ever_spoke_is_not_believed",
    ),
    Guard(  # a blank boot id is unknown, not another one
        "nfd/master/reports/store.py",
        'another = order is None or node.boot_id not in ("", order.boot_id)',
        "another = order is None or node.boot_id != order.boot_id",
        STATES + "test_recreated_node_that_names_no_boot_yet_is_no_other_one",
    ),
    Guard(  # and is looked at again when it is known
        "nfd/master/reports/store.py",
        "if node.boot_id or not kept.uid:",
        "if True:",
        STATES + "test_recreated_node_that_names_another_boot_a_moment_later_waits_for_its_worker",
    ),
)
