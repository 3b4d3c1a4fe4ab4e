"""The job of `mtkit data clean`: write kept and dropped pairs; the bytes do not depend on how work is divided.

Its stages: cut (corpora into windows), scores (a file of numbers into an array), rules (a window's verdicts),
repeats-pair, near-repeats and translations (what only the whole corpus shows), and write (a window's kept and dropped
pairs).
"""

import importlib.metadata
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtkit.config.cleaning import CleanConfig
from mtkit.config.data import CorpusFiles
from mtkit.corpora.cleaning.clean import judge
from mtkit.corpora.cleaning.cutting import Windows, cut
from mtkit.corpora.cleaning.near_repeats import NearRepeats, find_near_repeats, write_sketches
from mtkit.corpora.cleaning.outputs import Output
from mtkit.corpora.cleaning.repeats import Repeats, find_repeats, write_keys
from mtkit.corpora.cleaning.rules import active_rules
from mtkit.corpora.cleaning.translations import Translations, find_translations, write_sources
from mtkit.errors import DataError
from mtkit.jobs.executors import Executor
from mtkit.jobs.job import Counts, Job, Stage, run_job
from mtkit.jobs.shards import shard_folder
from mtkit.pair_files.compression import open_output, pack, packing
from mtkit.pair_files.corpus_files import read_tsv, writing
from mtkit.pair_files.lines import as_column, read_scores
from mtkit.pair_files.pairs import Pair, Tally, place_of

WINDOW_PAIRS = 5 * 4096  # of a shard: a multiple of the blocks of `language`
_AT_ONCE = 4096  # pairs that are judged together
_COLUMNS = ("file", "line or unit", "rule", "value", "source", "target")  # of the file of dropped pairs
_CHANGED = "changed"


@dataclass(frozen=True)
class CleanResult:
    """The totals of a cleaning over all corpora."""

    n_pairs: int
    n_changed: int  # with repaired text
    n_kept: int
    alone: dict[str, int]  # by rule in order: how many pairs it would drop alone; not for rules about the whole corpus
    dropped: dict[str, int]  # by rule in order: how many pairs it was the first to drop


def run_clean(
    corpora: Sequence[CorpusFiles],
    langs: tuple[str, str],
    cfg: CleanConfig,
    outputs: Sequence[Output],
    *,
    executor: Executor,
    restart: bool = False,
) -> CleanResult:
    """Clean corpora, or resume an interrupted cleaning.

    Raises DataError if a corpus or the scores cannot be read, and what `run_job` raises.
    """

    def make(job: Job) -> CleanResult:
        windows = cut(job, corpora, WINDOW_PAIRS)
        n_pairs = sum(windows.sizes)
        scores = _read_scores(job, cfg, n_pairs)
        firsts = [0, *np.cumsum(windows.sizes).tolist()]
        judged = job.run(_stage("rules", _Judge(windows, langs, cfg, scores, firsts), windows))
        n_left = sum(counts["left"] for counts in judged)
        repeats = find_repeats(job, "rules", len(windows), n_left, "pair") if cfg.duplicates else None
        near = find_near_repeats(job, "rules", len(windows), n_left) if cfg.near_duplicates else None
        others = _chosen(job, cfg, len(windows), n_left)
        write = _Write(windows, job.folder / "rules", outputs, repeats, near, others)
        written = job.run(_stage("write", write, windows))
        job.finish(lambda: _join(job, outputs, windows, langs))
        return _result(n_pairs, cfg, judged, written)

    return run_job(
        outputs[0].kept[0],
        make,
        inputs=_files_of(corpora, cfg),
        settings={
            "langs": langs,
            "read": [corpus.langs for corpus in corpora],  # of the files' languages
            "clean": cfg.model_dump(mode="json", exclude={"score"}),
            "outputs": [[*output.shard_names, output.rejected_name, str(output.corpora)] for output in outputs],
            "packages": {name: importlib.metadata.version(name) for name in _packages(cfg)},
        },
        executor=executor,
        restart=restart,
    )


def _chosen(job: Job, cfg: CleanConfig, n_windows: int, n_pairs: int) -> Translations | None:
    if cfg.translations == "all":
        return None
    return find_translations(job, "rules", n_windows, n_pairs, cfg.translations)


