"""Rule objects that change while they are compiled."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

from nfd.kube.check_responses import spec_version
from nfd.kube.informer import Store
from nfd.master.rules.rule_store import Compiled, RawObject, written
from nfd.master.rules.ruleset import Steps
from nfd.master.rules.time_slices import Slices

T = TypeVar("T")


class OneByOne(Slices):
    """Others have their turn after each step."""

    async def run(self, steps: Steps[T]) -> T:
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            await asyncio.sleep(0)


def text_steps(item: Mapping[str, Any]) -> Steps[str]:
    """The text; an old one takes longer."""
    (text,) = item["spec"]["rules"]
    for _ in range(10 if text == "old" else 1):
        yield
    return text


class Objects:
    def __init__(self) -> None:
        self.store = Store[RawObject](partial(written, "rules"), version=spec_version, keep_status=True)
        self.compiled = Compiled[str](self.store, text_steps, OneByOne())
        self._generation = 0

    def put(self, name: str, text: str) -> None:
        self._generation += 1
        metadata = {"name": name, "uid": name, "generation": self._generation}
        self.store.put({"metadata": metadata, "spec": {"rules": [text]}})

    def texts(self) -> dict[str, str]:
        return {name: text for (_, name), text in self.compiled.items()}


async def test_an_older_text_does_not_replace_a_newer_one() -> None:
    objects = Objects()
    objects.put("a", "old")
    objects.put("b", "old")
    first = asyncio.create_task(objects.compiled.update())
    await asyncio.sleep(0)
    objects.put("b", "new")
    await objects.compiled.update()
    assert objects.texts()["b"] == "new"
    await first
    assert objects.texts() == {"a": "old", "b": "new"}


async def test_what_changes_while_it_is_compiled_is_compiled_by_the_next_update() -> None:
    objects = Objects()
    objects.put("a", "old")
    objects.put("b", "old")
    first = asyncio.create_task(objects.compiled.update())
    await asyncio.sleep(0)
    objects.put("a", "new")
    objects.store.delete(("", "b"))
    await first
    assert objects.texts() == {"a": "old"}
    await objects.compiled.update()
    assert objects.texts() == {"a": "new"}
