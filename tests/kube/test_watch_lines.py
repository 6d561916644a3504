"""Lines of a watch, however they are cut into chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from nfd.kube.informer import lines


async def chunks(parts: list[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@given(st.lists(st.binary(max_size=5).map(lambda text: text.replace(b"\r", b"\n"))))
async def test_lines_are_whole(parts: list[bytes]) -> None:
    found = [line async for line in lines(chunks(parts)) if line]
    assert found == [line for line in b"".join(parts).split(b"\n") if line]
