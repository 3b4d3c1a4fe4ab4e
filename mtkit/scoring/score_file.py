"""Score the pairs of two files as a job that can resume and that several processes share."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from mtkit import bundle, runtime
from mtkit.alignment import attention, lexicon
from mtkit.config.data import CorpusFiles
from mtkit.cores import usable_cores
from mtkit.jobs import line_job
from mtkit.jobs.executors import Executor
from mtkit.scoring import pair_text as pair_texts
from mtkit.scoring import scoring
from mtkit.translation import loading

WINDOW_PAIRS = 1024


@dataclass(frozen=True)
class Form:
    """The contents of a pair's output line."""

    as_json: bool = False
    tokens: bool = False
    alignments: bool = False

    def line(self, score: scoring.PairScore, link: str | None, number: int) -> str:
        """Return a pair's line. link: its word alignment, if requested; number: of the pair, from 1."""
        return self._json(score, link, number) if self.as_json else self._tsv(score, link)

    def _tsv(self, score: scoring.PairScore, link: str | None) -> str:
        columns = [f"{score.log_prob:.4f}", str(score.n_tokens), f"{score.mean:.4f}", f"{score.perplexity:.4f}"]
        if self.tokens:
            columns.append(" ".join(f"{piece}={log_prob:.4f}" for piece, log_prob in _tokens(score)))
        return "\t".join(columns if link is None else [*columns, link])

    def _json(self, score: scoring.PairScore, link: str | None, line: int) -> str:
        record: dict[str, object] = {"line": line, **({"problem": score.problem} if score.problem else {})}
        record |= {"log_prob": _number(score.log_prob), "n_tokens": score.n_tokens}
        record |= {"per_token": _number(score.mean), "perplexity": _number(score.perplexity)}
        if self.tokens:
            record["tokens"] = [{"piece": piece, "log_prob": _number(log_prob)} for piece, log_prob in _tokens(score)]
        if link is not None:
            record["alignment"] = link
        return json.dumps(record, ensure_ascii=False)


@dataclass(frozen=True)
class LoadScorer:
    """Makes the scorer of a bundle, with its tag, in any process."""

    folder: Path
    overrides: Sequence[str]
    device: str
    threads: int | None  # None: as many as torch has

    def __call__(self) -> scoring.Scorer:
        """Return the scorer."""
        loaded = bundle.load_bundle(self.folder, self.overrides)
        runtime.set_threads(self.threads)
        tokenizer = loaded.src_tokenizer.tagged(loaded.config.decode.tag)
        model = loaded.model.to(runtime.choose_device(self.device))
        return scoring.Scorer(model, tokenizer, loaded.tgt_tokenizer, lexicon.alignment_lexicon(loaded))


def score_window(
    scorer: scoring.Scorer, form: Form, limit: int, pairs: Sequence[tuple[str, str]], first: int
) -> tuple[list[str], scoring.ScoreTotals]:
    """Return a line for each pair, and their totals. limit: decode.max_src_tokens; first: number of the first pair."""
    links: Sequence[str | None] = [None] * len(pairs)
    if form.alignments:
        tokenizers = scorer.src_tokenizer, scorer.tgt_tokenizer
        links = attention.align(scorer.model, *tokenizers, pairs, lexicon=scorer.lexicon)
    scores, totals = scorer.score(pairs), scoring.ScoreTotals()
    for score in scores:
        totals.add(score, limit)
    rows = enumerate(zip(scores, links, strict=True), start=first)
    return [form.line(score, link, number) for number, (score, link) in rows], totals


def score_files(
    src: Path, tgt: Path, output: Path, load: LoadScorer, form: Form, executor: Executor, *, restart: bool
) -> scoring.ScoreTotals:
    """Score the pairs; return their totals."""
    files = bundle.read_bundle(load.folder, load.overrides)
    decode = files.config.decode
    device = loading.shared_device(load.device, executor)
    if not executor.makes_here:
        load = replace(load, device=device, threads=executor.threads(load.threads or usable_cores()))
    identity = {
        "model": {name: files.manifest["sha256"][name] for name in bundle.SHAPING_FILES},
        "tgt_lang": files.config.data.tgt_lang,  # which a model of many reads as a token
        "decode": {"tag": decode.tag, "max_src_tokens": decode.max_src_tokens},
        "device": runtime.choose_device(device).type,
        "output": asdict(form),
    }
    done = line_job.run_line_job(
        pair_texts.pair_text([CorpusFiles(src=src, tgt=tgt)]),
        output,
        partial(_work, load, form, decode.max_src_tokens),
        identity,
        executor,
        window_lines=WINDOW_PAIRS,
        name="score",
        unit="pair",
        restart=restart,
    )
    totals = scoring.ScoreTotals()
    for note in done.notes:
        totals.absorb(note)
    return totals


def _work(load: LoadScorer, form: Form, limit: int) -> line_job.Work:
    scorer = load()

    def work(lines: Sequence[str], first: int) -> tuple[list[str], dict[str, Any]]:
        rows, totals = score_window(scorer, form, limit, [pair_texts.pair_of(line) for line in lines], first)
        return rows, totals.note()

    return work


def _tokens(score: scoring.PairScore) -> zip[tuple[str, float]]:
    return zip(score.pieces, score.log_probs, strict=True)


def _number(value: float) -> float | None:
    """Return null for NaN and infinity, which JSON does not have."""
    return round(value, 6) if math.isfinite(value) else None
