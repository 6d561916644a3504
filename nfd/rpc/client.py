"""The client of the Labeler API: connect, deliver one report, close.

An idle TLS connection costs the master memory and both sides CPU, so a connection lasts for one report. The first call
names features by digest. If the master lacks some, a second call on the same connection sends those. A server without
the `Report` method is NFD 0.16 or older and gets the whole report through `SetLabels`.

Requests are compressed: their keys share prefixes, and compression makes a heartbeat four times smaller.

The token that identifies this pod is sent only with `Report`, over TLS or on loopback.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from nfd.config.named_files import read_bytes
from nfd.errors import ReportError, said
from nfd.report import Reply, Report
from nfd.rpc import LEADER, SERVICE, convert, host_of, is_loopback, seconds_to_wait
from nfd.rpc.tls import TlsFiles

MAX_HOPS = 2
MAX_ROUNDS = 3
"""Calls for one report: the master may answer with missing digests again if it dropped a feature between two calls."""

Metadata = tuple[tuple[str, str], ...]

_PERMANENT = frozenset({
    "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "FAILED_PRECONDITION", "OUT_OF_RANGE",
    "UNIMPLEMENTED",
})  # fmt: skip
"""Statuses that the same report would get again."""


@dataclass(frozen=True, slots=True)
class Reporter:
    """Delivers reports to `server` (`host:port`).

    `server_name` is the name that the server's certificate must have, if not the host's. `heartbeat` is the interval in
    seconds for a server that sets none. `deadline` limits each call, connecting included, in seconds. `token_file`
    holds a bearer token and is read for each connection: the kubelet renews it long before it expires.
    """

    server: str
    heartbeat: float = 60.0
    tls: TlsFiles | None = None
    server_name: str = ""
    deadline: float = 10.0
    token_file: str = ""
    digests: convert.Digests = field(default_factory=dict, compare=False, repr=False)
    """Digests of the features that were sent last. Pass them to the next Reporter."""

    def send(self, report: Report) -> Reply:
        """Deliver a report. If the master names another one as leader, call that. Raises: ReportError."""
        outgoing = convert.encode(report, self.digests)
        target = self.server
        for hop in range(MAX_HOPS + 1):
            try:
                credentials = self._token(target)
                with self._connect(target) as channel:
                    return self._deliver(channel, report, outgoing, credentials)
            except grpc.RpcError as error:
                failure = _failure(error, target)
                if not failure.leader or hop == MAX_HOPS:
                    raise failure from error
                target = failure.leader
        raise AssertionError("the last hop returns or raises")

    @contextmanager
    def _connect(self, target: str) -> Iterator[Any]:
        """A new channel, which shares no subchannel and no back-off with that of the last report."""
        options: list[tuple[str, Any]] = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
        if self.tls is None:
            channel = grpc.insecure_channel(target, options)
        else:
            name = self.server_name or (host_of(self.server) if target != self.server else "")
            if name:
                options.append(("grpc.ssl_target_name_override", name))
            try:
                pem = self.tls.read()
                channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(pem.ca, pem.key, pem.cert), options)
            except OSError as error:
                raise ReportError(f"TLS files: {said(error)}", retry=True) from error
        try:
            yield channel
        finally:
            channel.close()

    def _token(self, target: str) -> Metadata:
        """Metadata with the token. Raises: ReportError if the token cannot be read."""
        if not self.token_file or (self.tls is None and not is_loopback(host_of(target))):
            return ()
        try:
            token = read_bytes(self.token_file).decode("ascii").strip()
        except (OSError, ValueError) as error:
            raise ReportError(f"token: {said(error)}", retry=True) from error
        if not token.isprintable() or not token:
            raise ReportError(f"token: {self.token_file} is empty", retry=True)
        return (("authorization", f"Bearer {token}"),)

    def _deliver(self, channel: Any, report: Report, outgoing: convert.Outgoing, credentials: Metadata) -> Reply:
        call = channel.unary_unary(f"/{SERVICE}/Report")
        request = outgoing.request
        for _ in range(MAX_ROUNDS):
            try:
                reply = call(request, timeout=self.deadline, metadata=credentials, compression=grpc.Compression.Gzip)
                answer = convert.decode_answer(reply)
            except ValueError as error:
                raise ReportError(f"{self.server}: {error}", retry=True) from error
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                    raise
                channel.unary_unary(f"/{SERVICE}/SetLabels")(convert.encode_plain(report), timeout=self.deadline)
                return Reply(heartbeat=self.heartbeat)
            if not answer.missing:
                return Reply(answer.heartbeat, answer.node_labels)
            request = outgoing.with_blobs(answer.missing)
        raise ReportError(f"{self.server}: still reports missing features after they were sent", retry=True)


def _failure(error: Any, target: str) -> ReportError:
    """Translate a gRPC failure."""
    code = error.code().name
    trailers = {key: value for key, value in error.trailing_metadata() or () if isinstance(value, str)}
    return ReportError(
        f"{target}: {code}: {error.details()}",
        retry=code not in _PERMANENT or LEADER in trailers,  # the leader may have changed since
        retry_after=seconds_to_wait(trailers),
        code=code,
        leader=trailers.get(LEADER, "") if code == "FAILED_PRECONDITION" else "",
    )
