"""Guards of trust: who is calling, and what those may do whom nobody knows."""

from __future__ import annotations

from tests.guards.guard import Guard

ORDER = "tests/master/test_order.py::"
IDENTIFYING = "tests/host/test_identifiers.py::"
TURNS = "tests/kube/test_token_review_queue.py::"
CALLERS = "tests/master/test_names_of_callers.py::"
RECORDINGS = "tests/host/test_strangers_recordings.py::"

TRUST = (
    Guard(  # a recording sets none of our variables
        "nfd/host/replay.py",
        "for name, value in record.environment.items() if name in RECORDED_VARIABLES}",
        "for name, value in record.environment.items()}",
        RECORDINGS + "test_a_recording_sets_no_other_variable",
    ),
    Guard(  # what people wrote is given away only as far as it is known to be harmless
        "nfd/host/scrub_files.py",
        "if path == _CMDLINE or not _WRITTEN.fullmatch(path):",
        "if path == _CMDLINE:",
        IDENTIFYING + "test_files_that_people_write",
    ),
    Guard(  # and no two texts become one
        "nfd/host/pseudonyms.py",
        "if fresh != text and fresh not in self._taken and not _STAYS.fullmatch(fresh):",
        "if fresh != text and not _STAYS.fullmatch(fresh):",
        IDENTIFYING + "test_replacements_are_one_to_one",
    ),
    Guard(  # nor does it have a device opened
        "nfd/host/replay.py",
        "if found is not None and not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):",
        "if False:",
        RECORDINGS + "test_devices_and_pipes_are_not_opened",
    ),
    Guard(  # nor the running machine looked at
        "nfd/cli/plan/recorded.py",
        "if inside and not one.resolve().is_relative_to(folder.resolve()):",
        "if False:",
        RECORDINGS + "test_no_link_leads_out",
    ),
    Guard(  # another pod begins anew, so that none shuts out the next
        "nfd/report_order.py",
        "if self.pod and before.pod and self.pod != before.pod and self.issued > before.issued:",
        "if False:",
        ORDER + "test_no_pod_shuts_out_the_next_one",
    ),
    Guard(  # but only with a later token
        "nfd/report_order.py",
        "self.pod != before.pod and self.issued > before.issued:",
        "self.pod != before.pod:",
        ORDER + "test_which_report_is_older",
    ),
    Guard(  # who failed waits for who did not
        "nfd/kube/token_review_queue.py",
        "self._count(askers, bad=isinstance(error, Forbidden))",
        "pass",
        TURNS + "test_who_failed_waits_for_who_did_not",
    ),
    Guard(  # who was turned away goes first
        "nfd/kube/token_review_queue.py",
        "            self._count(askers, turned_away=1)\n",
        "",
        TURNS + "test_who_was_turned_away_goes_first_when_it_comes_again",
    ),
    Guard(  # what the cluster did not sign costs no question
        "nfd/kube/jwt.py",
        "return Verdict.GENUINE if _is_signed(key, token) else Verdict.FORGED",
        "return Verdict.GENUINE",
        "tests/kube/test_token_reviews.py::test_made_up_tokens_cost_no_question",
    ),
    Guard(  # genuine tokens have turns of their own
        "nfd/kube/token_reviews.py",
        "turn = self._genuine.turn(uid)",
        "turn = self._unknown.turn(sender, uid)",
        "tests/kube/test_token_reviews.py::test_no_strangers_failure_uses_up_an_honest_callers_turn",
    ),
    Guard(  # readers that the API server knows have turns of their own
        "nfd/kube/token_reviews.py",
        "turn = self._known.turn(claimed or digest.hex())",
        'turn = self._unknown.turn(sender, f"{sender} {claimed}")',
        "tests/kube/test_access.py::test_made_up_tokens_use_up_nobodys_turn",
    ),
    Guard(  # a token's own claims count for the pod that it was reviewed as
        "nfd/kube/token_reviews.py",
        'return jwt.seconds(token.claims.get("iat")) if _pod_of(token) == pod.uid else 0.0',
        'return jwt.seconds(token.claims.get("iat"))',
        ORDER + "test_when_a_token_was_issued",
    ),
    Guard(  # what no clock reaches would shut out every later report
        "nfd/rpc/convert.py",
        "    if problem := order.problem():\n",
        '    if problem := "":\n',
        ORDER + "test_values_that_no_clock_reaches_are_refused",
    ),
    Guard(  # a worker's account is a service account
        "nfd/kube/token_reviews.py",
        "legal = user.startswith(_ACCOUNT) and not",
        "legal = not",
        CALLERS + "test_no_other_user_is_one",
    ),
)
