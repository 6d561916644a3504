"""A real headless Chromium, driven through chromium-driver."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from tests.controlplane.process import without_proxy
from tests.e2e.programs import eventually

PACKAGES = {"chromium": "chromium", "chromedriver": "chromium-driver"}
ELSEWHERE = "fleet.example"
"""A name for 127.0.0.1 that is not its own."""
WAIT = 60.0
"""Seconds; the machine may have much else to do."""
_LOADED = "return document.readyState === 'complete' && !document.getElementById('main').hidden"
_TRAFFIC = """
const entries = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
return entries.map((one) => [one.name, one.transferSize]);
"""
_PAINT = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def missing_packages() -> list[str]:
    """Debian packages to install."""
    return [package for program, package in PACKAGES.items() if shutil.which(program) is None]


class Browser:
    """One tab; `errors` are what the console was told since the last look."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def open(self, url: str, *, loaded: bool = True) -> None:
        """Load it anew, whatever was there before."""
        self.driver.get("about:blank")
        self.driver.get(url)
        if loaded:
            self.until(lambda: self.script(_LOADED))

    def until(self, condition: Callable[[], Any]) -> Any:
        return eventually(condition, WAIT)

    def script(self, text: str, *args: Any) -> Any:
        return self.driver.execute_script(text, *args)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """Of the document itself, whether it can be seen or not."""
        return str(self.script("return document.querySelector(arguments[0]).textContent", selector))

    def texts(self, selector: str) -> list[str]:
        return list(
            self.script("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)
        )

    def titles(self, selector: str) -> list[str]:
        return list(self.script("return [...document.querySelectorAll(arguments[0])].map((e) => e.title)", selector))

    def type(self, field: str, text: str) -> None:
        """Into an empty field, all at once."""
        self.script("document.getElementById(arguments[0]).value = ''", field)
        self.one(f"#{field}").send_keys(text)

    def press(self, *keys: str) -> None:
        """On whatever has the focus."""
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def focused(self) -> str:
        """What a screen reader would call the element with the focus, or its text."""
        return str(
            self.script(
                "const e = document.activeElement; return e.id || e.getAttribute('aria-label') || e.textContent.trim()"
            )
        )

    def forget(self) -> None:
        """As on the first visit: no file is kept from here on."""
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd("Network.clearBrowserCache", {})

    def prefer(self, scheme: str) -> None:
        """`dark` or `light`, as the operating system would say."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def traffic(self) -> dict[str, int]:
        """Bytes on the wire by address, headers included."""
        return {name: int(size) for name, size in self.script(_TRAFFIC)}

    def first_paint(self) -> float:
        """Milliseconds from asking for the page to the first content."""
        return float(self.until(lambda: self.script(_PAINT)))

    def errors(self) -> list[str]:
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]


@contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """Without a sandbox of its own, which it cannot have as root in a container."""
    options = ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", "window-size=1360,900"):
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={folder}")
    options.add_argument(f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1")
    options.add_argument("--no-proxy-server")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = ChromeService(str(shutil.which("chromedriver")), env=without_proxy())
    driver = Chrome(options, service)
    driver.set_script_timeout(WAIT)
    driver.set_page_load_timeout(WAIT)
    try:
        yield Browser(driver)
    finally:
        driver.quit()


def require_browser() -> None:
    """Skip, or with CI=true fail, where packages are missing."""
    if missing := missing_packages():
        problem = f"no {' and no '.join(missing)}: apt-get install {' '.join(missing)}"
        if os.environ.get("CI") == "true":
            pytest.fail(problem)
        pytest.skip(problem)


__all__ = ["ELSEWHERE", "Browser", "Keys", "open_browser", "require_browser"]
