"""Packages that a plain `pip install nfd-gfd` leaves out: those of the extra `master` (pyproject.toml)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nfd.errors import ConfigError

PACKAGES = frozenset(("aiohttp", "cryptography", "grpc_health", "grpc_reflection", "kubernetes", "xxhash"))
"""As they are imported."""


@contextmanager
def extras() -> Iterator[None]:
    """Around what imports one of them. Raises: ConfigError that says what to install if it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in PACKAGES:
            raise
        raise ConfigError(f"the package {package} is not installed; run: pip install 'nfd-gfd[master]'") from error
