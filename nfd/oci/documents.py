"""What registries answer, taken in with care: descriptors, manifests, indexes (OCI Image Specification 1.1)."""

from __future__ import annotations

import hashlib
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from nfd.errors import NfdError
from nfd.message_text import visible
from nfd.oci.reference import DIGEST

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
ACCEPT = ", ".join(
    (
        MANIFEST,
        INDEX,
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
    )
)
T = TypeVar("T", bound="Part")


class Part(BaseModel):
    """Unknown keys are ignored; null stands for an empty value, as Go writes it."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel)


class PlatformPart(Part):
    """The platform of an image in an index."""

    os: str = ""
    architecture: str = ""
    variant: str = ""
    version: str = Field("", alias="os.version")


class Descriptor(Part):
    """Points to content by its digest."""

    digest: str = Field(pattern=rf"^{DIGEST}$")
    media_type: str = ""
    artifact_type: str = ""
    platform: PlatformPart | None = None


Descriptors = Annotated[tuple[Descriptor, ...], BeforeValidator(lambda value: () if value is None else value)]


class Manifest(Part):
    """A manifest, or an index where `manifests` is there."""

    artifact_type: str = ""
    config: Descriptor | None = None
    layers: Descriptors = ()
    manifests: Descriptors | None = None
    annotations: Annotated[dict[str, str], BeforeValidator(lambda value: {} if value is None else value)] = {}

    @property
    def kind(self) -> str:
        """The type of artifact; older artifacts have it as the type of their configuration."""
        return self.artifact_type or (self.config.media_type if self.config else "")


def parse(shape: type[T], data: bytes, where: str) -> T:
    """Raises: NfdError naming `where` and the part that is invalid."""
    try:
        return shape.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = visible(".".join(map(str, first["loc"]))[:300])  # keys are foreign text
        raise NfdError(f"{where}: the answer is invalid: {place + ': ' if place else ''}{first['msg']}") from error


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def check_digest(data: bytes, digest: str, where: str) -> None:
    """Raises: NfdError if the content is not what the digest says."""
    algorithm, _, wanted = digest.partition(":")
    if hashlib.new(algorithm, data).hexdigest() != wanted:
        raise NfdError(f"{where}: the content does not have the digest {digest}")
