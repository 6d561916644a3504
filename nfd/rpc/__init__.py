"""What worker and master say to each other over gRPC: `labeler.proto`, its values, its client and its server."""

SERVICE = "labeler.Labeler"

RETRY_AFTER = "retry-after-ms"
"""Trailing metadata of a refusal: milliseconds to wait before the next try."""

LEADER = "nfd-leader"
"""Trailing metadata of a FAILED_PRECONDITION: `host:port` of the master that takes reports."""
