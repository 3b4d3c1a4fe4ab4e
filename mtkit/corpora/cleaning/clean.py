"""Repair a window of pairs and judge it by the rules of a config."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mtkit.config.cleaning import CleanConfig
from mtkit.config.data import UNNAMED
from mtkit.console import log
from mtkit.corpora.cleaning.repair import check_steps, repair
from mtkit.corpora.cleaning.rules import OF_TWO_SIDES, RULES, Verdicts, active_rules
from mtkit.corpora.cleaning.window import Lines, Window
from mtkit.pair_files.pairs import Pair
from mtkit.quality.language import knows

# Characters of a side: anything longer is not a sentence, and judging it would take seconds.
LONGEST_JUDGED = 20_000


class Rejection(NamedTuple):
    """Why a pair is dropped: the first rule that rejects it, and the value that the rule saw."""

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


def check_rules(cfg: CleanConfig, langs: tuple[str, str]) -> None:
    """Warn before long work if the language of a side cannot be judged.

    Raises UsageError if a package that the rules need is not installed.
    """
    check_steps(cfg.repair)
    unjudged = {
        side: "no language is named" if lang in UNNAMED else f"it does not know {lang}"
        for side, lang in zip(("source", "target"), langs, strict=True)
        if cfg.language and not knows(lang)
    }
    if unjudged:
        sides = "neither side" if len(unjudged) == 2 else f"no {next(iter(unjudged))}"
        why = " and ".join(dict.fromkeys(unjudged.values()))
        advice = "; name both with, say, --langs en-de" if {*langs} & {*UNNAMED} else ""
        log.warning(f"the rule language judges {sides}, because {why}{advice}")


def judge(
    pairs: Sequence[Pair],
    langs: tuple[str, str],
    cfg: CleanConfig,
    scores: Sequence[float] | None = None,
    *,
    has_translations: bool = True,
) -> Judged:
    """Repair and judge consecutive pairs of one file. scores: of each pair, for the rule min_score.

    has_translations: whether the pairs have target sides; otherwise the rules judge the source sides alone.
    A pair with a side of more than LONGEST_JUDGED characters is neither repaired nor judged: max_letters drops it, even
    where it is off.
    """
    long = _too_long(pairs)
    src = repair(["" if i in long else pair.src for i, pair in enumerate(pairs)], cfg.repair)
    tgt = repair(["" if i in long else pair.tgt for i, pair in enumerate(pairs)], cfg.repair)
    window = Window(Lines(src, langs[0]), Lines(tgt, langs[1]), [pair.line for pair in pairs], scores, has_translations)
    idle = set() if has_translations else OF_TWO_SIDES
    alone = {name: RULES[name](window, cfg) if pairs and name not in idle else {} for name in active_rules(cfg)}
    if long:
        alone = {name: {i: why for i, why in found.items() if i not in long} for name, found in alone.items()}
        alone["max_letters"] = {**alone["max_letters"], **long}
        for i in long:
            src[i], tgt[i] = pairs[i].src, pairs[i].tgt
    rejections: list[Rejection | None] = [None] * len(pairs)
    for name, verdicts in reversed(alone.items()):  # the first rule has the last word
        for i, value in verdicts.items():
            rejections[i] = Rejection(name, value)
    n_changed = sum(pair[:2] != texts for pair, texts in zip(pairs, zip(src, tgt, strict=True), strict=True))
    return Judged(src, tgt, rejections, alone, n_changed)


def _too_long(pairs: Sequence[Pair]) -> dict[int, str]:
    """Return the pairs with a side of more than LONGEST_JUDGED characters, with the side and its length."""
    return {
        i: f"{name}: {len(text):,} characters"
        for i, pair in enumerate(pairs)
        for name, text in (("target", pair.tgt), ("source", pair.src))
        if len(text) > LONGEST_JUDGED
    }
