"""Fixtures for all tests; the control plane starts when the first test asks for it."""

import pytest

pytest_plugins = ["tests.controlplane.fixtures"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-expected", action="store_true", help="rewrite tests/hosts/*/expected with what is found now"
    )
