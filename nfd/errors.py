"""Every exception this project raises.

NfdError
 ├── ConfigError        which file, flag or variable, which key, what is wrong; exit status 2
 │    └── FileGone      a file of the configuration in use is missing or empty: what was read stays
 ├── HostError          a file is there but unreadable or malformed: path and reason
 ├── Overdue            work that has a time limit has not ended in time
 ├── RuleError          rule name, term, what is wrong
 ├── ReportError        the master did not take a report, and whether trying again can help
 └── KubeError          the API server (or the node store) did not do what was asked
      ├── NotFound      no such object
      ├── Conflict      somebody else wrote in between; read and plan again
      ├── Forbidden     the credentials do not allow it
      │    └── Unauthorized  they are not accepted at present
      ├── Invalid       the content is refused; sending it again cannot help
      ├── Expired       the version asked for is no longer known; list again
      └── Unavailable   no answer, or a request to wait

Endless is none of them: a computation without end is a defect, and handled as any unexpected exception.
"""

from __future__ import annotations

LONGEST_REASON = 300
"""Characters that are kept of the text of an unexpected exception."""


class NfdError(Exception):
    """Base of all errors raised on purpose; its text is one line that a person can act on."""


def reason_of(error: Exception) -> str:
    """What an exception of any kind says, on one line: an NfdError as it is, any other with its type."""
    text = " ".join(str(error).split())[:LONGEST_REASON]
    if isinstance(error, NfdError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class ConfigError(NfdError):
    """Configuration that cannot be used."""


class FileGone(ConfigError):
    """A file of the configuration in use is gone or empty; `news` is false if the same was said before."""

    def __init__(self, reason: str, *, news: bool) -> None:
        super().__init__(reason)
        self.news = news


class HostError(NfdError):
    """A file of the machine that exists but cannot be read or understood; `errno` where the kernel said why."""

    def __init__(self, path: str, reason: str, errno: int | None = None) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
        self.errno = errno


class Overdue(NfdError):
    """Work that has a time limit has not ended in time; it is asked to end, and not done again before it has."""


class Endless(RuntimeError):
    """A computation was ended, since it did not end by itself. `rest` is how long to wait in seconds before it is tried
    again: most of the time must remain for everything else."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.rest = 6 * seconds

    def __str__(self) -> str:
        return f"did not end within {self.args[0]:g} s of CPU time"


def rest_after(error: BaseException | None) -> float:
    """The least seconds until what failed in this way is tried again."""
    return error.rest if isinstance(error, Endless) else 0.0


class RuleError(NfdError):
    """A rule that cannot be evaluated; it spoils only itself."""


class ReportError(NfdError):
    """A report the master did not take.

    `retry` says whether the same report can succeed later; `retry_after` is the wait in seconds that the master asked
    for. `code` is a gRPC status by name where the plain choice between UNAVAILABLE and FAILED_PRECONDITION says too
    little, `leader` the address of the master to ask instead.
    """

    def __init__(
        self, reason: str, *, retry: bool, retry_after: float | None = None, code: str = "", leader: str = ""
    ) -> None:
        super().__init__(reason)
        self.retry = retry
        self.retry_after = retry_after
        self.code = code
        self.leader = leader


class KubeError(NfdError):
    """A failed call of the Kubernetes API or of the embedded node store."""


class NotFound(KubeError):
    """The object does not exist."""


class Conflict(KubeError):
    """The object changed since it was read, or is another one of the same name."""


class Forbidden(KubeError):
    """Not authenticated or not authorised."""


class Unauthorized(Forbidden):
    """Not authenticated, such as with a token that is just being replaced: it says nothing about any right."""


class Invalid(KubeError):
    """The content was refused (a value, or its size): the same request cannot succeed.

    `fields` are the places that were found wrong, as far as the API server names them: `status.capacity.vendor.io/x`.
    `by` is who refused it: an admission policy or webhook by name, else the API server's own validation. `said` is its
    message as a whole, which `reason` may cut short.
    """

    def __init__(
        self, reason: str, *, fields: frozenset[str] = frozenset(), by: str = "validation", said: str = ""
    ) -> None:
        super().__init__(reason)
        self.fields = fields
        self.by = by
        self.said = said or reason


class Expired(KubeError):
    """The resource version to go on from is no longer known (410): list again."""


class Unavailable(KubeError):
    """No answer, or an answer that asks to come back later (`retry_after` seconds)."""

    def __init__(self, reason: str, *, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


def said(error: BaseException) -> str:
    """What went wrong in words: `FILE: No such file or directory`, where Python would write `[Errno 2] … 'FILE'`."""
    if isinstance(error, OSError) and error.strerror and type(error).__str__ is OSError.__str__:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__