def _packages(cfg: CleanConfig) -> list[str]:
    """Return the packages whose version can change a verdict."""
    return (["ftfy"] if "mojibake" in cfg.repair else []) + (["py3langid"] if cfg.language else [])


def _files_of(corpora: Sequence[CorpusFiles], cfg: CleanConfig) -> list[Path]:
    files = [path for corpus in corpora for path in corpus.paths]
    return files + ([cfg.score] if cfg.score is not None else [])


def _stage(name: str, task: "_Judge | _Write", windows: Windows) -> Stage:
    return Stage(name, task, len(windows), sizes=windows.sizes, unit=" pairs", place=windows.place)


@dataclass(frozen=True)
class _Judge:
    """Judges the pairs of one window a shard."""

    windows: Windows
    langs: tuple[str, str]
    cfg: CleanConfig
    scores: Path | None
    firsts: Sequence[int]  # of each window: the index of its first pair among those of all corpora

    def __call__(self, index: int, folder: Path) -> dict[str, int]:
        pairs, has_translations = self.windows.read(index), not self.windows.is_untranslated(index)
        scores = np.load(self.scores, mmap_mode="r")[self.firsts[index] :] if self.scores else None
        counts: Counter[str] = Counter(pairs=len(pairs))
        src: list[str] = []
        tgt: list[str] = []
        rejections: list[tuple[int, str, str]] = []  # index, rule, value
        for start in range(0, len(pairs), _AT_ONCE):
            part = pairs[start : start + _AT_ONCE]
            own_scores = None if scores is None else scores[start : start + len(part)].tolist()
            judged = judge(part, self.langs, self.cfg, own_scores, has_translations=has_translations)
            src += judged.src
            tgt += judged.tgt
            rejections += [(start + i, *why) for i, why in enumerate(judged.rejections) if why is not None]
            counts[_CHANGED] += judged.n_changed
            counts.update({f"alone.{rule}": len(verdicts) for rule, verdicts in judged.alone.items()})
        counts["left"] = len(pairs) - len(rejections)
        write_texts(folder / "src", src)
        write_texts(folder / "tgt", tgt)
        (folder / "rejections.json").write_text(json.dumps(rejections), "utf-8")
        dropped = {i for i, _, _ in rejections}
        if self.cfg.duplicates:
            texts = (None if i in dropped else f"{s}\n{t}" for i, (s, t) in enumerate(zip(src, tgt, strict=True)))
            write_keys(folder, "pair", texts, [pair.line for pair in pairs])
        left = [i for i in range(len(pairs)) if i not in dropped]
        if self.cfg.near_duplicates:
            write_sketches(folder, [(src[i], tgt[i]) for i in left], left, [pairs[i].line for i in left])
        if self.cfg.translations != "all":
            translated = left if has_translations else []
            write_sources(folder, [src[i] for i in translated], [tgt[i] for i in translated], translated)
        return dict(counts)


@dataclass(frozen=True)
class _Write:
    """Writes the kept and the dropped pairs of one window a shard."""

    windows: Windows
    judged: Path  # the folder of the stage rules
    outputs: Sequence[Output]
    repeats: Repeats | None
    near: NearRepeats | None
    translations: Translations | None

    def __call__(self, index: int, folder: Path) -> dict[str, int]:
        own = self.judged_folder(index)
        src, tgt = read_texts(own / "src"), read_texts(own / "tgt")
        why = {i: (rule, value) for i, rule, value in json.loads((own / "rejections.json").read_text("utf-8"))}
        if self.translations is not None:
            for i, value in self.translations.of_shard(index).items():
                why.setdefault(i, ("translations", value))
        if self.near is not None:
            for i, near in self.near.of_shard(index).items():
                place = place_of(self.windows.file(near.first_shard), near.first_line)
                why[i] = ("near_duplicates", f"nearly the same as {place}")
        if self.repeats is not None:  # a repeated pair is one, whatever the policy on translations says
            for i, repeat in self.repeats.of_shard(index).items():
                place = place_of(self.windows.file(repeat.first_shard), repeat.first_line)
                why[i] = ("duplicates", f"same as {place}")
        output = self.output_of(index)
        self._write_kept(
            folder, output, [(s, t) for i, (s, t) in enumerate(zip(src, tgt, strict=True)) if i not in why]
        )
        pairs = self.windows.read(index)
        with open_output(folder / output.rejected_name) as out:
            out.writelines(_row(pairs[i], *why[i]) for i in sorted(why))
        counts = Counter(f"dropped.{rule}" for rule, _ in why.values())
        return {"kept": len(src) - len(why), **counts}

    def judged_folder(self, index: int) -> Path:
        """Return the path of a window's verdicts."""
        return shard_folder(self.judged, index)

    def output_of(self, index: int) -> Output:
        """Return the path for a window's pairs."""
        corpus = self.windows.windows[index][0]
        return next(output for output in self.outputs if corpus in output.corpora)

    def _write_kept(self, folder: Path, output: Output, kept: Sequence[tuple[str, str]]) -> None:
        names = output.shard_names
        if names[0].startswith("pairs"):
            columns = [[f"{as_column(s)}\t{as_column(t)}\n" for s, t in kept]]
        else:
            columns = [[f"{pair[side]}\n" for pair in kept] for side in range(len(names))]
        for name, lines in zip(names, columns, strict=True):
            with open_output(folder / name) as out:
                out.writelines(lines)


