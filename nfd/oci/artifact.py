"""From an image to the compatibility specification attached to it (NFD documentation, "Image compatibility")."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime

from nfd.errors import NfdError
from nfd.oci.client import MAX_MANIFEST, Login, Registry, open_registry
from nfd.oci.documents import ACCEPT, INDEX, Descriptor, Manifest, check_digest, digest_of, parse
from nfd.oci.reference import Platform, Reference
from nfd.runtime.tasks import run

ARTIFACT_TYPE = "application/vnd.nfd.image-compatibility.v1alpha1"
MINUTE = 60.0
CREATED = "org.opencontainers.image.created"
MAX_SPEC = 1024 * 1024
MOST = 50
"""Artifacts of one image that are looked at, and pages of the list of them."""
_EMPTY = "application/vnd.oci.empty.v1+json"
_UNSURE = ("", _EMPTY)
"""What a list says of artifacts whose manifest must be asked for their type."""
_UNSUPPORTED = (400, 404, 405, 501)
"""How registries say that they have no referrers API."""
_NEXT = re.compile(r'<([^<>]*)>\s*;[^<]*\brel="?next\b')
_OLDEST = datetime.min.replace(tzinfo=UTC)


def fetch_specification(
    reference: Reference, platform: Platform, login: Login, *, strict: bool, plain_http: bool, seconds: float = MINUTE
) -> bytes:
    """The newest specification attached to the image for that platform, within that time. Raises: NfdError.

    Unless `strict`, one that is attached to the index of all platforms will do.
    """

    async def fetch() -> bytes:
        async with open_registry(reference, login, plain_http=plain_http) as registry:
            for digest in await subjects(registry, reference, platform, strict=strict):
                newest = await newest_artifact(registry, digest)
                if newest is not None:
                    return await first_layer(registry, newest)
        raise NfdError(f"{reference}: no compatibility artifact ({ARTIFACT_TYPE}) is attached to it for {platform}")

    async def limited() -> bytes:
        try:
            async with asyncio.timeout(seconds):
                return await fetch()
        except TimeoutError as error:
            raise NfdError(f"{reference}: the registry took more than {seconds:.0f} s") from error

    return run(limited())


async def subjects(registry: Registry, reference: Reference, platform: Platform, *, strict: bool) -> list[str]:
    """The digests that an artifact may be attached to: the platform's manifest, then the index that lists it."""
    answer = await registry.get(f"manifests/{reference.name}", ACCEPT)
    if answer is None:
        raise NfdError(f"{reference}: no such image")
    if ":" in reference.name:
        check_digest(answer.data, reference.name, str(reference))
    manifest = parse(Manifest, answer.data, str(reference))
    own = reference.name if ":" in reference.name else digest_of(answer.data)
    if manifest.manifests is None:
        return [own]
    found = [one.digest for one in manifest.manifests if platform.suits(_platform(one))][:1]
    if strict and not found:
        there = sorted({str(_platform(one)) for one in manifest.manifests if one.platform})
        raise NfdError(f"{reference}: no image for {platform}; available are {', '.join(there) or 'none'}")
    return found if strict else [*found, own]


def _platform(one: Descriptor) -> Platform:
    part = one.platform
    return Platform(part.os, part.architecture, part.variant, part.version) if part else Platform("")


async def newest_artifact(registry: Registry, digest: str) -> Manifest | None:
    """The newest compatibility artifact that refers to `digest`; one without a date counts as the oldest."""
    found: list[tuple[datetime, int, Manifest]] = []
    for number, one in enumerate(await referrers(registry, digest)):
        data = await content(registry, f"manifests/{one.digest}", one.digest, MAX_MANIFEST)
        manifest = parse(Manifest, data, one.digest)
        if manifest.kind == ARTIFACT_TYPE:
            found.append((_created(manifest), number, manifest))
    return max(found)[2] if found else None


async def referrers(registry: Registry, digest: str) -> list[Descriptor]:
    """Candidates among the artifacts that refer to `digest`: from the API, else from the tag that replaces it."""
    path, found = f"referrers/{digest}?artifactType={ARTIFACT_TYPE}", list[Descriptor]()
    answer = await registry.get(path, INDEX, absent=_UNSUPPORTED)
    if answer is None:
        answer = await registry.get(f"manifests/{digest.replace(':', '-')}", INDEX)
    for _ in range(MOST):
        if answer is None or len(found) >= MOST:
            break
        listed = parse(Manifest, answer.data, f"referrers of {digest}").manifests or ()
        found += (one for one in listed if one.artifact_type in (ARTIFACT_TYPE, *_UNSURE))
        following = _NEXT.search(answer.headers.get("Link", "")[:4096])  # RFC 8288
        answer = await registry.get(following[1], INDEX) if following else None
    return found[:MOST]


def _created(manifest: Manifest) -> datetime:
    try:
        when = datetime.fromisoformat(manifest.annotations.get(CREATED, ""))
    except ValueError:
        return _OLDEST
    return when if when.tzinfo else when.replace(tzinfo=UTC)


async def first_layer(registry: Registry, manifest: Manifest) -> bytes:
    if not manifest.layers:
        raise NfdError("the compatibility artifact has no layer")
    digest = manifest.layers[0].digest
    return await content(registry, f"blobs/{digest}", digest, MAX_SPEC)


async def content(registry: Registry, path: str, digest: str, limit: int) -> bytes:
    """Checked against its digest."""
    answer = await registry.get(path, ACCEPT if path.startswith("manifests/") else "*/*", limit)
    if answer is None:
        raise NfdError(f"{digest} is listed but missing")
    check_digest(answer.data, digest, path.partition("/")[0])
    return answer.data
