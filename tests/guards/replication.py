"""Guards of the reports that masters share."""

from __future__ import annotations

from tests.guards.guard import Guard

SHARING = "tests/faults/test_replication.py::"
FILE = "tests/master/test_snapshot.py::"
COPIES = "tests/rpc/test_replication_messages.py::"

REPLICATION = (
    Guard(  # a worker gets no other node's report
        "nfd/master/security/authentication.py",
        "if pod.account != self._account:",
        "if False:",
        SHARING + "test_only_masters_get_reports",
    ),
    Guard(  # nor does a worker with the masters' account
        "nfd/master/security/setup.py",
        "if account in worker_accounts:",
        "if False:",
        SHARING + "test_a_token_that_must_not_be_used_ends_the_start",
    ),
    Guard(  # the token for the API server goes to no other master
        "nfd/master/security/setup.py",
        "if token is None or audience not in (MASTERS_AUDIENCE, [MASTERS_AUDIENCE]):",
        "if token is None:",
        SHARING + "test_a_token_that_must_not_be_used_ends_the_start",
    ),
    Guard(  # no authority is none of the system's
        "nfd/rpc/master_calls.py",
        "if not (pem.masters_ca or pem.ca):",
        "if False:",
        SHARING + "test_a_leader_with_a_certificate_of_another_authority_gets_no_token",
    ),
    Guard(  # a report that only this master has may be lost with it
        "nfd/master/reports/accept_reports.py",
        "safe = await self.followers.known(name) and safe",
        "pass",
        SHARING + "test_a_worker_whose_report_no_other_master_has_is_asked_again_soon",
    ),
    Guard(  # what comes in while the leader ends is handed over too
        "nfd/master/reports/accept_reports.py",
        "            self.followers.note(report.node)\n",
        "            pass\n",
        SHARING + "test_a_follower_has_every_report_and_takes_over_with_it",
    ),
    Guard(  # the names of blobs come from their bytes
        "nfd/rpc/replication_messages.py",
        "            key = digest(blob)\n",
        "            key = digest(blob.replace(b'2', b'1'))\n",
        COPIES + "test_a_changed_blob_spoils_only_the_reports_that_name_it",
    ),
    Guard(  # a file that somebody else wrote is none of a master
        "nfd/master/reports/snapshot.py",
        "if not proof.lasting or not hmac.compare_digest(proof.seal(content), seal):",
        "if False:",
        FILE + "test_what_is_damaged_or_foreign_is_ignored",
    ),
    Guard(  # nor is one behind a link
        "nfd/master/reports/snapshot.py",
        " | os.O_NOFOLLOW",
        "",
        FILE + "test_a_file_that_others_may_have_made_is_not_read",
    ),
    Guard(
        "nfd/master/reports/snapshot.py",
        "if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:",
        "if False:",
        FILE + "test_a_file_that_others_may_have_made_is_not_read",
    ),
)
