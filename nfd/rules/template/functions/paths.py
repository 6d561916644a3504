"""Functions on slash-separated paths; upstream: Go package path. Nothing of the file system is looked at."""

from __future__ import annotations

from nfd.rules.template.function_calls import function


@function("clean osClean", "string", letters=16)
def clean(path: str) -> str:
    rooted = path.startswith("/")
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part == "..":
            parts += [] if rooted else [part]
        elif part not in ("", "."):
            parts.append(part)
    return ("/" if rooted else "") + "/".join(parts) or "."


@function("base osBase", "string")
def base(path: str) -> str:
    if not path:
        return "."
    return path.rstrip("/").rpartition("/")[2] or "/"


@function("dir osDir", "string", letters=16)
def dir_(path: str) -> str:
    head, slash, _ = path.rpartition("/")
    return clean(head + slash)


@function("ext osExt", "string")
def ext(path: str) -> str:
    _, dot, extension = path.rpartition("/")[2].rpartition(".")
    return dot + extension if dot else ""


@function("isAbs osIsAbs", "string")
def is_abs(path: str) -> bool:
    return path.startswith("/")
