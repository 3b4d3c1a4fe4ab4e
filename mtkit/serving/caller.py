"""The caller of a request."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Caller:
    """The caller of a request: the name of its key, or "" without a key."""

    name: str = ""
    max_chars: int | None = None  # of one text; None: as the service's limits say


NOBODY = Caller()  # a caller without a key
