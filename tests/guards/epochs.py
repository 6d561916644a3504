"""Guards of the epoch, with which a leader without reports asks for them."""

from __future__ import annotations

from tests.guards.guard import Guard

FILE = "tests/worker/test_report_request_file.py::"
LEADERS = "tests/faults/test_epoch.py::"

EPOCHS = (
    Guard(  # what a worker reads first is no change
        "nfd/worker/report_request_file.py",
        "if found is None or (self._seen is not None and found.identity == self._seen.identity):",
        "if found is None:",
        FILE + "test_only_a_changed_id_asks",
    ),
    Guard(  # whoever changes it often gets one report in five minutes
        "nfd/worker/report_request_file.py",
        "at = max(time.monotonic() + random.uniform(0, found.spread), self._earliest)",
        "at = time.monotonic() + random.uniform(0, found.spread)",
        FILE + "test_two_early_reports_are_five_minutes_apart",
    ),
    Guard(  # a fleet does not report at once
        "nfd/worker/report_request_file.py",
        "random.uniform(0, found.spread)",
        "0",
        FILE + "test_reports_are_spread",
    ),
    Guard(  # a leader that knows enough does not ask
        "nfd/master/reports/request_reports.py",
        "if unknown <= nodes * FEW:",
        "if not nodes:",
        LEADERS + "test_who_knows_enough_does_not_ask",
    ),
    Guard(  # a rotation of certificates asks nobody
        "nfd/master/security/certificates.py",
        'config_map["data"] = kept | {BUNDLE: trusted}',
        'config_map["data"] = {BUNDLE: trusted}',
        LEADERS + "test_certificates_and_epoch_share_the_map",
    ),
)
