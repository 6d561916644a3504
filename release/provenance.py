"""Where a release comes from, as a statement that others can check, and signatures.

Sources: in-toto attestation framework, "Statement" v1; SLSA, "Provenance" v1.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from release.errors import ReleaseError
from release.source import Source
from tests.children import run

NAME = "provenance.intoto.json"
SUMS = "SHA256SUMS"
SIGNATURE = f"{SUMS}.sigstore.json"
LOCAL = "urn:nfd-gfd:make-release"
"""Who built it, where no service did."""


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file but of the list of them and its signature, by name."""
    return {path.name: _digest(path) for path in sorted(folder.iterdir()) if path.name not in (SUMS, SIGNATURE)}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_provenance(source: Source, folder: Path, parameters: dict[str, str], builder: str) -> None:
    """What was built, from which commit, on which base, with which parameters, and by whom.

    It has no times, so that whoever builds the same gets the same.
    """
    materials = [{"name": "source", "digest": {"gitCommit": source.commit}}]
    name, _, digest = parameters["base"].partition("@sha256:")
    if digest:
        materials.append({"name": name, "digest": {"sha256": digest}})
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in digests(folder).items()],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": LOCAL,
                "externalParameters": parameters,
                "resolvedDependencies": materials,
            },
            "runDetails": {"builder": {"id": builder or LOCAL}},
        },
    }
    (folder / NAME).write_text(json.dumps(statement, indent=2) + "\n")


def write_sums(folder: Path) -> str:
    """As `sha256sum` writes and checks them."""
    text = "".join(f"{digest}  {name}\n" for name, digest in digests(folder).items())
    (folder / SUMS).write_text(text)
    return text


def sign(folder: Path, key: str) -> None:
    """The list of digests, with a key as cosign names it: a file, env://NAME or a key service.

    Raises: ReleaseError without cosign.
    """
    if shutil.which("cosign") is None:
        raise ReleaseError("a key is given, but there is no cosign on PATH to sign with")
    bundle = f"--bundle={folder / SIGNATURE}"
    run(["cosign", "sign-blob", "--yes", f"--key={key}", "--tlog-upload=false", bundle, str(folder / SUMS)])


def sign_image(reference: str, key: str) -> None:
    """What a registry has by that digest; the signature is stored beside it."""
    run(["cosign", "sign", "--yes", f"--key={key}", "--tlog-upload=false", reference])
