"""A sentence pair, as every reader yields it."""

from typing import Literal, NamedTuple

Side = Literal["src", "tgt"]
SIDES: tuple[Side, Side] = ("src", "tgt")


class Pair(NamedTuple):
    """A sentence, its translation, and their place."""

    src: str
    tgt: str
    file: str  # the source side's file, or the one that holds both sides
    line: int  # from 1