def write_texts(path: Path, texts: Sequence[str]) -> None:
    """Write texts without LF, one a line."""
    path.write_text("".join(f"{text}\n" for text in texts), "utf-8", newline="\n")


def read_texts(path: Path) -> list[str]:
    """Read what write_texts wrote."""
    with path.open(encoding="utf-8", newline="\n") as file:
        return file.read().split("\n")[:-1]


def _row(pair: Pair, rule: str, value: str) -> str:
    return "\t".join([pair.file, str(pair.line), rule, *map(as_column, (value, pair.src, pair.tgt))]) + "\n"


def _join(job: Job, outputs: Sequence[Output], windows: Windows, langs: tuple[str, str]) -> None:
    """Write the outputs from the shards."""
    for output in outputs:
        shards = [i for i, (corpus, _, _) in enumerate(windows.windows) if corpus in output.corpora]
        header = ("\t".join(_COLUMNS) + "\n").encode()
        job.concatenate(
            "write", shards, output.rejected_name, output.rejected, header=pack(header, packing(output.rejected))
        )
        if output.is_of_another_format:
            with writing(output.kept, langs) as write:
                for index in shards:
                    for pair in read_tsv(job.intact("write", index, output.shard_names[0]), Tally()):
                        write(pair.src, pair.tgt)
            continue
        for name, path in reversed([*zip(output.shard_names, output.kept, strict=True)]):  # the first file comes last
            empty = b"" if shards else pack(b"", packing(path))  # an empty compressed file still has a header
            job.concatenate("write", shards, name, path, header=empty)


def _result(n_pairs: int, cfg: CleanConfig, judged: Sequence[Counts], written: Sequence[Counts]) -> CleanResult:
    totals: Counter[str] = Counter()
    for counts in (*judged, *written):
        totals.update(counts)
    rules = active_rules(cfg)
    after = [name for name in ("duplicates", "near_duplicates") if getattr(cfg, name)] + (
        ["translations"] if cfg.translations != "all" else []
    )
    return CleanResult(
        n_pairs,
        totals[_CHANGED],
        totals["kept"],
        {rule: totals[f"alone.{rule}"] for rule in rules},
        {rule: totals[f"dropped.{rule}"] for rule in (*rules, *after)},
    )


def _read_scores(job: Job, cfg: CleanConfig, n_pairs: int) -> Path | None:
    """Turn the file of scores into an array; a stage of its own. Raises DataError."""
    if cfg.score is None:
        return None
    job.run(Stage("scores", _Scores(cfg.score, n_pairs), 1))
    return shard_folder(job.folder / "scores", 0) / _Scores.file


@dataclass(frozen=True)
class _Scores:
    """Reads the scores."""

    path: Path
    n_pairs: int
    file = "scores.npy"

    def __call__(self, index: int, folder: Path) -> dict[str, int]:
        scores = np.fromiter(read_scores(self.path), np.float64)
        if len(scores) != self.n_pairs:
            raise DataError(
                f"{self.path}: {len(scores):,} lines for {self.n_pairs:,} pairs; it must have a line for "
                "each pair of all corpora, in order"
            )
        np.save(folder / self.file, scores)
        return {}
