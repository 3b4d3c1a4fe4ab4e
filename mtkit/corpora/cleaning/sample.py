"""Try a cleaning on a sample: show with examples what each rule would drop, and estimate the time for everything."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mtkit.config.cleaning import CleanConfig
from mtkit.config.data import CorpusFiles
from mtkit.console import progress_bar
from mtkit.corpora.cleaning.clean import Judged, judge
from mtkit.corpora.cleaning.rules import active_rules
from mtkit.data.corpus import count_pairs, evenly_spaced, read_pairs
from mtkit.pair_files.lines import windows
from mtkit.pair_files.pairs import Pair
from mtkit.quality.language import BLOCK

SAMPLE_PAIRS = 20_000
_AT_ONCE = 256 * BLOCK
_N_EXAMPLES = 3
_READINGS = 3  # how often the real cleaning reads or writes the text


@dataclass(frozen=True)
class Example:
    """A pair that a rule would drop."""

    file: str
    line: int
    value: str
    src: str
    tgt: str


@dataclass
class SampleResult:
    """The effect of the rules on the sample."""

    n_pairs: int  # in the corpora
    n_sampled: int = 0
    n_changed: int = 0
    alone: Counter[str] = field(default_factory=Counter)  # by rule: pairs that it would drop if it were the only one
    dropped: Counter[str] = field(default_factory=Counter)  # by rule: pairs that it is the first to drop
    examples: dict[str, list[Example]] = field(default_factory=dict)  # of what a rule would drop alone
    estimated_s: float = 0.0  # of the whole cleaning

    def add(self, pairs: Sequence[Pair], judged: Judged) -> None:
        """Count the verdicts about some pairs of the sample."""
        self.n_sampled += len(pairs)
        self.n_changed += judged.n_changed
        for rule, verdicts in judged.alone.items():
            self.alone[rule] += len(verdicts)
            self.examples.setdefault(rule, []).extend(
                Example(pairs[i].file, pairs[i].line, value, pairs[i].src, pairs[i].tgt)
                for i, value in verdicts.items()
            )
        self.dropped.update(rejection.rule for rejection in judged.rejections if rejection)


def try_rules(corpora: Sequence[CorpusFiles], langs: tuple[str, str], cfg: CleanConfig, n_workers: int) -> SampleResult:
    """Judge about SAMPLE_PAIRS pairs in evenly spaced blocks. n_workers: of the cleaning whose time is estimated."""
    sizes = [count_pairs([corpus]) for corpus in corpora]
    result = SampleResult(sum(sizes))
    judge([Pair("a", "b", "", 1)], langs, cfg)  # loads what the rules need, which should not count as time per pair
    started, judging_s = time.perf_counter(), 0.0
    with progress_bar(result.n_pairs, "sample", " pairs") as bar:
        for corpus, size in zip(corpora, sizes, strict=True):
            share = min(1.0, SAMPLE_PAIRS / max(1, result.n_pairs))
            for pairs in windows(_blocks(read_pairs([corpus]), size, share, bar.update), _AT_ONCE):
                before = time.perf_counter()
                result.add(pairs, judge(pairs, langs, cfg, has_translations=not corpus.is_untranslated))
                judging_s += time.perf_counter() - before
    reading_s = time.perf_counter() - started - judging_s
    for rule in active_rules(cfg):
        result.examples[rule] = evenly_spaced(result.examples.get(rule, []), _N_EXAMPLES)
    per_pair = judging_s / max(1, result.n_sampled)
    result.estimated_s = _READINGS * reading_s + per_pair * result.n_pairs / n_workers
    return result


def _blocks(pairs: Iterable[Pair], size: int, share: float, advance: Callable[[int], object]) -> Iterator[Pair]:
    """Yield this share of the pairs, in whole blocks at equal distances; the rule `language` judges block by block."""
    n_blocks = -(-size // BLOCK)
    n_chosen = max(1, round(share * n_blocks))
    chosen = {i * n_blocks // n_chosen for i in range(n_chosen)}
    for number, block in enumerate(windows(pairs, BLOCK)):
        advance(len(block))
        if number in chosen:
            yield from block
