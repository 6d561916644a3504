"""A worker gives back what only its start needed, and works on."""

import json
import sys

from tests.children import run

SCRIPT = """
import json, re, sys
from pathlib import Path
from nfd.runtime.malloc import release, unchanged

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

import pydantic, re2, yaml, yaml.cyaml
from nfd.worker import cli
text = Path("/proc/self/maps").read_text()
modes = {int(line.split("-")[0], 16): (line.split()[1], line.split()[4]) for line in text.splitlines()}
given = [modes.get(start) for start, size in unchanged()]
before = resident()
release()
after = resident()
assert yaml.load("a: [1, 2]", yaml.CSafeLoader) == {"a": [1, 2]}
assert re2.compile("a+b").search("xaab")
assert cli.main(["--version"]) == 0
print(json.dumps({"given": given, "before": before, "after": after}), file=sys.stderr)
"""


def test_it_returns_pages_of_files_and_works_on() -> None:
    ended = run([sys.executable, "-c", SCRIPT], timeout=60)
    said = json.loads(ended.stderr.splitlines()[-1])
    assert said["before"] - said["after"] > 4096
    assert said["given"]
    for mode, inode in said["given"]:
        assert mode in ("r-xp", "r--p")
        assert inode != "0"


def test_a_worker_has_no_openssl_no_re2_and_no_template_language_at_its_start() -> None:
    """Each is some MiB that most workers never need."""
    script = (
        "import sys; sys.argv[1:] = ['--version']; from nfd.worker.__main__ import main; main(); print(*sys.modules)"
    )
    ended = run([sys.executable, "-c", script], timeout=60)
    loaded = ended.stdout.split()
    assert "pydantic" in loaded
    needless = {"_ssl", "_hashlib", "re2", "nfd.rules.template.functions", "kubernetes", "aiohttp", "pynvml", "grpc"}
    assert not needless & set(loaded)
