"""A worker that means harm: `python -m bench._attacker CA TOKEN TARGET NODE`, a process of its own.

It has a good token of its own node and sends, a minute, 10,000 reports that are too large, malformed, or not its own to
make, while it holds calls open that say nothing. On a line of stdin it says as JSON what came of them, and ends. It has
a machine of its own in life: here it gives way to all others.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import grpc

from nfd.rpc import SERVICE
from nfd.rpc import labeler_pb2 as pb

A_MINUTE = 10_000
CHANNELS = 8
FRESH = 50
"""Of so many reports, one comes over a connection of its own."""
SILENT = 32
"""Calls that are opened and say nothing."""
DEADLINE = 20.0
F = "feature.node.kubernetes.io/"


def reports(node: str) -> list[bytes]:
    """One of each kind; the large ones more rarely."""
    chance = random.Random(1)
    honest = pb.ReportRequest(node_name=node).SerializeToString()
    foreign = {
        "node-role.kubernetes.io/control-plane": "",
        "kubernetes.io/hostname": "other",
        "kubernetes.io/os": "z",
    }
    small = [
        chance.randbytes(1000),
        honest + chance.randbytes(200),
        honest[: len(honest) // 2],
        honest * 2000,
        pb.ReportRequest(node_name="fleet-00000").SerializeToString(),
        pb.ReportRequest(node_name="../../x").SerializeToString(),
        pb.ReportRequest(node_name=node, labels=foreign).SerializeToString(),
        pb.ReportRequest(node_name=node, labels={F + "a\x1b[31m": "b\0\n", "\x7f": "\u2028"}).SerializeToString(),
        pb.ReportRequest(node_name=node, features=[{"name": "a.b", "digest": b"x" * 16}] * 2000).SerializeToString(),
    ]  # fmt: skip
    labels = pb.ReportRequest(node_name=node, labels={f"{F}{number:x}": "" for number in range(1_000_000)})
    many = pb.ReportRequest(node_name=node, labels={f"{number:x}": "" for number in range(280_000)})
    large = [
        bytes(5 << 20),
        labels.SerializeToString(),
        labels.SerializeToString()[:4_000_000],
        many.SerializeToString(),
    ]
    return [*small * 20, *large]


class Attacker:
    def __init__(self, ca: Path, token: Path, target: str, node: str) -> None:
        self.codes: Counter[str] = Counter()
        self._credentials = grpc.ssl_channel_credentials(ca.read_bytes())
        self._metadata = (("authorization", f"Bearer {token.read_text()}"),)
        self._target = target
        self._reports = reports(node)
        self._channels = [self._channel() for _ in range(CHANNELS)]

    def _channel(self) -> grpc.aio.Channel:
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_send_message_length", -1),
            ("grpc.ssl_target_name_override", "localhost"),
        ]
        return grpc.aio.secure_channel(self._target, self._credentials, options)

    async def flood(self) -> None:
        """Until cancelled, at the pace of A_MINUTE, whatever comes back."""
        began, open_calls = time.monotonic(), set[asyncio.Task[None]]()
        async with asyncio.TaskGroup() as group:
            for _ in range(SILENT):
                group.create_task(self._stay_silent())
            for number in itertools.count():
                await asyncio.sleep(max(0.0, began + number * 60 / A_MINUTE - time.monotonic()))
                task = group.create_task(self._send(number))
                open_calls.add(task)
                task.add_done_callback(open_calls.discard)

    async def _send(self, number: int) -> None:
        self.codes["sent"] += 1
        data = self._reports[number * 37 % len(self._reports)]
        channel = self._channel() if number % FRESH == 0 else self._channels[number % CHANNELS]
        call = channel.unary_unary(f"/{SERVICE}/{'SetLabels' if number % 5 == 0 else 'Report'}")
        try:
            await call(data, timeout=DEADLINE, metadata=self._metadata)
            self.codes["OK"] += 1
        except grpc.aio.AioRpcError as error:
            self.codes[error.code().name] += 1
        finally:
            if number % FRESH == 0:
                await channel.close()

    async def _stay_silent(self) -> None:
        while True:
            call = random.choice(self._channels).stream_unary(f"/{SERVICE}/Report")
            try:
                await call(_nothing(), metadata=self._metadata)
            except grpc.aio.AioRpcError as error:
                self.codes[f"silent: {error.code().name}"] += 1
            await asyncio.sleep(0.5)


async def _nothing() -> AsyncIterator[bytes]:
    await asyncio.sleep(DEADLINE)
    for never in tuple[bytes, ...]():
        yield never


async def main(ca: str, token: str, target: str, node: str) -> None:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    attacker = Attacker(Path(ca), Path(token), target, node)
    print(json.dumps("ready"), flush=True)
    flooding = asyncio.create_task(attacker.flood())
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    flooding.cancel()
    print(json.dumps(attacker.codes), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
