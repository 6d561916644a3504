"""Fixtures for all tests; the control plane starts when the first test asks for it."""

import logging
import os
import resource
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from nfd.runtime.signals import Signals
from tests.children import ends_of_logs

pytest_plugins = ["tests.controlplane.fixtures"]

ROOT = logging.getLogger()
BEGAN = pytest.StashKey[float]()
LOGGERS = ("", "nfd", "gfd")
LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE)
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM)


# A busy machine is no defect of what is tested: by itself Hypothesis fails an example of 0.2 s, and slow generation.
settings.register_profile("any load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any load")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-expected", action="store_true", help="rewrite tests/hosts/*/expected with what is found now"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure tells what programs that run beside the test have logged during it."""
    report = yield
    began = item.stash.setdefault(BEGAN, call.start)
    if report.failed:
        report.sections += [(f"log of {name}", text) for name, text in ends_of_logs(began)]
    return report


@pytest.fixture(autouse=True)
def process_unchanged() -> Iterator[None]:
    """What belongs to the whole process is after a test what it was before: the tests after it run in it too.

    A change is undone, so that the test which made it is the one that fails.
    """
    before = {name: read() for name, (read, _) in PARTS.items()}
    yield
    changed = []
    for name, (read, write) in PARTS.items():
        if (now := read()) != before[name]:
            changed.append(f"{name}: {_difference(before[name], now)}")
            write(before[name])
    assert not changed, f"the test changed the process it shares with others: {changed}"


@pytest.fixture
def signals() -> Iterator[Signals]:
    with closing(Signals()) as caught:
        yield caught


def _difference(before: Any, now: Any) -> str:
    if isinstance(before, dict):
        keys = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
        before, now = ({key: values.get(key) for key in keys} for values in (before, now))
    return f"{before} became {now}"


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def _restore_environment(before: dict[str, str]) -> None:
    for name in _environment().keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


def _handlers(handlers: list[logging.Handler]) -> None:
    ROOT.handlers[:] = handlers


def _levels(levels: dict[str, int]) -> None:
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def _limits(limits: dict[int, tuple[int, int]]) -> None:
    for number, limit in limits.items():
        resource.setrlimit(number, limit)


def _signals(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


PARTS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "handlers of the log": (lambda: sorted(ROOT.handlers, key=id), _handlers),
    "levels of the log": (lambda: {name: logging.getLogger(name).level for name in LOGGERS}, _levels),
    "limits": (lambda: {number: resource.getrlimit(number) for number in LIMITS}, _limits),
    "signals": (lambda: {number: signal.getsignal(number) for number in SIGNALS}, _signals),
    "current folder": (os.getcwd, os.chdir),
    "environment": (_environment, _restore_environment),
}
