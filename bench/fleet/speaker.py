"""A process that speaks for many workers: each time over a TLS connection of that worker's own, as the real one does.

Commands come as JSON lines on stdin, and each is answered by one on stdout.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import grpc

from bench.fleet.cluster import each
from bench.fleet.machines import Worker, kinds
from nfd.rpc import LEADER, RETRY_AFTER, SERVICE, convert
from nfd.worker.report_request_file import EpochFile

DEADLINE = 10.0
PASSING = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)
"""After any other status the same report fails again."""
ACCEPTED = 300.0
"""Seconds in which a report is accepted, with all the times at which it is sent again."""


@dataclass
class Tally:
    """What came of the reports: those taken, those told to come later, and seconds to the answer."""

    taken: int = 0
    again: int = 0
    beat: float = 0.0
    sent: int = 0
    received: int = 0


class Speaker:
    def __init__(self, ca: Path, tokens: Path | None) -> None:
        self.workers: dict[int, Worker] = {}
        self.epochs: dict[int, EpochFile] = {}
        self.credentials = grpc.ssl_channel_credentials(ca.read_bytes())
        self.tokens = tokens

    def worker(self, number: int) -> Worker:
        if number not in self.workers:
            self.workers[number] = Worker(number)
        return self.workers[number]

    def read_tokens(self) -> None:
        for line in self.tokens.read_text().splitlines() if self.tokens else ():
            number, token = line.split()
            self.worker(int(number)).token = token

    async def report(self, order: dict[str, Any]) -> dict[str, Any]:
        """Let workers report: `at_once` at a time, or spread evenly over `seconds`.

        With `watch` they only read the file of the epoch, and after that with `mounted_within` they report because it
        changed: each sees it at a random time within so many seconds.
        """
        self.read_tokens()
        numbers, tally, target = order["nodes"], Tally(), order["target"]
        for number in numbers:
            worker = self.worker(number)
            worker.changes = order.get("labels", worker.changes)
            worker.started += order.get("restarted", 0)
        began = time.monotonic()
        if path := order.get("watch"):
            self.epochs = {number: EpochFile(path) for number in numbers}
        elif within := order.get("mounted_within"):
            await asyncio.gather(*(self._asked(number, within, target, tally) for number in numbers))
        elif seconds := order.get("seconds"):
            await self._spread(numbers, seconds, target, tally)
        else:
            await each(numbers, order["at_once"], lambda number: self._deliver(self.worker(number), target, tally))
        return {**tally.__dict__, "seconds": time.monotonic() - began}

    async def _spread(self, numbers: Sequence[int], seconds: float, target: str, tally: Tally) -> None:
        async with asyncio.TaskGroup() as group:
            for number in numbers:
                group.create_task(self._deliver(self.worker(number), target, tally))
                await asyncio.sleep(seconds / len(numbers))

    async def _asked(self, number: int, within: float, target: str, tally: Tally) -> None:
        await asyncio.sleep(random.uniform(0, within))
        self.epochs[number].look()
        await asyncio.sleep(max(self.epochs[number].due - time.monotonic(), 0))
        await self._deliver(self.worker(number), target, tally)

    async def _deliver(self, worker: Worker, target: str, tally: Tally) -> None:
        """Until it is taken, as the worker's pace has it."""
        outgoing, deadline = worker.speak(), time.monotonic() + ACCEPTED
        for attempt in count():
            try:
                answer = await self._speak(worker, outgoing, target, tally)
            except grpc.aio.AioRpcError as error:
                tally.again += 1
                trailers = dict(error.trailing_metadata() or ())
                if error.code() not in PASSING:
                    raise RuntimeError(f"{worker.node}: {error.code()}: {error.details()}") from error
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{worker.node}: no report accepted within {ACCEPTED:.0f} s: {error}") from error
                if leader := trailers.get(LEADER):
                    target = str(leader)
                    await asyncio.sleep(0.01)
                    continue
                wait = trailers.get(RETRY_AFTER)
                seconds = int(wait) / 1000 if wait else min(2.0 ** min(attempt, 6), 60.0) * random.uniform(0.5, 1)
                await asyncio.sleep(seconds)
            else:
                tally.taken += 1
                tally.beat = answer.heartbeat
                return

    async def _speak(self, worker: Worker, outgoing: convert.Outgoing, target: str, tally: Tally) -> convert.Answer:
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_retries", 0),
            ("grpc.ssl_target_name_override", "localhost"),
        ]
        metadata = (("authorization", f"Bearer {worker.token}"),) if worker.token else ()
        async with grpc.aio.secure_channel(target, self.credentials, options) as channel:
            call = channel.unary_unary(f"/{SERVICE}/Report")
            request = outgoing.request
            while True:
                reply = await call(request, timeout=DEADLINE, metadata=metadata, compression=grpc.Compression.Gzip)
                tally.sent += len(request)
                tally.received += len(reply)
                answer = convert.decode_answer(reply)
                if not answer.missing:
                    return answer
                request = outgoing.with_blobs(answer.missing)


async def main(ca: str, tokens: str) -> None:
    speaker = Speaker(Path(ca), Path(tokens) if tokens else None)
    kinds()
    loop = asyncio.get_running_loop()
    print(json.dumps("ready"), flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await speaker.report(json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
