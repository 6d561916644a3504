"""An output that cannot be opened between two passes."""

from __future__ import annotations

import pytest

from gfd.agent import Agent, make_run
from gfd.options import Loaded, parse_options
from gfd.output import Output
from nfd.errors import KubeError
from nfd.host import Host
from nfd.runtime.signals import Signals


def test_the_wait_goes_on_without_an_output(signals: Signals, caplog: pytest.LogCaptureFixture) -> None:
    """The cluster is away, and the first pass ended before it asked for the cluster."""

    def refuse(loaded: Loaded) -> Output:
        raise KubeError("the cluster is away")

    choice, host = parse_options(["--sleep-interval=50ms"], {}), Host("/")
    loaded = choice.load()
    Agent(host, choice, make_run(loaded, host.now()), refuse, signals)._wait()
    (line,) = [one for one in caplog.records if one.getMessage() == "cannot write labels"]
    assert line.__dict__["fields"]["error"] == "the cluster is away"
