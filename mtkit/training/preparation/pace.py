"""Choose the size of updates for a budget, and estimate their number and the quality that they reach.

A short budget has time for few updates. Small batches then learn more than large ones, although they are slower per
token: on Tatoeba, German to English, two cores and 15 minutes, 3,900 updates of 1,024 tokens gave a BLEU of 38.1, and
1,100 of 4,096 tokens 35.7.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mtkit.config.durations import duration_of
from mtkit.config.schema import Config
from mtkit.console import counted, log
from mtkit.data.batching import Batch, make_batch
from mtkit.data.encoded import EncodedCorpus, EncodedSide, PairsInMemory, starts_of
from mtkit.data.mixture import Draw, Mixture, draws_of, uniform
from mtkit.languages import SIDES
from mtkit.training.preparation.auto_batch import pairs_of_length
from mtkit.training.preparation.learning_curve import LANGUAGES, ExpectedBleu
from mtkit.training.preparation.rule import (
    BATCH_SIZES,
    DROPOUTS,
    ENOUGH_UPDATES,
    EPOCHS_WITHOUT_DROPOUT,
    NARROW_MODEL,
    R_DROP,
    SHALLOW_DECODER,
    SHALLOW_MODEL,
    UPDATES_OF_NARROW,
    faster_rate,
    should_be_narrow,
    should_be_shallow,
    should_have_r_drop,
    should_have_shallow_decoder,
)
from mtkit.training.update.optimizer_step import Updater
from mtkit.training.update.schedule import LONGEST_WARMUP, r_drop_shares

_TRY_S, _TRY = 3.0, 0.01  # most seconds, and share of the training time, to measure a size
_LENGTHS = (0.2, 0.5, 0.8)  # quantiles of the lengths to measure with
_RANDOM_LENGTHS = (8, 12, 20)  # tokens of a sentence, to measure with before the text is encoded
WORTH_OF_TRANSLATOR = {  # of a run with fewer updates, trained on real text from the beginning
    400: "expect nothing usable; a translator needs thousands of updates",
    1000: "expect rough translations at best; a translator needs thousands of updates",
}
_FEWEST_PAIRS = 2000  # from which a translator learns more than single words
_SLOW = 10  # the first updates, in which kernels are made
_BETWEEN_LOOKS = 0.04  # share of a run, at least
_WRONG = 1.25  # a forecast that is off by this factor is given again


def fit_batches(
    cfg: Config,
    corpus: EncodedCorpus,
    make_updater: Callable[[Config], Updater],
    training_s: float,
    n_processes: int,
    mixtures: Sequence[Mixture] | None = None,
    reasons: dict[str, str] | None = None,
    text_times: float = 1.0,
) -> tuple[Config, int]:
    """Return cfg with batch size, learning rate and dropout of its budget, and the updates that fit into training_s.

    Values in the config take precedence. Otherwise, the batch size is the largest one, up to the default, that leaves
    enough updates, or the smallest. A model with too few updates gets fewer layers, then becomes narrower. A narrow
    model with few updates, or without a schedule, gets a faster learning rate. A translator that sees its pairs
    few times gets no dropout, and one that sees them often gets R-Drop. training_s: seconds.
    make_updater: creates a temporary model to measure with. n_processes: number of processes that share an update.
    mixtures: the mixtures of the corpora; default: each pair once an epoch. reasons: receives each chosen value with
    its reason, by key. text_times: how many times as large the text of the run is, if the corpus is a part of it.
    """
    reasons = {} if reasons is None else reasons
    written, n_batches = cfg.train.batch_tokens, max(1, cfg.train.accumulate // n_processes)
    sizes = [written] if isinstance(written, int) else BATCH_SIZES
    draws = [draws_of(mixture, corpus) for mixture in mixtures or [uniform(corpus.sizes)]]
    fresh, all_text = text_times * min(map(_tokens_before_repeats, draws)), text_times * _tokens_of_text(draws)
    own, size, n_updates = cfg.model, *_fit_size(sizes, make_updater(cfg), corpus, n_batches, training_s)

    def choose(
        section: str, values: Mapping[str, float], why: str, sizes: Sequence[int] = sizes, least: int = 0
    ) -> None:
        """Change the values, unless they leave fewer updates than least."""
        nonlocal cfg, size, n_updates
        changed = cfg.model_copy(update={section: getattr(cfg, section).model_copy(update=values)})
        found = _fit_size(sizes, make_updater(changed), corpus, n_batches, training_s)
        if found[1] >= least:
            reasons.update({f"{section}.{key}": f"{value:g}, because {why}" for key, value in values.items()})
            cfg, (size, n_updates) = changed, found

    def would_leave(smaller: Mapping[str, int]) -> str:
        larger = ", ".join(f"{key}={getattr(cfg.model, key)}" for key in smaller)
        return f"{larger} would leave {counted(n_updates, 'update')}"

    def n_tokens() -> int:
        return n_updates * cfg.train.accumulate * size

    if cfg.task == "translate":
        if should_be_shallow(own, n_updates):
            choose("model", SHALLOW_MODEL, would_leave(SHALLOW_MODEL))
        if should_have_shallow_decoder(own, cfg.model, times := n_tokens() / all_text):
            choose("model", SHALLOW_DECODER, f"the run reads its text {times:.1f} times")
        if should_be_narrow(own, n_updates, n_tokens(), times := n_tokens() / all_text):
            why = f"{would_leave(NARROW_MODEL)}, which read the text {times:.1f} times"
            choose("model", NARROW_MODEL, why, least=UPDATES_OF_NARROW * n_updates)
        if should_have_r_drop(cfg, times := n_tokens() / all_text):
            choose("train", R_DROP, f"the run reads its text {times:.0f} times without it", [size])
    if written is None:
        reasons["train.batch_tokens"] = f"{size}, for about {counted(n_updates, 'update')} in {duration_of(training_s)}"
    cfg = cfg.model_copy(update={"train": cfg.train.model_copy(update={"batch_tokens": size})})
    return _with_rates(cfg, n_updates, n_tokens() < EPOCHS_WITHOUT_DROPOUT * fresh, reasons), n_updates


def _with_rates(cfg: Config, n_updates: int, is_short: bool, reasons: dict[str, str]) -> Config:
    """Return cfg with the learning rate and the dropout of a run of n_updates. is_short: it has few epochs."""
    changed: dict[str, Any] = {}
    rate = faster_rate(cfg.train, n_updates, cfg.model)
    if rate is not None and "lr" not in cfg.train.model_fields_set and cfg.train.init_from is None:
        changed["train"] = cfg.train.model_copy(update={"lr": rate})
        is_of_any_run = rate == faster_rate(cfg.train, sys.maxsize, cfg.model)
        why = f"with {cfg.train.schedule}" if is_of_any_run else "because the budget leaves few updates"
        reasons["train.lr"] = f"{rate:g}, {why}"
    if (warmup := round(LONGEST_WARMUP * n_updates)) < cfg.train.warmup_steps:
        reasons["train.warmup_steps"] = f"about {warmup}, because it takes at most {LONGEST_WARMUP:.0%} of the budget"
    unwritten = {key: 0.0 for key in DROPOUTS if key not in cfg.model.model_fields_set and getattr(cfg.model, key)}
    if cfg.task == "translate" and unwritten and not cfg.train.r_drop and is_short:
        changed["model"] = cfg.model.model_copy(update=unwritten)
        reasons |= {
            f"model.{key}": f"0, because the budget is over within {EPOCHS_WITHOUT_DROPOUT} epochs" for key in unwritten
        }
    return cfg.model_copy(update=changed)


def updates_without_text(
    make_updater: Callable[[Config], Updater], cfg: Config, training_s: float, size: int, n_batches: int
) -> int:
    """Return how many updates fit into training_s, of the written or the smallest size: measured with random tokens.

    make_updater, training_s: as in fit_batches. size: number of pieces of each side. n_batches: in each update.
    """
    cfg = cfg.model_copy(update={"train": cfg.train.model_copy(update={"guided_alignment": 0.0})})  # needs the text
    random = np.random.default_rng(0)
    n_tokens = cfg.train.batch_tokens if isinstance(cfg.train.batch_tokens, int) else BATCH_SIZES[0]
    batches = []
    for length in (min(length, cfg.data.max_tokens) for length in _RANDOM_LENGTHS):
        n = max(1, n_tokens // (length + 1))
        lengths = np.full(n, length, np.int32)
        sides = [EncodedSide(random.integers(4, size, n * length), starts_of(lengths), lengths) for _ in SIDES]
        batches.append(make_batch(PairsInMemory(*sides), np.arange(n)))
    return int(training_s / _seconds_of(make_updater(cfg), batches, n_batches, training_s))


def _fit_size(
    sizes: Sequence[int], updater: Updater, corpus: EncodedCorpus, n_batches: int, training_s: float
) -> tuple[int, int]:
    """Return the largest batch size that leaves enough updates, or else the smallest, and its number of updates."""
    size, n_updates = 0, 0
    for n_tokens in sizes:
        fitting = int(training_s / _seconds_per_update(updater, corpus, n_tokens, n_batches, training_s))
        if size and fitting < ENOUGH_UPDATES:
            break
        size, n_updates = n_tokens, fitting
        if n_updates < ENOUGH_UPDATES:
            break
    return size, n_updates


def _tokens_of_text(stages: Sequence[Sequence[Draw]]) -> float:
    """Return how many tokens the pairs that the run draws have, each counted once. stages: the draws in each."""
    return sum(
        max(draw.n_pairs * draw.tokens_per_pair if draw.passes else 0.0 for draw in of_corpus)
        for of_corpus in zip(*stages, strict=True)
    )


def _tokens_before_repeats(draws: Sequence[Draw]) -> float:
    """Return how many tokens a run with these draws reads before it repeats a pair."""
    tokens_of_epoch = sum(draw.n_pairs * draw.passes * draw.tokens_per_pair for draw in draws)
    return tokens_of_epoch / max(draw.passes for draw in draws)


def _seconds_per_update(
    updater: Updater, corpus: EncodedCorpus, n_tokens: int, n_batches: int, training_s: float
) -> float:
    """Measure updates of short, medium and long sentences in turn."""
    batches = [make_batch(corpus, pairs_of_length(corpus, n_tokens, quantile)) for quantile in _LENGTHS]
    return _seconds_of(updater, batches, n_batches, training_s)


def _seconds_of(updater: Updater, batches: Sequence[Batch], n_batches: int, training_s: float) -> float:
    """Measure updates of n_batches of each of these batches in turn, with and without R-Drop as the run has it."""
    updates_per_s = 0.0
    for r_drop, share in r_drop_shares(updater.cfg).items():
        for batch in batches:  # kernels are made at their first use
            updater.update([batch], 1, 0.0, r_drop=r_drop)
        started, n_updates = time.perf_counter(), 0
        while not n_updates or time.perf_counter() - started < share * min(_TRY_S, _TRY * training_s):
            for batch in batches:
                updater.update([batch] * n_batches, 1, 0.0, r_drop=r_drop)
            n_updates += len(batches)
        updates_per_s += share * n_updates / (time.perf_counter() - started)
    return 1 / updates_per_s


class Outlook:
    """Forecasts the updates of a run before its first one, and again if their speed, with all waiting, is another.

    The first forecast rests on a few seconds, in which other programs may leave more of the machine than later.
    """

    def __init__(
        self,
        updates_per_epoch: int,
        worth: Mapping[int, str] = WORTH_OF_TRANSLATOR,
        bleu_after: Callable[[int], ExpectedBleu | None] = lambda _: None,
    ) -> None:
        """worth: for each number of updates, the expected quality of a run with fewer, in words.

        bleu_after: returns the BLEU on dev to expect after a number of updates; None: there is no forecast.
        """
        self._worth, self._bleu_after = worth, bleu_after
        self._updates_per_epoch = updates_per_epoch
        self._forecast = 0
        self._before: tuple[int, float] | None = None  # step and share at the latest look

    def begin(self, n_updates: int) -> None:
        """Log the expected quality after this many updates."""
        self._log(n_updates, "this run:", is_news=True)

    def look(self, step: int, share: float | None) -> None:
        """Log a new forecast if the speed since the last look, validations included, shows that the latest is wrong.

        step: number of updates so far; share: of all updates of the run; None: nothing limits them.
        """
        if share is None or step < _SLOW:
            return
        if self._before is None or step < self._before[0]:  # after a divergence, the run goes back
            self._before = step, share  # of this start, or since then
        step_before, before = self._before
        if share < 2 * before or share < before + _BETWEEN_LOOKS:
            return
        self._before = step, share
        n_updates = step + round((1 - min(1.0, share)) * (step - step_before) / (share - before))
        is_news = worth_of(n_updates, self._worth) != worth_of(self._forecast, self._worth)
        if is_news or not 1 / _WRONG < n_updates / max(1, self._forecast) < _WRONG:
            self._log(n_updates, "at this speed the run makes", is_news)

    def _log(self, n_updates: int, beginning: str, is_news: bool) -> None:
        """Log a forecast, as a warning if it is bad news."""
        tell = log.warning if is_news and worth_of(n_updates, self._worth) else log.info
        epochs, bleu = n_updates / self._updates_per_epoch, self._bleu_after(n_updates)
        tell(f"{beginning} {expectation(n_updates, epochs, self._worth, bleu)}")
        self._forecast = n_updates


def expectation(
    n_updates: int,
    epochs: float,
    worth_below: Mapping[int, str] = WORTH_OF_TRANSLATOR,
    bleu: ExpectedBleu | None = None,
) -> str:
    """Return the length of a run and its expected quality: "about 90 updates, 0.2 epochs: expect nothing usable"."""
    parts = [f"about {counted(n_updates, 'update')}, {epochs:.1f} epochs"]
    parts += [f"expect a dev BLEU of {bleu}, by runs with {LANGUAGES}"] if bleu else []
    parts += [worth] if (worth := worth_of(n_updates, worth_below)) else []
    return ": ".join(parts[:2]) + "".join(f"; {part}" for part in parts[2:])


def worth_by_updates(n_pairs: int) -> Mapping[int, str]:
    """Return WORTH_OF_TRANSLATOR, or what a run of any length is worth if the pairs are too few to learn from."""
    if n_pairs >= _FEWEST_PAIRS:
        return WORTH_OF_TRANSLATOR
    advice = "`mtkit adapt` can teach them to a model that knows both languages"
    return {sys.maxsize: f"expect nothing usable; {counted(n_pairs, 'pair')} are too few to learn from, but {advice}"}


def worth_of(n_updates: int, worth_below: Mapping[int, str] = WORTH_OF_TRANSLATOR) -> str:
    """Return the expected quality of a model trained on real text from the beginning; "" if it may be usable."""
    for few, worth in worth_below.items():
        if n_updates < few:
            return worth
    return ""
