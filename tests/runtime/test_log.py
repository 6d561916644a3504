"""Log lines: text on a terminal, JSON elsewhere."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from nfd.errors import ConfigError
from nfd.runtime import log


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("nfd")
    before = (root.handlers[:], root.level, ours.level)
    yield
    root.handlers[:], root.level, ours.level = before


def test_json_lines_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    log.setup(stream=stream)
    log.get("worker").info("node updated", node="n1", written=3, seconds=1.5, label=None, event="x")
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "nfd.worker",
        "event": "node updated",
        "node": "n1",
        "written": 3,
        "seconds": 1.5,
    }


def test_text_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    log.setup(stream=stream)
    log.get("worker").warning("source failed", source="pci", error='says "no"')
    assert "\x1b[33m" in stream.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    log.setup(stream=plain)
    log.get("worker").warning("source failed", source="pci", error='says "no"', path="")
    assert plain.getvalue()[9:] == 'warning source failed  source=pci error="says \\"no\\"" path=""\n'


def test_foreign_text_forges_no_line() -> None:
    for form in ("text", "json"):
        stream = io.StringIO()
        log.setup(form=form, stream=stream)
        log.get().error("bad\nevent", path="a\nb\x1b[31m", error="\udcff")
        assert stream.getvalue().count("\n") == 1
        assert "\x1b" not in stream.getvalue()


def test_levels() -> None:
    stream = io.StringIO()
    log.setup("warning", "text", stream)
    ours = log.get("x")
    ours.info("not seen")
    logging.getLogger("library").info("not seen")
    logging.getLogger("library").warning("seen %s", "too")
    assert stream.getvalue()[9:] == "warning seen too\n"
    log.setup("debug", "text", stream)
    ours.debug("seen")
    assert stream.getvalue().endswith("debug   seen\n")


def test_a_traceback_on_request() -> None:
    stream = io.StringIO()
    log.setup(form="json", stream=stream)
    try:
        raise ValueError("x")
    except ValueError as error:
        log.get().exception("defect", error, source="pci")
    assert "ValueError: x" in json.loads(stream.getvalue())["traceback"]


def test_text_of_any_length_stays_one_line_of_a_container_runtime() -> None:
    for form in ("text", "json"):
        for long in ("ä" * 60_000, ValueError("ä" * 60_000)):
            stream = io.StringIO()
            log.setup(form=form, stream=stream)
            log.get("master").warning("report rejected", node="n", error=long)
            assert len(stream.getvalue().encode()) < 16_384
            assert "… (60000 characters) …" in stream.getvalue()


def test_the_last_line_of_a_program_keeps_place_and_reason(capsys: pytest.CaptureFixture[str]) -> None:
    log.complain("nfd-worker", ConfigError(f"c:3: flags.a: '{'ä' * 200_000}\n' is none of b, c"))
    line = capsys.readouterr().err
    assert line.startswith("nfd-worker: c:3: flags.a: 'ä")
    assert line.endswith("ä\\n' is none of b, c\n")
    assert len(line) < 4100
    assert len(line.splitlines()) == 1


def test_a_closed_standard_error_moves_no_line_to_standard_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", None)
    log.complain("nfd-worker", ConfigError("c: nothing fits"))
    assert capsys.readouterr().out == ""
