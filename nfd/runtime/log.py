"""Logs: a constant phrase with fields, as text on a terminal and as JSON lines elsewhere, always on stderr.

    log = get("worker")
    log.info("node updated", node=name, written=3, removed=1)

Fields come from one list: node source feature label rule path task error seconds, and plain counts. *error*: a person
must act; *warning*: the program continues with less; *info*: something changed; *debug*: a pass ran. `setup` is called
once, by a program; without it only warnings and errors are seen. Libraries that log through `logging` come out in the
same form.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import traceback
from types import TracebackType
from typing import TextIO

from nfd.errors import said
from nfd.message_text import shortened, visible

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
FORMATS = ("auto", "text", "json")
FRAMES = 30
"""Calls that a traceback shows at most."""

_ROOT = "nfd"
_COLOURS = {logging.DEBUG: "\x1b[2m", logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m"}
_Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
_DIM, _RESET = "\x1b[2m", "\x1b[0m"


class Log:
    """A named logger; a field whose value is None is left out."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, event: str, /, **fields: object) -> None:
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        self._log(logging.ERROR, event, fields)

    def exception(self, event: str, raised: BaseException, /, **fields: object) -> None:
        """An error, with the traceback of what was raised: for defects, not for what is foreseen."""
        self._log(logging.ERROR, event, fields, raised)

    def _log(self, level: int, event: str, fields: dict[str, object], raised: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", event, exc_info=raised, extra={"fields": fields})


def get(name: str = "") -> Log:
    """The logger of one part of the program, such as `worker`."""
    return Log(logging.getLogger(f"{_ROOT}.{name}" if name else _ROOT))


def setup(level: str = "info", form: str = "auto", stream: TextIO | None = None) -> None:
    """Send every log line to `stream` (stderr, nowhere if that is closed). May be called again, after a reload.

    `form` is `text`, `json`, or `auto`: text on a terminal, JSON elsewhere. Colours appear on a terminal only, and not
    if the environment variable NO_COLOR is set.
    """
    out = sys.stderr if stream is None else stream
    terminal = out is not None and out.isatty()
    handler = logging.NullHandler() if out is None else logging.StreamHandler(out)
    if form == "json" or (form == "auto" and not terminal):
        handler.setFormatter(_Json())
    else:
        handler.setFormatter(_Text(colour=terminal and not os.environ.get("NO_COLOR")))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(_ROOT).setLevel(LEVELS[level])


def complain(program: str, error: Exception) -> None:
    """The one line on standard error that a program ends with; nowhere if that is closed."""
    if sys.stderr is not None:
        sys.stderr.write(f"{program}: {shortened(visible(said(error)))}\n")


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = getattr(record, "fields", {})
    return {name: _short(value) for name, value in fields.items() if value is not None}


def _short(value: object) -> object:
    text = said(value) if isinstance(value, Exception) else value
    return shortened(text) if isinstance(text, str) else value


class _Json(logging.Formatter):
    """One object a line: `time` (UTC, milliseconds), `level`, `logger`, `event`, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= {name: value for name, value in _fields(record).items() if name not in line}
        if record.exc_info:
            line["traceback"] = _trace(record.exc_info)
        return json.dumps(line, default=_plain, ensure_ascii=False)


class _Text(logging.Formatter):
    """`12:00:01 warning source failed  source=pci error="…"`, local time."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%H:%M:%S", time.localtime(record.created))
        level = f"{record.levelname.lower():7}"
        event = visible(record.getMessage())
        fields = " ".join(f"{name}={_quoted(_plain(value))}" for name, value in _fields(record).items())
        if self._colour:
            stamp, level = f"{_DIM}{stamp}{_RESET}", f"{_COLOURS.get(record.levelno, '')}{level}{_RESET}"
            fields = fields and f"{_DIM}{fields}{_RESET}"
        line = f"{stamp} {level} {event}" + (f"  {fields}" if fields else "")
        return f"{line}\n{_trace(record.exc_info)}" if record.exc_info else line


def _trace(raised: _Raised) -> str:
    """Of a deep recursion the end."""
    return "".join(traceback.format_exception(*raised, limit=-FRAMES)).rstrip()


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(sorted(map(str, value)) if isinstance(value, set | frozenset) else map(str, value))
    return str(value)


def _quoted(text: str) -> str:
    text = visible(text)
    return text if text and not any(c in text for c in ' "=') else json.dumps(text, ensure_ascii=False)
