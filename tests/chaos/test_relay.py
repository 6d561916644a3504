"""The network between pods: what is dropped, refused, reset or slow, seen from both ends of a connection."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.chaos.relay import BOTH, Network, Relay, Way

PATIENCE = 5.0
SILENCE = 0.3


class Echo:
    """A server that answers what it gets."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.taken = b""
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            with link:
                try:
                    while data := link.recv(65536):
                        self.taken += data
                        link.sendall(data)
                except OSError:
                    continue


@pytest.fixture
def echo() -> Iterator[Echo]:
    found = Echo()
    yield found
    found.close()


@pytest.fixture
def relay(echo: Echo) -> Iterator[Relay]:
    network = Network()
    yield Relay(network, "127.0.0.1", 0, lambda: [("127.0.0.1", echo.port)], 0)
    network.close()


def connect(relay: Relay) -> socket.socket:
    return socket.create_connection(("127.0.0.1", relay.port), timeout=PATIENCE)


def answers(link: socket.socket, data: bytes = b"x", within: float = PATIENCE) -> bool:
    """Whether it comes back; an end of the connection is an OSError."""
    link.settimeout(within)
    link.sendall(data)
    found = b""
    try:
        while len(found) < len(data):
            if not (more := link.recv(65536)):
                raise ConnectionResetError
            found += more
    except TimeoutError:
        return False
    return found == data


def test_what_is_sent_comes_back(relay: Relay) -> None:
    with connect(relay) as link:
        assert answers(link)


@pytest.mark.parametrize(("ways", "taken"), [(BOTH, b""), ({Way.OUT}, b""), ({Way.BACK}, b"x")])
def test_what_is_dropped_in_one_direction_goes_through_in_the_other(
    ways: frozenset[Way], taken: bytes, relay: Relay, echo: Echo
) -> None:
    with connect(relay) as link:
        relay.fail(silent=True, ways=ways)
        assert not answers(link, within=SILENCE)
        assert echo.taken == taken
        relay.mend()
        with pytest.raises(ConnectionError):
            answers(link)
    with connect(relay) as link:
        assert answers(link)


def test_connections_are_reset_and_refused(relay: Relay) -> None:
    with connect(relay) as link:
        assert answers(link)
        relay.fail(silent=False)
        with pytest.raises(ConnectionError):
            answers(link)
    with connect(relay) as link, pytest.raises(ConnectionError):
        answers(link)
    relay.mend()
    with connect(relay) as link:
        assert answers(link)


def test_a_reset_lasts_no_longer_than_the_connection(relay: Relay) -> None:
    with connect(relay) as link:
        assert answers(link)
        relay.reset()
        with pytest.raises(ConnectionError):
            answers(link)
    with connect(relay) as link:
        assert answers(link)


def test_a_slow_network_has_a_rate_and_a_delay(relay: Relay) -> None:
    with connect(relay) as link:
        assert answers(link)
        relay.slow(rate=20_000)
        began = time.monotonic()
        assert answers(link, bytes(10_000))
        relay.slow(delay=0.2)
        assert time.monotonic() - began > 0.4
        began = time.monotonic()
        assert answers(link)
        assert time.monotonic() - began >= 0.4
        relay.slow()
        assert answers(link)
