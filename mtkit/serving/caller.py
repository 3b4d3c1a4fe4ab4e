"""Who asks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Caller:
    """Who asks: a key's name, or "" for a caller without a key."""

    name: str = ""
    max_chars: int | None = None  # of one text; None: as the service's limits say


NOBODY = Caller()  # a caller without a key
