"""Write RUN/report.html: one page about a run and its model, for readers with and without technical knowledge."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from markupsafe import Markup

from mtkit.config.reading.loading import dump_config
from mtkit.console import log
from mtkit.data.corpus import evenly_spaced
from mtkit.data.mixture import Draw, uses
from mtkit.evaluation.metrics.scores import MetricScore
from mtkit.languages import SIDES
from mtkit.pages.charts import Band, Point, Series, line_chart, scatter_chart
from mtkit.pages.page import duration, thousands, write_page
from mtkit.runs import classifier_words, report_words
from mtkit.runs.read import RunFiles, keep_test_scores, read_run
from mtkit.runs.report_words import language, language_codes, names_languages, spoken
from mtkit.runs.students import frontier
from mtkit.tokens.changed_characters import Changes
from mtkit.training.preparation.learning_curve import LearningCurve
from mtkit.training.preparation.tokenizer_report import RARE_BELOW

_MOST_POINTS = 400  # of a curve
_CURVE_POINTS = 40  # of the expected BLEU
_MOST_VALIDATIONS = 8  # with samples on the page
_PARTS = {  # of the model, in words
    "src_embedding": "embeddings of source pieces",
    "tgt_embedding": "embeddings of target pieces",
    "encoder": "encoder",
    "decoder": "decoder",
    "output": "output",
}

Row = tuple[str, str]


@dataclass(frozen=True)
class Attempt:
    """The translation of a sentence at one validation, or at several consecutive ones."""

    steps: str
    text: str
    is_reference: bool


@dataclass(frozen=True)
class SampleStory:
    """A dev sentence and its translations over time."""

    src: str
    reference: str
    attempts: list[Attempt]


def refresh_report(run_dir: Path) -> Path | None:
    """Write RUN/report.html from the current content of the folder.

    Returns None, after a warning, if that fails, because a report must not stop a run.
    """
    try:
        return write_report(run_dir)
    except Exception as error:
        log.warning(f"{run_dir / 'report.html'}: cannot write the report: {error}")
        return None


def note_test_scores(bundle: Path, weights: str, n_sentences: int, scores: Sequence[MetricScore]) -> None:
    """Add the scores on the test set of the config to the report of the bundle's run. weights: see `keep_test_scores`.

    Does nothing for a bundle outside its run. A failure causes only a warning.
    """
    try:
        run_dir = keep_test_scores(bundle, weights, n_sentences, scores)
    except OSError as error:
        log.warning(f"{bundle}: cannot store the scores for the report: {error}")
        return
    if run_dir is not None and (report := refresh_report(run_dir)):
        log.info(f"report: {report}")


def write_report(run_dir: Path) -> Path:
    """Write RUN/report.html. Raises OSError or MtkitError if the folder is incomplete."""
    run = read_run(run_dir)
    path = run_dir / "report.html"
    codes = language_codes(run.cfg)
    src, tgt = map(language, codes)
    is_classifier = run.cfg.task == "classify"
    words = classifier_words if is_classifier else report_words
    write_page(
        path,
        "report",
        title=f"Report on the run {run_dir.name}" + (f": {src} to {tgt}" if names_languages(run.cfg) else ""),
        is_classifier=is_classifier,
        summary=_with_code(words.summary(run)),
        findings=list(map(_with_code, words.findings(run))),
        facts=list(_facts(run)),
        scores=[(name, scores) for name, scores in (*run.dev.items(), ("test", run.test)) if scores],
        changes=list(_before_and_after(run)),
        frontier=_frontier(run),
        samples=_sample_stories(run),
        charts=list(_charts(run)),
        text=run.record.get("text"),
        corpora=list(_corpora(run)),
        filters=list(_filters(run)),
        tokenizers=list(_tokenizers(run)),
        languages=(src, tgt),
        lang_codes=codes,
        model=list(_model(run)),
        parts=list(_parts(run)),
        course=list(_course(run)),
        starts=list(_starts(run)),
        config=dump_config(run.cfg),
        folder=run.folder,
        is_finished=run.training is not None,
        has_test=run.cfg.data.test is not None,
    )
    return path


def _with_code(text: str) -> Markup:
    """Return the text with the parts between backticks marked as code."""
    pieces = text.split("`")
    marked = (Markup("<code>{}</code>").format(piece) if i % 2 else piece for i, piece in enumerate(pieces))
    return Markup("").join(marked)


def _facts(run: RunFiles) -> Iterator[Row]:
    """Yield the figures at the top of the page."""
    is_classifier = run.cfg.task == "classify"
    name, key, shown = (
        ("accuracy", "accuracy", classifier_words.share) if is_classifier else ("BLEU", "bleu", "{:.1f}".format)
    )
    if scores := {"test": run.test} if run.test else run.dev:
        yield from ((f"{name}, {label}", shown(of_set.first.score)) for label, of_set in scores.items())
    elif run.validations:
        yield f"{name}, dev, latest", shown(run.validations[-1][key])
    if text := run.record.get("text"):
        yield "examples" if is_classifier else "sentence pairs", thousands(text["counts"]["n_kept"])
    if run.seconds is not None:
        yield "training time", spoken(run.seconds)
    if parameters := run.record.get("parameters"):
        yield "model", f"{parameters['total'] / 1e6:.1f} M weights"
    weights = run.run_dir / "model" / "model.safetensors"
    if weights.exists():
        megabytes = weights.stat().st_size / 1e6
        yield "model on disk", f"{megabytes:.{0 if megabytes >= 10 else 1}f} MB"


def _before_and_after(run: RunFiles) -> Iterator[tuple[str, float, float]]:
    """Yield each score on dev of the model that the run started from, and of the final model."""
    if run.before and run.training:
        for name, after in run.training["dev"].items():
            if name in run.before:
                yield name.removeprefix("dev."), run.before[name], after


def _frontier(run: RunFiles) -> dict[str, Any] | None:
    """Return the picture and the figures of a student, its teacher and its other students; None for other runs."""
    measured = run.measured
    if measured is None:
        return None
    name = run.run_dir.absolute().name
    others = frontier.other_students(run.run_dir, measured)
    rows = [("teacher", measured.teacher), (f"{name} (this student)", measured.student), *others.items()]
    points = [Point(who, one.words_per_s, one.bleu, f"{one.megabytes:.1f} MB") for who, one in rows]
    chart = scatter_chart(
        points,
        x_label="source words a second, one core",
        y_label="BLEU on dev, 0 to 100",
        title="Quality and speed: upper right is better",
    )
    return {"chart": chart, "rows": rows, "n_sentences": measured.n_sentences, "has_others": bool(others)}


def _sample_stories(run: RunFiles) -> list[SampleStory]:
    """Return each sample sentence with its translations over time; consecutive equal ones count as one."""
    histories: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for entry in run.samples:
        for sample in entry["samples"]:
            history = histories.setdefault((sample["src"], sample["reference"]), [])
            history.append((entry["step"], sample["translation"]))
    return [
        SampleStory(src, reference, _attempts(history, reference)) for (src, reference), history in histories.items()
    ]


def _attempts(history: Sequence[tuple[int, str]], reference: str) -> list[Attempt]:
    groups: list[tuple[list[int], str]] = []
    for step, text in history:
        if groups and groups[-1][1] == text:
            groups[-1][0].append(step)
        else:
            groups.append(([step], text))
    if len(groups) > _MOST_VALIDATIONS:
        groups = [*evenly_spaced(groups[:-1], _MOST_VALIDATIONS - 1), groups[-1]]
    return [
        Attempt(thousands(steps[0]) + (f" to {thousands(steps[-1])}" if steps[1:] else ""), text, text == reference)
        for steps, text in groups
    ]


def _charts(run: RunFiles) -> Iterator[Markup]:
    """Yield the curves for which the run has figures."""
    what, unit = ("label", "example") if run.cfg.task == "classify" else ("next token", "target token")
    for title, y_label, lines in (
        (
            f"Loss: how surprised the model is by the {what}; lower is better",
            f"nats per {unit}",
            [("training text", run.updates, "nll"), *_of_dev_sets(run, "loss", "dev text")],
        ),
        (
            "Right labels on the dev text; higher is better",
            "0 to 1",
            [line for name in ("accuracy", "f1", "auc") for line in _of_dev_sets(run, name, name)],
        ),
        (
            "Agreement with the reference translations of the dev text; higher is better",
            "score, 0 to 100",
            [*_of_dev_sets(run, "bleu", "BLEU"), *_of_dev_sets(run, "chrf", "chrF")],
        ),
        (
            "Behaviour checks of train.suite that pass; higher is better",
            "share of the checks, or of a check's cases",
            [(key.partition(".")[2] or "all checks", run.validations, key) for key in _suite_figures(run)],
        ),
        ("Learning rate", "learning rate", [("learning rate", run.updates, "lr")]),
        ("Gradient norm, before clipping", "norm", [("gradient norm", run.updates, "grad_norm")]),
        ("Speed", f"{unit}s a second", [(f"{unit.split()[-1]}s a second", run.updates, "tokens_per_s")]),
    ):
        series = [_series(name, entries, key) for name, entries, key in lines]
        if drawn := [line for line in series if line.xs]:
            band = _expected_bleu(run) if any(key == "bleu" for _, _, key in lines) else None
            yield line_chart(drawn, x_label="step", y_label=y_label, title=title, band=band)


def _expected_bleu(run: RunFiles) -> Band | None:
    """Return the BLEU that the learning curve of measured runs leads to up to the last validation; None without one."""
    record, last = run.record.get("learning_curve"), run.validations[-1]["step"]
    if not record or not last:
        return None
    curve, tokens = LearningCurve(**record), run.record["tokens_an_update"]
    steps = [last * i / _CURVE_POINTS for i in range(1, _CURVE_POINTS + 1)]
    found = [(step, bleu) for step in steps if (bleu := curve.after(step * tokens))]
    if len(found) < 2:
        return None
    lows, highs = [bleu.low for _, bleu in found], [bleu.high for _, bleu in found]
    return Band("expected BLEU; four of five runs end inside", [step for step, _ in found], lows, highs)


def _of_dev_sets(run: RunFiles, figure: str, words: str) -> list[tuple[str, list[dict[str, Any]], str]]:
    """Return the lines of a figure in a chart: one line for each dev set."""
    keys = [key for key in (run.validations[-1] if run.validations else {}) if key.startswith("dev.")]
    sets = [key.split(".")[1] for key in keys if key.endswith(f".{figure}")]
    if not sets:
        return [(words, run.validations, figure)]
    return [(f"{words}, {name}", run.validations, f"dev.{name}.{figure}") for name in sets]


def _suite_figures(run: RunFiles) -> list[str]:
    """Return the names of the behaviour checks' results in metrics.jsonl: the whole suite, and each check."""
    return [key for key in (run.validations[-1] if run.validations else {}) if key.partition(".")[0] == "suite"]


