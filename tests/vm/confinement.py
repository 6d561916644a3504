"""How a process in the guest is confined, by what the guest's kernel says of it (proc(5))."""

from __future__ import annotations

from dataclasses import dataclass

from tests.deploy.rendering import Object, container_of, pod_of

CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


@dataclass(frozen=True)
class Mount:
    """One line of /proc/PID/mountinfo. `root` is what of the file system is mounted."""

    root: str
    place: str
    options: frozenset[str]
    kind: str


def parse_status(text: str) -> dict[str, str]:
    """The fields of /proc/PID/status."""
    return {key: value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}


def parse_mounts(text: str) -> dict[str, Mount]:
    """By place, the last one mounted there."""
    words = (line.split() for line in text.splitlines())
    found = (Mount(one[3], one[4], frozenset(one[5].split(",")), one[one.index("-") + 1]) for one in words)
    return {mount.place: mount for mount in found}


def check_process(status: dict[str, str]) -> None:
    """Nobody's process, without any capability, that can gain none."""
    assert status["Uid"].split() == ["65534"] * 4
    assert status["Gid"].split() == ["65534"] * 4
    assert {name: int(status[name], 16) for name in CAPABILITIES} == dict.fromkeys(CAPABILITIES, 0)
    assert status["NoNewPrivs"] == "1"


def check_mounts(mounts: dict[str, Mount], workload: Object, links: dict[str, str]) -> None:
    """Everything that the manifest mounts is there, read-only, and nothing else of the host; `links` lead elsewhere."""
    assert "ro" in mounts["/"].options
    paths = {one["name"]: one.get("hostPath", {}).get("path") for one in pod_of(workload)["volumes"]}
    for each in container_of(workload)["volumeMounts"]:
        mount = mounts[each["mountPath"].replace("/var/run/", "/run/")]
        assert "ro" in mount.options, mount
        if path := paths[each["name"]]:
            assert mount.root == ("/" if path == "/sys" else links.get(path, path)), mount
    hosts = {place for place in mounts if place.startswith("/host/")}
    wanted = {each["mountPath"] for each in container_of(workload)["volumeMounts"]}
    assert {place for place in hosts if not place.startswith("/host/sys/")} == {
        place for place in wanted if place.startswith("/host/")
    }
