"""`mtkit evaluate`: a model and a test set in, or translations and references; BLEU, chrF and TER out."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtkit.cli.corpora import check_here
from mtkit.cli.options import BeamSizeOption, EngineOption, EnsembleOption, SetOption
from mtkit.cli.output import line_writer
from mtkit.errors import DataError, UsageError

if TYPE_CHECKING:
    from mtkit.config.schema import CorpusFiles
    from mtkit.evaluation.metrics import MetricScore


def evaluate(
    models: EnsembleOption = None,
    src: Annotated[Path | None, typer.Option(help="Text to translate; default: the test set of the config.")] = None,
    ref: Annotated[Path | None, typer.Option(help="Reference translations, line by line.")] = None,
    hyp: Annotated[
        Path | None, typer.Option(help="Score these translations against --ref; no model is needed.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Keep the model's translations in this file (.gz by name).")
    ] = None,
    beam_size: BeamSizeOption = None,
    engine: EngineOption = None,
    overrides: SetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Score a model on a test set, or given translations: BLEU, chrF, TER with 95 % intervals.

    All from sacreBLEU on plain text; a score's signature says how it was computed.
    """
    from mtkit.console import log

    if hyp is not None:
        if ref is None:
            raise UsageError("--hyp needs --ref: the file with the reference translations")
        if models or src or output or beam_size or engine or overrides:
            raise UsageError("--hyp is scored without a model: leave out --model and what is for translating")
        work = _given(hyp, ref)
    else:
        if (src is None) != (ref is None):
            raise UsageError("give both --src and --ref, or neither for the test set of the model's config")
        settings = [*(overrides or []), *([f"decode.engine={engine}"] if engine else [])]
        work = _translated(models or [], src, ref, beam_size, settings, output)
    from mtkit.evaluation import metrics

    if n_blank := sum(not line.strip() for line in work.references):
        log.warning(f"{n_blank:,} of {len(work.references):,} references are blank")
    scores = metrics.evaluate(work.hypotheses, work.references)
    ratio = metrics.length_ratio(work.hypotheses, work.references)
    if as_json:
        counts = {"n_sentences": len(work.hypotheses), "length_ratio": ratio}
        result = {**work.origin, **counts, "scores": [asdict(score) for score in scores]}
        print(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        print(f"{len(work.hypotheses):,} sentences, {ratio:.3f} words for each word of the reference")
        _print_table(scores)


@dataclass(frozen=True)
class _Work:
    """What is to be scored, and where it comes from."""

    hypotheses: list[str]
    references: list[str]
    origin: dict[str, object]  # files, model and speed, for the JSON


def _given(hyp: Path, ref: Path) -> _Work:
    from mtkit.data.corpus import read_lines

    hypotheses, references = list(read_lines(hyp)), list(read_lines(ref))
    counts = f"{hyp} has {len(hypotheses):,} lines, {ref} has {len(references):,}"
    if len(hypotheses) != len(references):
        raise DataError(f"{counts}; line n of one must be the reference for line n of the other")
    if not references:
        raise DataError(f"{counts}: nothing to score")
    return _Work(hypotheses, references, {"hyp": str(hyp), "ref": str(ref)})


def _translated(
    models: list[Path],
    src: Path | None,
    ref: Path | None,
    beam_size: int | None,
    overrides: list[str],
    output: Path | None,
) -> _Work:
    from mtkit.cli.translating import load_translator, with_bar
    from mtkit.config.schema import CorpusFiles
    from mtkit.console import log
    from mtkit.decoding.bundle import find_model

    folders = [find_model(model) for model in models] if models else [find_model()]
    files = CorpusFiles(src=src, tgt=ref) if src else _test_files(folders[0])
    sources, references = _read(files)
    if src is None:
        overrides = [f"decode.tag={files.tag or 'null'}", *overrides]
    translator = load_translator(folders, overrides=overrides, beam_size=beam_size)
    start = time.perf_counter()
    translations = with_bar(translator.stream(sources), len(sources), "translating", "sentence")
    hypotheses = [translation.text for translation in translations]
    seconds = time.perf_counter() - start
    if output is not None:
        with line_writer(output) as write:
            for hypothesis in hypotheses:
                write(hypothesis)
    beam = translator.decode.beam_size
    speed = len(sources) / seconds
    log.info(f"{len(sources):,} sentences in {seconds:.1f} s: {speed:.1f} sentences/s with beam size {beam}")
    origin = {
        "model": ", ".join(map(str, folders)),
        "engine": translator.engine.name,
        **_names(files),
        "beam_size": beam,
        "seconds": seconds,
        "sentences_per_s": speed,
    }
    return _Work(hypotheses, references, origin)


def _test_files(bundle: Path) -> "CorpusFiles":
    from mtkit.config.loading import load_config

    files = load_config(bundle / "config.yaml").data.test
    remedy = "give --src and --ref"
    if files is None:
        raise DataError(f"{bundle / 'config.yaml'}: no test set (data.test); {remedy}")
    check_here([files], "data.test", bundle, remedy)
    return files


def _names(files: "CorpusFiles") -> dict[str, str]:
    """The files by role: src and ref, or tsv."""
    named = {"src": files.src, "ref": files.tgt, "tsv": files.tsv}
    return {role: str(path) for role, path in named.items() if path is not None}


def _read(files: "CorpusFiles") -> tuple[list[str], list[str]]:
    """Sources and references."""
    from mtkit.data.corpus import read_pairs

    pairs = list(read_pairs([files]))
    if not pairs:
        raise DataError("; ".join(f"{path} has 0 lines" for path in _names(files).values()) + ": nothing to score")
    return [pair.src for pair in pairs], [pair.tgt for pair in pairs]


def _print_table(scores: "list[MetricScore]") -> None:
    print(f"{'':<7}{'score':>7}   {'95 % interval':<17}signature")
    for score in scores:
        interval = f"{score.low:.2f} to {score.high:.2f}"
        print(f"{score.name:<7}{score.score:>7.2f}   {interval:<17}{score.signature}")
    print("TER counts edits: lower is better.")
