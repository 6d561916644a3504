"""`RuntimeDefault` as CRI-O and podman have it: Debian's golang-github-containers-common, decided for a pod of ours.

The file names conditions (seccomp.json of containers/common); an OCI runtime wants them decided.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

PROFILE = Path("/usr/share/containers/seccomp.json")
_GO = {"x86_64": "amd64", "aarch64": "arm64"}
_SECCOMP = {"amd64": "SCMP_ARCH_X86_64", "arm64": "SCMP_ARCH_AARCH64"}


def runtime_default() -> dict[str, Any]:
    """`linux.seccomp` of an OCI bundle, for a process without any capability on this machine."""
    profile, arch = json.loads(PROFILE.read_text()), _GO[platform.machine()]
    mapped = next(each for each in profile["archMap"] if each["architecture"] == _SECCOMP[arch])
    return {
        "defaultAction": profile["defaultAction"],
        "defaultErrnoRet": profile["defaultErrnoRet"],
        "architectures": [mapped["architecture"], *mapped["subArchitectures"]],
        "syscalls": [_rule(each) for each in profile["syscalls"] if _applies(each, arch)],
    }


def _applies(rule: dict[str, Any], arch: str) -> bool:
    """No capability is held: what asks for one is out, what excludes those that have it is in."""
    includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
    if includes.get("caps") or arch not in includes.get("arches", [arch]):
        return False
    return arch not in excludes.get("arches", [])


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    return {key: rule[key] for key in ("names", "action", "args", "errnoRet") if rule.get(key)}
