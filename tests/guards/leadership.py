"""Guards of the rule that one master writes, and no other does."""

from __future__ import annotations

from tests.guards.guard import Guard

LEADERS = "tests/faults/test_leaders.py::"
RULES = "tests/faults/test_leaders_and_rules.py::"
CLOCK = "tests/faults/test_lease_clock.py::"
FORWARDING = "tests/faults/test_forwarding.py::"

LEADERSHIP = (
    Guard(  # early: nothing begins
        "nfd/kube/client.py",
        "        self.fence.check()\n        limit",
        "        limit",
        RULES + "test_who_does_not_lead_does_not_even_connect",
    ),
    Guard(  # late: nothing that waited goes out
        "nfd/kube/client.py",
        "        self._fence.check()\n        await super()",
        "        await super()",
        LEADERS + "test_what_waits_for_its_connection_is_not_sent_once_we_lead_no_more",
    ),
    Guard(  # the server drops what comes too late
        "nfd/kube/client.py",
        "return {**request.query, **limit}, _Fenced",
        "return {**request.query}, _Fenced",
        LEADERS + "test_what_waits_for_its_connection_is_not_sent_once_we_lead_no_more",
    ),
    Guard(
        "nfd/master/service.py",
        "if self._leads.is_set():\n                    written",
        "if True:\n                    written",
        RULES + "test_a_follower_does_nothing",
    ),
    Guard(
        "nfd/master/rules/status_writer.py",
        "            await leads.wait()\n",
        "",
        RULES + "test_a_follower_does_nothing",
    ),
    Guard("nfd/master/rules/status_writer.py", "fenced=True", "fenced=False", RULES + "test_statuses_are_fenced"),
    Guard(  # the lease goes only when nothing of ours is under way
        "nfd/master/service.py",
        "lease.stop(release=finished)",
        "lease.stop(release=True)",
        RULES + "test_the_lease_is_not_released_while_a_pass_is_under_way",
    ),
    Guard(  # and then it goes at once
        "nfd/master/service.py",
        "lease.stop(release=finished)",
        "lease.stop(release=False)",
        LEADERS + "test_sigterm_hands_over_at_once",
    ),
    Guard(  # what a follower has heard may be old
        "nfd/master/service.py",
        "            await self._replace_resources(self._make_resources)\n        if term",
        "            pass\n        if term",
        "tests/faults/test_taking_over_rules.py::test_a_new_leader_lists_rules_and_objects_anew",
    ),
    Guard(
        "nfd/master/service.py",
        "                self._handler.clear()\n",
        "                pass\n",
        LEADERS + "test_what_a_deposed_leader_knows_is_forgotten",
    ),
    Guard(  # a report that was not written is not answered as if it were
        "nfd/master/reports/accept_reports.py",
        "        self._leadership.require()\n        node =",
        "        node =",
        LEADERS + "test_a_report_that_a_deposed_leader_could_not_write_is_not_answered",
    ),
    Guard(  # the deadline counts from before the renewal was sent
        "nfd/kube/leader_election.py",
        'self._until = began + self._timing.deadline if spec["holderIdentity"] else 0.0',
        'self._until = self._now() + self._timing.deadline if spec["holderIdentity"] else 0.0',
        CLOCK + "test_the_deadline_counts_from_before_the_renewal",
    ),
    Guard(  # leadership ends by our clock
        "nfd/kube/leader_election.py",
        "return self._now() < self._until",
        "return self._until > 0",
        CLOCK + "test_a_leader_without_api_server_stops_in_time",
    ),
    Guard(  # and that of others by ours too
        "nfd/kube/leader_election.py",
        "return self._now() - self._seen_at > seconds",
        "return True",
        LEADERS + "test_leases_go_by_our_own_clock",
    ),
    Guard(
        "nfd/kube/leader_election.py",
        "            self._until = 0.0  # from here on anybody can make one\n",
        "",
        CLOCK + "test_a_lease_that_is_said_to_be_missing_is_ours_no_more",
    ),
    Guard(
        "nfd/kube/leader_election.py",
        "        if not self._is_ours():\n            self._until = 0.0\n",
        "",
        LEADERS + "test_a_lease_that_somebody_took_or_deleted",
    ),
    Guard(  # a call is passed on once
        "nfd/rpc/server.py",
        " or caller.peer.forwarded:",
        ":",
        LEADERS + "test_hints_that_lead_in_a_circle_end",
    ),
    Guard(  # only masters pass on
        "nfd/master/security/authentication.py",
        "if peer.forwarded and self._is_master(peer):",
        "if peer.forwarded:",
        FORWARDING + "test_over_mutual_tls_with_verified_node_names",
    ),
)
