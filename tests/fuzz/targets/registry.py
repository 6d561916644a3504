"""What registries answer: manifests and lists, log-in challenges, and compatibility specifications of images."""

from __future__ import annotations

import json
from collections.abc import Sequence

from nfd.cli.compat import evaluate_sets, parse_specification, text_of
from nfd.oci.client import parse_challenges
from nfd.oci.documents import INDEX, MANIFEST, Manifest, parse
from nfd.oci.reference import parse_platform, parse_reference
from tests.fuzz.mutate import Bytes, either
from tests.fuzz.target import Made, Target, check
from tests.fuzz.targets.rules import FEATURES, rule, terms
from tests.fuzz.trees import Trees, encoded

DIGEST = "sha256:" + "0" * 64
DESCRIPTOR = {"mediaType": MANIFEST, "digest": DIGEST, "size": 1, "annotations": {"a": "b"}}
PLATFORM = {"os": "linux", "architecture": "amd64", "variant": "v8", "os.version": "1"}


def manifests() -> Sequence[bytes]:
    image = {"schemaVersion": 2, "mediaType": MANIFEST, "config": DESCRIPTOR, "layers": [DESCRIPTOR], "annotations": {}}
    listed = [{**DESCRIPTOR, "platform": PLATFORM}, {**DESCRIPTOR, "artifactType": "x"}]
    return encoded(image, {"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}, {"manifests": None})


def run_manifest(data: bytes) -> Made:
    found = parse(Manifest, data, "registry")
    return f"{len(found.layers)} {found.manifests is None} {bool(found.kind)}", found


def specifications() -> Sequence[bytes]:
    plain = {key: value for key, value in rule().items() if key != "labels"}
    rules = [
        {**plain, "matchFeatures": terms("In", "10de")},
        {**plain, "matchAny": [{"matchFeatures": terms("Exists")}, {"matchFeatures": terms("Gt", "1")}]},
    ]
    one = {"rules": rules, "weight": 3, "tag": "t", "description": "d"}
    return encoded({"version": "v1alpha1", "compatibilities": [one, {"rules": []}]}, {"compatibilities": []})


def run_specification(data: bytes) -> Made:
    found, errors = evaluate_sets(parse_specification(data, "image"), FEATURES, ())
    check(json.loads(json.dumps(found)) == found, "the status is JSON")
    parts = [part for one in found for status in one["rules"] for part in status.get("matchedExpressions", ())]
    return f"{len(found)} {len(parts)} {min(len(errors), 3)}", (
        found,
        errors,
        [text_of(part["expression"]) for part in parts],
    )


def run_texts(data: bytes) -> Made:
    """A challenge, an image and a platform, a line each."""
    first, second, third, *_ = [*data.decode("utf-8", "replace").split("\n"), "", "", ""]
    found = parse_challenges([first])
    return f"{sorted(found)[:2]}", (found, str(parse_reference(second)), str(parse_platform(third, "x86_64")))


TEXTS = (
    f'Bearer realm="https://h/t",service="s",scope="r:a:pull", Basic realm=x\nh:5000/a/b:1@{DIGEST}\nlinux/arm/v7:1',
    "Basic\ndocker.io/a\nlinux",
)
_KEYS = (
    "matchFeatures",
    "matchAny",
    "matchExpressions",
    "matchName",
    "feature",
    "op",
    "value",
    "rules",
    "weight",
    "tag",
)
_PARTS = ("manifests", "layers", "digest", "artifactType", "platform", "os.version", "annotations", "config", DIGEST)

TARGETS = (
    Target(
        "manifest",
        "manifests and indexes of a registry",
        manifests,
        either(Trees(*_PARTS), Bytes(*_PARTS)),
        run_manifest,
    ),
    Target(
        "specification",
        "compatibility specifications of images",
        specifications,
        either(Trees(*_KEYS), Bytes(*_KEYS, "- ", ": ", "&a ", "*a")),
        run_specification,
        seconds=2.0,
    ),
    Target(
        "image",
        "log-in challenges, names of images, platforms",
        lambda: [text.encode() for text in TEXTS],
        Bytes('"', ",", "=", " ", "\n", ":", "/", "@", "Bearer ", "[::1]", "..", "__"),
        run_texts,
    ),
)