def _series(name: str, entries: Sequence[Mapping[str, Any]], key: str) -> Series:
    points = thinned([(entry["step"], entry[key]) for entry in entries if key in entry], _MOST_POINTS)
    return Series(name, [x for x, _ in points], [y for _, y in points])


def thinned(points: Sequence[tuple[int, float]], most: int) -> list[tuple[int, float]]:
    """Return at most `most` points, in order: the lowest and the highest of each interval, so that peaks remain."""
    if len(points) <= most:
        return list(points)
    n_stretches = most // 2
    ends = [len(points) * i // n_stretches for i in range(n_stretches + 1)]
    kept = []
    for first, last in pairwise(ends):
        indices = range(first, last)
        extremes = {min(indices, key=lambda i: points[i][1]), max(indices, key=lambda i: points[i][1])}
        kept += [points[i] for i in sorted(extremes)]
    return kept


def _corpora(run: RunFiles) -> Iterator[dict[str, Any]]:
    """Yield the figures of each training corpus, and its use in the run so far."""
    text = run.record.get("text", {})
    corpora = text.get("corpora", [])
    stages = [[Draw(**draw) for draw in draws] for draws in text.get("stages", [])]
    names = [corpus["name"] for corpus in corpora]
    drawn = uses(names, stages, _epochs_by_stage(run, len(stages))) if stages else [None] * len(names)
    for corpus, use in zip(corpora, drawn, strict=True):
        weight, lowest = (_over_the_run(corpus.get(key)) for key in ("weight", "min_score"))
        yield {**corpus, "weight": weight, "min_score": lowest, "use": use if use and use.passes else None}


def _over_the_run(value: object) -> str:
    """Describe a value of the config that may change over the run."""
    if isinstance(value, Mapping):
        return ", ".join(f"after {100 * float(begin):.4g} % {_over_the_run(now)}" for begin, now in value.items())
    return "all" if value is None else f"{value:g}"


def _epochs_by_stage(run: RunFiles, n_stages: int) -> list[float]:
    """Return how many epochs the run has made in each stage, to within train.log_every updates."""
    epochs, before = [0.0] * n_stages, 0.0
    entries = [entry for entry in (*run.updates, *run.validations) if "epoch" in entry]
    for entry in sorted(entries, key=lambda entry: int(entry["step"])):
        epochs[min(entry.get("stage", 0), n_stages - 1)] += entry["epoch"] - before
        before = entry["epoch"]
    return epochs


def _filters(run: RunFiles) -> Iterator[tuple[str, int, float]]:
    """Yield the numbers and shares of the pairs that the run read, left out and kept."""
    counts = run.record.get("text", {}).get("counts")
    if not counts:
        return
    data = run.cfg.data
    has_sides = run.cfg.task == "translate" or data.pairs
    side = "side" if has_sides else "text"
    for name, what in {
        "n_read": "read",
        "n_blank": "left out: a side is blank" if has_sides else "left out: the text is blank",
        "n_too_long": f"left out: a {side} has more than {data.max_tokens} tokens (data.max_tokens)",
        "n_ratio": f"left out: one side is more than {data.max_length_ratio} times as long (data.max_length_ratio)",
        "n_kept": "kept for training",
    }.items():
        if name != "n_ratio" or data.max_length_ratio is not None:
            yield what, counts[name], counts[name] / max(1, counts["n_read"])


def _tokenizers(run: RunFiles) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of a figure, and its value for each tokenizer."""
    reports = run.record.get("text", {}).get("tokenizers")
    if not reports:
        return
    sides = [reports[side] for side in SIDES if side in reports]
    yield from (
        ("pieces in the vocabulary", [thousands(side["vocab_size"]) for side in sides]),
        ("tokens of the training text", [thousands(side["n_training_tokens"]) for side in sides]),
        ("tokens per word of the dev text", [f"{side['tokens_per_word']:.2f}" for side in sides]),
        ("tokens in its longest sentence", [thousands(side["longest"]) for side in sides]),
        (
            f"pieces that occur fewer than {RARE_BELOW} times in training",
            [_percent(side["rare_vocab_share"], 1) for side in sides],
        ),
        ("their share of the dev tokens", [_percent(side["rare_token_share"], 2) for side in sides]),
        (
            "dev tokens that are single bytes of rare characters",
            [_percent(side["byte_token_share"], 2) for side in sides],
        ),
        ("unknown dev tokens, which the model cannot see", [thousands(side["n_unknown"]) for side in sides]),
        ("characters of the dev text that normalisation changes", list(map(_changes, sides))),
    )


def _changes(figures: Mapping[str, Any]) -> str:
    return str(Changes.from_json(figures["changed"])) if "changed" in figures else "not counted"


def _model(run: RunFiles) -> Iterator[Row]:
    model, is_classifier = run.cfg.model, run.cfg.task == "classify"
    of_decoder = "" if is_classifier else f", {model.n_decoder_layers} in the decoder"
    yield "layers", f"{model.n_encoder_layers} in the encoder{of_decoder}"
    yield "width", f"{model.d_model}; {model.d_ff} inside the feed-forward; {model.n_heads} attention heads"
    yield "positions", model.positions
    yield "normalisation", f"{model.norm}, {model.norm_position}"
    yield "activation", model.activation
    if model.decoder != "attention" and not is_classifier:
        yield "decoder", model.decoder


def _parts(run: RunFiles) -> Iterator[tuple[str, int, float]]:
    """Yield the number and the share of the weights in each part of the model."""
    parameters = run.record.get("parameters", {})
    for name, n_weights in parameters.items():
        yield _PARTS.get(name, name), n_weights, n_weights / max(1, parameters["total"])


def _course(run: RunFiles) -> Iterator[Row]:
    """Yield the duration of the training, its end, and the weights that it kept."""
    last = run.updates[-1] if run.updates else {}
    if run.cfg.train.init_from is not None:
        yield "started from the model", str(run.cfg.train.init_from)
    if teachers := run.record.get("teachers"):
        yield "trained on translations by", ", ".join(teachers)
    yield "updates", thousands(run.step) + (f", {last['epoch']:.1f} passes over the text" if "epoch" in last else "")
    if run.seconds is not None:
        yield "time in training and validation", duration(run.seconds)
    if run.updates:
        speeds = sorted(entry["tokens_per_s"] for entry in run.updates)
        unit = "examples" if run.cfg.task == "classify" else "target tokens"
        yield f"{unit} a second, median", thousands(round(speeds[len(speeds) // 2]))
        yield "padding in the batches", _percent(last["padding_share"], 1)
        if left_out := sum(entry["updates_left_out"] for entry in run.updates):
            yield "updates skipped because fp16 overflowed", thousands(left_out)
    if run.training is None:
        yield "end", "not reached yet"
        return
    keys = run.training["stopped_by"].split(", ")
    yield "ended by", ", ".join(f"train.{key}={getattr(run.cfg.train, key, None)}" for key in keys)
    yield "weights kept", _kept(run, run.training["averaged_steps"])
    yield "sha256 of the training data, as encoded", run.training["data_fingerprint"]


def _kept(run: RunFiles, steps: Sequence[int]) -> str:
    what = "their running mean (train.ema)" if run.cfg.train.ema else "those"
    if len(steps) == 1:
        return f"{what} at step {thousands(steps[0])}"
    which = "last" if run.cfg.train.average_last else "best"
    return f"the mean of {what} at steps {', '.join(map(thousands, sorted(steps)))}: the {len(steps)} {which}"


def _starts(run: RunFiles) -> Iterator[tuple[str, list[Row]]]:
    """Yield the time and the machine of each start of the run, without what equals the previous start."""
    before: dict[str, str] = {}
    for start in run.record.get("starts", []):
        there = {**start["machine"], **start["made_with"], **start["software"]}
        date, _, time = start["at"].partition("T")
        after = f", after {thousands(start['step'])} updates" if start["step"] else ""
        rows = [(name, value) for name, value in there.items() if before.get(name) != value]
        yield f"Started on {date} at {time[:5]} UTC{after}", rows
        before = there


def _percent(share: float, digits: int) -> str:
    return f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"
