"""Names of images and platforms (OCI Distribution Specification, "Pulling manifests"; image index, "platform")."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nfd.errors import ConfigError

DIGEST = r"(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(rf"({_HOST})/({_PART}(?:/{_PART})*)(?::([A-Za-z0-9_][A-Za-z0-9._-]{{0,127}}))?(?:@({DIGEST}))?")
_LONGEST = 255
_HUB = {"docker.io": "registry-1.docker.io"}
MACHINES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "arm",
    "armv6l": "arm",
    "i686": "386",
    "ppc64le": "ppc64le",
    "s390x": "s390x",
    "riscv64": "riscv64",
}
"""Architectures as uname prints them → as images name them."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An image: where, in which repository, and the tag or digest that names its manifest."""

    registry: str
    repository: str
    name: str

    @property
    def host(self) -> str:
        """Whom to ask."""
        return _HUB.get(self.registry, self.registry)

    def __str__(self) -> str:
        return f"{self.registry}/{self.repository}{'@' if ':' in self.name else ':'}{self.name}"


@dataclass(frozen=True, slots=True)
class Platform:
    """What an image was built for; empty parts are not asked about."""

    os: str = "linux"
    architecture: str = ""
    variant: str = ""
    version: str = ""

    def suits(self, other: Platform) -> bool:
        """Whether an image for the other platform is meant."""
        wanted = ((self.variant, other.variant), (self.version, other.version))
        named = (self.os, self.architecture) == (other.os, other.architecture)
        return named and all(a in ("", b) for a, b in wanted)

    def __str__(self) -> str:
        path = "/".join(part for part in (self.os, self.architecture, self.variant) if part)
        return f"{path}:{self.version}" if self.version else path


def parse_reference(text: str) -> Reference:
    """`REGISTRY/REPOSITORY[:TAG][@DIGEST]`; a digest overrides a tag. Raises: ConfigError."""
    found = _IMAGE.fullmatch(text)
    if found is None or len(found[2]) > _LONGEST:
        raise ConfigError(f"--image {text[:300]!r} is not of the form REGISTRY/REPOSITORY[:TAG][@DIGEST]")
    registry, repository, tag, digest = found.groups()
    return Reference(registry, repository, digest or tag or "latest")


def parse_platform(text: str, machine: str) -> Platform:
    """`OS[/ARCH[/VARIANT]][:VERSION]`; without an architecture that of this `machine`. Raises: ConfigError."""
    path, _, version = text.partition(":")
    parts = path.split("/")
    if len(parts) > 3 or not all(parts):
        raise ConfigError(f"--platform {text[:300]!r} is not of the form OS[/ARCH[/VARIANT]][:VERSION]")
    os, architecture, variant = (*parts, "", "")[:3]
    return Platform(os, architecture or MACHINES.get(machine, machine), variant, version)
