"""Pushes images and chart of a release to a registry: `python -m release.publish VERSION --registry=…`.

`make publish` calls it after `make release` on the same machine. Log in first: `buildah login`, `helm registry login`.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import helm_python

from release.chart import NAME
from release.errors import ReleaseError
from release.images import Builder, builder_for, read_digests
from release.provenance import SUMS, sign_image
from tests.children import ChildError

DIST = Path(__file__).parents[1] / "dist"


def publish(folder: Path, version: str, registry: str, builder: Builder, *, plain_http: bool = False) -> list[str]:
    """Push what lies in a folder. Returns: what was pushed, images by digest.

    Raises: ReleaseError if a file is not the one that was checked, or the registry has another digest; ChildError.
    """
    if subprocess.run(["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=folder, check=False).returncode:
        raise ReleaseError(f"{folder} does not have the files of {SUMS}: run `make release` again")
    wanted = read_digests(folder)
    pushed = [push_image(builder, name, registry, plain_http=plain_http) for name in wanted]
    for reference, digest in zip(pushed, wanted.values(), strict=True):
        if not reference.endswith(digest):
            raise ReleaseError(f"{reference} is not {digest}, which was built and checked")
    helm_python.push(folder / f"{NAME}-{version}.tgz", f"oci://{registry}/charts", plain_http=plain_http)
    return [*pushed, f"{registry}/charts/{NAME}:{version}"]


def push_image(builder: Builder, name: str, registry: str, *, plain_http: bool) -> str:
    """The index of that name and version, with its images. Returns: its name by digest."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "digest")
        options = ("--all", "--format=oci", f"--digestfile={file}", *(("--tls-verify=false",) if plain_http else ()))
        builder.buildah("manifest", "push", *options, f"localhost/{name}", f"docker://{registry}/{name}")
        return f"{registry}/{name.partition(':')[0]}@{file.read_text().strip()}"


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m release.publish", description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--from", dest="folder", type=Path, default=DIST, help="what `make release` wrote (dist)")
    parser.add_argument("--registry", required=True, help="as for `make release`")
    parser.add_argument("--base", required=True, help="as for `make release`")
    parser.add_argument("--cosign-key", default="", help="signs what was pushed")
    parser.add_argument("--plain-http", action="store_true", help="for a registry without TLS")
    options = parser.parse_args(words)
    registry = options.registry.rstrip("/")
    try:
        if options.cosign_key and shutil.which("cosign") is None:
            raise ReleaseError("a key is given, but there is no cosign on PATH to sign with")
        builder = builder_for(options.base)
        pushed = publish(options.folder, options.version, registry, builder, plain_http=options.plain_http)
        for reference in pushed:
            print(reference)
            if options.cosign_key:
                sign_image(reference, options.cosign_key)
    except (ReleaseError, ChildError, helm_python.HelmError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
