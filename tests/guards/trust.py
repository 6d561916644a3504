"""Guards of trust: who is calling, and what those may do whom nobody knows."""

from __future__ import annotations

from tests.guards.guard import Guard

ORDER = "tests/master/test_order.py::"
CALLERS = "tests/master/test_names_of_callers.py::"
RECORDINGS = "tests/host/test_strangers_recordings.py::"

TRUST = (
    Guard(  # a recording sets none of our variables
        "nfd/host/replay.py",
        "for name, value in record.environment.items() if name in RECORDED_VARIABLES}",
        "for name, value in record.environment.items()}",
        RECORDINGS + "test_a_recording_sets_no_other_variable",
    ),
    Guard(  # nor does it have a device opened
        "nfd/host/replay.py",
        "if found is not None and not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):",
        "if False:",
        RECORDINGS + "test_devices_and_pipes_are_not_opened",
    ),
    Guard(  # nor the running machine looked at
        "nfd/cli/offline.py",
        "if inside and not one.resolve().is_relative_to(folder.resolve()):",
        "if False:",
        RECORDINGS + "test_no_link_leads_out",
    ),
    Guard(  # another pod begins anew, so that none shuts out the next
        "nfd/report.py",
        "if self.pod and before.pod and self.pod != before.pod and self.issued > before.issued:",
        "if False:",
        ORDER + "test_no_pod_shuts_out_the_next_one",
    ),
    Guard(  # but only with a later token
        "nfd/report.py",
        "self.pod != before.pod and self.issued > before.issued:",
        "self.pod != before.pod:",
        ORDER + "test_which_report_is_older",
    ),
    Guard(  # a token's own claims count for the pod that it was reviewed as
        "nfd/kube/tokens.py",
        'if not isinstance(named, Mapping) or named.get("uid") != pod.uid:',
        "if not isinstance(named, Mapping):",
        ORDER + "test_when_a_token_was_issued",
    ),
    Guard(  # what no clock reaches would shut out every later report
        "nfd/rpc/convert.py",
        "    if problem := order.problem():\n",
        '    if problem := "":\n',
        ORDER + "test_values_that_no_clock_reaches_are_refused",
    ),
    Guard(  # a worker's account is a service account
        "nfd/kube/tokens.py",
        "legal = user.startswith(_ACCOUNT) and not",
        "legal = not",
        CALLERS + "test_no_other_user_is_one",
    ),
)
