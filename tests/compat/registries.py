"""Real registries on loopback, and what a publisher pushes to them."""

from __future__ import annotations

import hashlib
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nfd.oci.artifact import ARTIFACT_TYPE, CREATED
from nfd.oci.documents import INDEX, MANIFEST
from tests.compat.build import ensure
from tests.controlplane.process import Process
from tests.e2e.programs import eventually

REPOSITORY = "team/app"
EMPTY = b"{}"
_ADDRESS = re.compile(r"^127\.0\.0\.1:\d+$", re.M)
Json = dict[str, Any]


@contextmanager
def registry(folder: Path, config: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Host and port: the CNCF registry with that configuration, or without one the registry with the referrers API."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "config.yml"
    if config is not None:
        base = {"version": 0.1, "storage": {"inmemory": {}}, "http": {"secret": "x"}, "log": {"level": "warn"}}
        file.write_text(json.dumps(base | dict(config)))
    process = Process("registry", [str(ensure()), str(file) if config is not None else "referrers"], folder / "log")
    process.start()
    try:
        yield eventually(lambda: _address(process))
    finally:
        process.stop(0)


def _address(process: Process) -> str:
    assert process.alive(), process.tail()
    found = _ADDRESS.search(process.log.read_text())
    return found[0] if found else ""


class Publisher:
    """Pushes to a repository with a given Authorization header."""

    def __init__(self, host: str, authorization: str = "") -> None:
        self._base = f"http://{host}/v2/{REPOSITORY}/"
        self._headers = {"Authorization": authorization} if authorization else {}

    def _send(self, method: str, url: str, data: bytes, kind: str) -> Mapping[str, str]:
        request = urllib.request.Request(url, data, {**self._headers, "Content-Type": kind}, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return dict(answer.headers)

    def blob(self, data: bytes, kind: str = "application/octet-stream") -> Json:
        """Its descriptor."""
        start = self._send("POST", f"{self._base}blobs/uploads/", b"", kind)["Location"]
        url = start if "://" in start else f"{self._base.partition('/v2/')[0]}{start}"
        digest = digest_of(data)
        self._send("PUT", f"{url}{'&' if '?' in url else '?'}digest={digest}", data, "application/octet-stream")
        return {"mediaType": kind, "digest": digest, "size": len(data)}

    def manifest(self, value: Json, name: str = "") -> Json:
        """Its descriptor; without a name it is pushed by its digest."""
        data = json.dumps(value).encode()
        digest = digest_of(data)
        self._send("PUT", f"{self._base}manifests/{name or digest}", data, value["mediaType"])
        return {"mediaType": value["mediaType"], "digest": digest, "size": len(data)}

    def image(self, name: str = "", **more: Any) -> Json:
        config = self.blob(json.dumps(more).encode(), "application/vnd.oci.image.config.v1+json")
        return self.manifest({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": []}, name)

    def index(self, images: Mapping[str, Json], name: str) -> Json:
        """Images by `os/architecture`."""
        listed = [
            {**image, "platform": dict(zip(("os", "architecture"), platform.split("/"), strict=True))}
            for platform, image in images.items()
        ]
        return self.manifest({"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}, name)

    def attach(self, subject: Json, specification: str, created: str = "", kind: str = ARTIFACT_TYPE) -> Json:
        """The artifact, and where there is no referrers API the tag that stands in for it, as clients must push it."""
        layer = self.blob(specification.encode(), "application/vnd.nfd.image-compatibility.spec.v1alpha1+yaml")
        config = self.blob(EMPTY, "application/vnd.oci.empty.v1+json")
        parts = {"config": config, "layers": [layer], "subject": subject}
        notes = {"annotations": {CREATED: created}} if created else {}
        made = self.manifest({"schemaVersion": 2, "mediaType": MANIFEST, "artifactType": kind, **parts, **notes})
        listed = {**made, "artifactType": kind, **notes}
        if not self.has(f"referrers/{subject['digest']}"):
            tag = subject["digest"].replace(":", "-")
            before = self.read(f"manifests/{tag}")["manifests"] if self.has(f"manifests/{tag}") else []
            self.manifest({"schemaVersion": 2, "mediaType": INDEX, "manifests": [*before, listed]}, tag)
        return made

    def has(self, path: str) -> bool:
        try:
            self.read(path)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return False
        return True

    def read(self, path: str) -> Json:
        request = urllib.request.Request(f"{self._base}{path}", headers={**self._headers, "Accept": INDEX})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return dict(json.load(answer))


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
