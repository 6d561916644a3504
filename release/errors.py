"""What ends a release before anything is published."""


class ReleaseError(Exception):
    """What is wrong, and what to do about it, for the person who makes the release."""
