"""One browser for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.page.browser import Browser, open_browser, require_browser


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    require_browser()
    with open_browser(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """Light, and the console has nothing to say before and after."""
    chromium.open("about:blank", loaded=False)  # the page of an earlier test asks a master that has ended
    chromium.prefer("light")
    chromium.errors()
    yield chromium
    assert chromium.errors() == []
