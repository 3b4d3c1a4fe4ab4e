"""The job of `mtkit data score`: write a filter's score of each pair; the bytes do not depend on how work is divided.

Its stages: cut (corpora into windows), and score (a window's scores).
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from mtkit.bundle import SHAPING_FILES, BundleFiles, find_model, read_bundle
from mtkit.classification.classifier import Classifier
from mtkit.config.data import UNNAMED, CorpusFiles
from mtkit.console import counted, log
from mtkit.corpora.cleaning.clean import LONGEST_JUDGED
from mtkit.corpora.cleaning.cutting import Windows, cut
from mtkit.corpora.cleaning.repair import check_steps, repair
from mtkit.corpora.cleaning.sources import find_corpora
from mtkit.corpora.filter.pair_judge import FILE, GOOD, PairJudge, lexicon_file
from mtkit.data.corpus import corpus_name, read_corpus
from mtkit.errors import BundleError, UsageError
from mtkit.jobs.executors import Executor
from mtkit.jobs.job import Job, Stage, run_job
from mtkit.languages import are_one_language
from mtkit.pair_files.compression import open_output, pack, packing
from mtkit.pair_files.pairs import Languages, Pair, Tally
from mtkit.quality.language import foreign_lines

N_BINS = 10
_WINDOW_PAIRS = 5 * 4096  # of a shard: some seconds of work
_LOOKED_AT = 500  # pairs of a corpus whose language is looked at


@dataclass(frozen=True)
class ScoreResult:
    """The totals of a filter over all corpora."""

    n_pairs: int
    n_unread: int  # with a blank side, or one of more than LONGEST_JUDGED characters: their score is 0
    n_cut: int  # judged by their beginning, since a side has more tokens than the model reads
    bins: tuple[int, ...]  # pairs with a score from 0 up to 0.1, from there up to 0.2, ...


def read_filter(model: Path | None, overrides: Sequence[str] = ()) -> BundleFiles:
    """Read the bundle of a pair filter. Raises BundleError if there is none, or if it is another model."""
    folder = find_model(model)
    files = read_bundle(folder, overrides, task="classify")
    data = files.config.data
    if not data.pairs or GOOD not in data.labels:
        reads = "pairs" if data.pairs else "single texts"
        raise BundleError(
            f"{folder}: a classifier of {reads} with the labels {', '.join(data.labels[:5])}, not a pair filter; train "
            "one with mtkit data train-filter, or use this one with mtkit classify"
        )
    lexicon_file(files)
    return files


def corpora_for(files: BundleFiles, arguments: Sequence[Path], langs: str | None) -> list[CorpusFiles]:
    """Return the corpora that a command names, in the filter's languages; arguments as for `find_corpora`.

    Warns if much of the text is in another language. Raises UsageError if other languages are named.
    """
    own = files.config.data.src_lang, files.config.data.tgt_lang
    corpora, named = find_corpora(arguments, langs)
    if own == UNNAMED:
        return corpora
    if named == UNNAMED:
        corpora, named = find_corpora(arguments, ",".join(own))
    if not _are_same(own, named):
        hint = "train a filter of these languages"
        if _are_same(own, (named[1], named[0])):
            hint = f"give the sides in the filter's order (two text files with --langs {'-'.join(own)})"
        raise UsageError(
            f"{files.folder} judges {'-'.join(own)}, but the corpora are {'-'.join(named)}, by their names, a config "
            f"or --langs; {hint}"
        )
    for corpus in corpora:
        _look_at_languages(corpus, own, files.folder)
    return corpora


def _are_same(one: Languages, other: Languages) -> bool:
    return all(are_one_language(*codes) for codes in zip(one, other, strict=True))


def _look_at_languages(corpus: CorpusFiles, langs: Languages, model: Path) -> None:
    """Warn if most of the first pairs have a side in another language."""
    pairs = list(islice(read_corpus(corpus, Tally()), _LOOKED_AT))
    for side, (texts, lang, other) in {
        "source": ([pair.src for pair in pairs], langs[0], langs[1]),
        "target": ([pair.tgt for pair in pairs], langs[1], langs[0]),
    }.items():
        foreign: dict[int, str] = {}
        with suppress(UsageError):  # the package is not installed
            foreign = foreign_lines(texts, lang, other, [pair.line for pair in pairs])
        if 2 * len(foreign) > len(pairs):
            [(most, _)] = Counter(foreign.values()).most_common(1)
            log.warning(
                f"{corpus_name(corpus)}: the {side} side of most pairs looks like {most}, but "
                f"{model} judges {'-'.join(langs)}: its scores may mean nothing"
            )


def run_scoring(
    corpora: Sequence[CorpusFiles],
    files: BundleFiles,
    output: Path,
    *,
    overrides: Sequence[str] = (),
    device: str = "auto",
    executor: Executor,
    restart: bool = False,
) -> ScoreResult:
    """Write the probability that each pair is good, one line per pair of all corpora in order; resume if interrupted.

    Repairs the text as that which the filter learned from. overrides: of the filter's decode section. Raises DataError
    if a corpus cannot be read, UsageError if a package is missing, and what `run_job` raises.
    """
    cfg, suffix = files.config, packing(output)
    check_steps(cfg.clean.repair)

    def make(job: Job) -> ScoreResult:
        windows = cut(job, corpora, _WINDOW_PAIRS)
        task = _Score(windows, files.folder, tuple(overrides), device, f"scores{suffix}")
        n = len(windows)
        counts = Counter[str]()
        for of_window in job.run(Stage("score", task, n, windows.sizes, " pairs", windows.place)):
            counts.update(of_window)
        empty = pack(b"", suffix) if not n else b""  # an empty compressed file still has a header
        job.finish(lambda: job.concatenate("score", range(n), task.name, output, header=empty))
        bins = tuple(counts[f"bin {i}"] for i in range(N_BINS))
        return ScoreResult(sum(windows.sizes), counts["unread"], counts["cut"], bins)

    return run_job(
        output,
        make,
        inputs=[path for corpus in corpora for path in corpus.paths],
        settings={
            "model": {name: files.manifest["sha256"][name] for name in (*SHAPING_FILES, FILE)},
            "precision": cfg.decode.precision,
            "max_src_tokens": cfg.decode.max_src_tokens,
            "repair": cfg.clean.repair,
            "read": [corpus.langs for corpus in corpora],  # of the files' languages
            "device": device,
            "packing": suffix,
        },
        executor=executor,
        restart=restart,
    )


@dataclass(frozen=True)
class _Score:
    """Scores the pairs of one window a shard."""

    windows: Windows
    model: Path
    overrides: tuple[str, ...]
    device: str
    name: str  # of the file of scores
    keeps_state = True  # the model

    @cached_property
    def _judge(self) -> PairJudge:
        return PairJudge.load(Classifier.load(self.model, device=self.device, overrides=self.overrides, threads=1))

    def __call__(self, index: int, folder: Path) -> dict[str, int]:
        steps = self._judge.classifier.files.config.clean.repair
        pairs = [_readable(pair) for pair in self.windows.read(index)]
        src, tgt = (repair(texts, steps) for texts in zip(*pairs, strict=True))
        probs, is_unread, is_cut = self._judge.scores(list(zip(src, tgt, strict=True)))
        with open_output(folder / self.name) as file:
            file.writelines(f"{prob:.4f}\n" for prob in probs.tolist())
        bins = Counter(np.minimum((probs.round(4) * N_BINS).astype(int), N_BINS - 1).tolist())
        return {
            "unread": int(is_unread.sum()),
            "cut": int(is_cut.sum()),
            **{f"bin {i}": n for i, n in bins.items()},
        }


def _readable(pair: Pair) -> tuple[str, str]:
    """Return the texts of a pair; a text that is not a sentence becomes blank."""
    return ("", "") if max(len(pair.src), len(pair.tgt)) > LONGEST_JUDGED else (pair.src, pair.tgt)


def table(result: ScoreResult) -> list[str]:
    """Return the distribution of the scores, and what was not read, as lines to print."""
    lines = [f"{'score':<12}{'pairs':>14}  share"]
    for i in reversed(range(N_BINS)):
        n = result.bins[i]
        lines.append(f"{i / N_BINS:.1f} to {(i + 1) / N_BINS:.1f}  {n:>14,}  {n / max(1, result.n_pairs):.1%}")
    if result.n_unread:
        lines.append(f"{counted(result.n_unread, 'pair')} with a side that is blank, or no sentence, got 0.0000")
    if result.n_cut:
        lines.append(f"{counted(result.n_cut, 'pair')} too long for the filter were judged by their beginning")
    return lines
