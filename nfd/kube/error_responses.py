"""Error responses of the API server as exceptions, and which admission policy or webhook has denied a request."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from nfd.errors import Conflict, Expired, Forbidden, Invalid, KubeError, NotFound, Unauthorized, Unavailable

_LONGEST_REASON = 500
_LONGEST_SAID = 64 * 1024
_LONGEST_WAIT = 9
"""Digits of a Retry-After."""

_KINDS: dict[int, type[KubeError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
}
_CONTENT = (400, 413, 415, 422)
_WAIT = (408, 429)
_DENIED = re.compile(
    r"ValidatingAdmissionPolicy '(?P<policy>[^'\n]{1,253})' with binding '[^'\n]{0,253}' denied request"
    r'|admission webhook "(?P<webhook>[^"\n]{1,253})" denied the request'
)
"""As the API server words it (Kubernetes, apiserver/pkg/admission/plugin: policy/validating/dispatcher.go and
webhook/errors/statuserror.go)."""


def error_of(what: str, status: int, headers: Mapping[str, str], body: bytes) -> KubeError:
    """An error answer as the exception that says what it means."""
    answer = _status_object(body)
    said = str(answer.get("message") or answer.get("reason") or "")[:_LONGEST_SAID]
    reason = f"{what}: {status} {' '.join(said.split())[:_LONGEST_REASON]}".rstrip()
    if status in _WAIT or status >= 500:
        return Unavailable(reason, retry_after=_retry_after(headers))
    if by := denied_by(said):  # whatever the status: it is the policy's, or the webhook's, to choose
        return Invalid(reason, fields=_fields(answer), by=by, said=said)
    if status in _CONTENT:
        fields = _fields(answer)
        return Conflict(reason) if "metadata.uid" in fields else Invalid(reason, fields=fields, said=said)
    return _KINDS.get(status, KubeError)(reason)


def denied_by(said: str) -> str:
    """The admission policy or webhook that a message says has refused a request; "" if it says nothing of the kind."""
    found = _DENIED.search(said)
    if found is None:
        return ""
    policy, webhook = found["policy"], found["webhook"]
    return f"ValidatingAdmissionPolicy {policy}" if policy else f"webhook {webhook}"


def _status_object(body: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = {"message": body[:_LONGEST_REASON].decode(errors="replace").strip()}
    return answer if isinstance(answer, Mapping) else {}


def _fields(answer: Mapping[str, Any]) -> frozenset[str]:
    details = answer.get("details")
    causes = details.get("causes") if isinstance(details, Mapping) else None
    return frozenset(str(cause.get("field")) for cause in causes or () if isinstance(cause, Mapping))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    text = headers.get("Retry-After", "")
    return float(text) if len(text) <= _LONGEST_WAIT and text.isascii() and text.isdigit() else None
