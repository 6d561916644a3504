"""Masters of a neighbouring release, and snapshots that are not as a master has left them."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from nfd.features import Features
from nfd.master.node.proof import KEY_SIZE, Proof
from nfd.master.reports.snapshot import FORMAT, Snapshot
from nfd.master.reports.store import ReportStore
from nfd.report import Report
from nfd.report_order import Order
from nfd.rpc.replication_messages import Copy, Decoder, Digests, Encoder
from tests.chaos.master import LATER_SNAPSHOT, RELEASES, known_before, version_of
from tests.chaos.snapshots import ANOTHER, EARLIER, WAYS, earlier, spoil
from tests.children import run

REPORT = Report("n", order=Order("boot", 5, 1), labels={"a": "1"}, features=Features(attributes={"f.a": {"v": "1"}}))
ENCODE = """
import sys
from tests.chaos.master import _speak_later_protocol
_speak_later_protocol()
from nfd.master.reports import send_copies, snapshot
from nfd.rpc import master_calls
from nfd.rpc.replication_messages import Copy, Digests
from tests.chaos.test_skew import REPORT
copies = send_copies.Encoder(Digests()).encode(iter((Copy(REPORT, "uid"),)), complete=True)
print(copies.hex(), master_calls.encode_received(3).hex(), snapshot.FORMAT.hex())
"""


@pytest.mark.parametrize(("current", "older", "newer"), [("1.0.0rc1", "0.9.0", "1.1.0"), ("2.7.3", "2.6.0", "2.8.0")])
def test_neighbours_are_one_minor_release_away(current: str, older: str, newer: str) -> None:
    assert [version_of(release, current) for release in RELEASES] == [older, current, newer]


def test_the_older_release_has_fewer_flags() -> None:
    words = ["-port=1", "--replication-token-file=x", "--snapshot-file=y", "-config="]
    assert known_before(words) == ["-port=1", "-config="]


def test_this_release_reads_what_the_newer_one_says() -> None:
    done = run([sys.executable, "-c", ENCODE], timeout=60)
    copies, received, first_line = map(bytes.fromhex, done.stdout.split())
    message = Decoder().decode(copies)
    assert [(one.report, one.uid) for one in message.copies] == [(REPORT, "uid")]
    assert (message.complete, message.unusable) == (True, 0)
    plain = Encoder(Digests()).encode(iter((Copy(REPORT, "uid"),)), complete=True)
    assert len(copies) > len(plain) + 3 * 8
    assert len(received) > 8
    assert first_line == LATER_SNAPSHOT


async def written(file: Path, proof: Proof, *nodes: str) -> None:
    """A snapshot with a report of each of these nodes."""
    reports = ReportStore()
    for name in nodes:
        reports.take(Report(name, order=Order("boot", 5, 1)), None, "")
    await Snapshot(file, reports, proof)._write()


@pytest.mark.parametrize("way", WAYS)
async def test_a_spoilt_snapshot_is_ignored_unless_a_master_has_written_it(way: str, tmp_path: Path) -> None:
    proof = Proof(b"k" * KEY_SIZE)
    file, other = tmp_path / "reports", tmp_path / "other"
    await written(file, proof, "n", "m")
    await written(other, proof, "another")
    await written(earlier(file), proof, "earlier")
    WAYS[way](file, other)
    found = [one.report.node for one in Snapshot(file, ReportStore(), proof).load(lambda key: None)]
    assert found == {ANOTHER: ["another"], EARLIER: ["earlier"]}.get(way, [])
    await written(file, proof, "n")
    assert not file.is_symlink()
    assert [one.report.node for one in Snapshot(file, ReportStore(), proof).load(lambda key: None)] == ["n"]


async def test_only_what_is_there_is_put_in_place_and_a_copy_is_kept(tmp_path: Path) -> None:
    file, proof = tmp_path / "reports", Proof(b"k" * KEY_SIZE)
    done = set()
    for seed in range(100):
        earlier(file).unlink(missing_ok=True)
        await written(file, proof, "n")
        before = file.read_bytes()
        done.add(spoil(file, tmp_path / "other", random.Random(seed)))
        assert earlier(file).read_bytes() == before
    assert done == WAYS.keys() - {ANOTHER, EARLIER}
    assert before.startswith(FORMAT)
