"""The reason in an exception, as a person reads it."""

from __future__ import annotations


def said(error: BaseException) -> str:
    """What went wrong in words: `FILE: No such file or directory`, where Python would write `[Errno 2] … 'FILE'`."""
    if isinstance(error, OSError) and error.strerror and type(error).__str__ is OSError.__str__:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__
