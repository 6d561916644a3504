"""Bounded caches, and messages that are logged once in a while."""

from __future__ import annotations

from nfd.runtime.cache import ExpiringCache, LruCache, Throttle


def test_what_was_used_last_stays() -> None:
    cache = LruCache[str, int](2)
    for key, value in (("a", 1), ("b", 2)):
        cache.put(key, value)
    assert cache.get("a") == 1
    cache.move_to_end("a")
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), len(cache)) == (1, None, 3, 2)
    cache.put("a", 4)
    cache.put("d", 5)
    assert (cache.get("a"), cache.get("c")) == (4, None)


def test_values_expire() -> None:
    now = 0.0
    cache = ExpiringCache[str](2, lambda: now)
    cache.put("a", "x", 10.0)
    assert cache.get("a") == "x"
    now = 10.0
    assert cache.get("a") is None


def test_a_message_is_due_once_in_a_while_each_on_its_own() -> None:
    now = 0.0
    throttle = Throttle(60.0, 2, lambda: now)
    assert [throttle.is_due("a", "x"), throttle.is_due("a", "x"), throttle.is_due("b", "x")] == [True, False, True]
    now = 60.0
    assert throttle.is_due("a", "x")
    assert [throttle.is_due("c"), throttle.is_due("d"), throttle.is_due("a", "x")] == [True] * 3
