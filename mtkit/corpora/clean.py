"""Judge pairs by the rules of a config: a window of pairs in, repaired text and rejections out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mtkit.config.cleaning import CleanConfig
from mtkit.corpora.repair import repair
from mtkit.corpora.rules import RULES, Verdicts, active_rules
from mtkit.corpora.window import Lines, Window
from mtkit.formats.pairs import Pair


class Rejection(NamedTuple):
    """Why a pair is dropped: the first rule that says so, and the value it saw."""

    rule: str
    value: str


@dataclass(frozen=True)
class Judged:
    """A window's verdicts."""

    src: list[str]  # repaired, of all pairs
    tgt: list[str]
    rejections: list[Rejection | None]  # of each pair; None: it is kept
    alone: dict[str, Verdicts]  # by rule: what each would drop if it were the only one
    n_changed: int  # pairs of which repairs changed the text


def judge(
    pairs: Sequence[Pair], langs: tuple[str, str], cfg: CleanConfig, scores: Sequence[float] | None = None
) -> Judged:
    """Repair and judge pairs in a row, of one file. scores: of each pair, for the rule min_score."""
    src = repair([pair.src for pair in pairs], cfg.repair)
    tgt = repair([pair.tgt for pair in pairs], cfg.repair)
    window = Window(Lines(src, langs[0]), Lines(tgt, langs[1]), [pair.line for pair in pairs], scores)
    alone = {name: RULES[name](window, cfg) if pairs else {} for name in active_rules(cfg)}
    rejections: list[Rejection | None] = [None] * len(pairs)
    for name, verdicts in reversed(alone.items()):  # the first rule has the last word
        for i, value in verdicts.items():
            rejections[i] = Rejection(name, value)
    n_changed = sum(pair[:2] != texts for pair, texts in zip(pairs, zip(src, tgt, strict=True), strict=True))
    return Judged(src, tgt, rejections, alone, n_changed)
