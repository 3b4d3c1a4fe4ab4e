"""Make a small, fast student of a trained model: from the teacher's bundle to the student's run and browser model.

It joins steps that also exist alone: translation by the teacher (`distillation`), training, shortlist and export. OUT
is the run of the student; OUT/student.json records the settings that a later start must share.
"""

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from mtkit.augmentation.distillation import in_fast_precision, with_teachers_text
from mtkit.bundle import CHOSEN, BundleFiles, add_to_bundle, bundle_file, find_model, read_bundle
from mtkit.config.data import TrainCorpus
from mtkit.config.durations import seconds_of
from mtkit.config.model import PRESETS, ModelConfig
from mtkit.config.schema import Config
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.console import counted, log, progress_bar, without_log
from mtkit.data.corpus import (
    count_pairs,
    evenly_spaced,
    first_missing,
    read_pairs,
    require_files,
    text_checksums,
)
from mtkit.data.dev_text import DevText, read_dev_text
from mtkit.engines.lexicon import learn_shortlist
from mtkit.engines.shortlist import SHORTLIST
from mtkit.errors import ConfigError, DataError, MtkitError, TrainingError
from mtkit.evaluation.metrics.scores import corpus_bleu
from mtkit.evaluation.metrics.settings import MetricSettings, tokenizer_for
from mtkit.files import atomic_file, disk_full_explained, locked, parse_json, write_text
from mtkit.interop.parity import DEFAULT_TOLERANCES, ComparedText, n_translated
from mtkit.interop.reimported import export_bundle
from mtkit.interop.support import export_problems
from mtkit.pair_files.lines import read_lines, require_regular
from mtkit.runs.report import refresh_report
from mtkit.runs.students import frontier
from mtkit.runs.students.frontier import Figures
from mtkit.runs.train import train
from mtkit.text.words import words_of
from mtkit.training.preparation.prepare import check_early
from mtkit.training.preparation.rule import GUIDED_ALIGNMENT
from mtkit.training.update.budget import BudgetError
from mtkit.training.update.checkpoint import Checkpoints
from mtkit.translation.direction import check_source_text
from mtkit.translation.translator import Translator

SETTINGS, BROWSER = "student.json", "browser"
_PARTS = "text"  # the folder of OUT with the parts of the text that the teacher translates, and does not
_FOR_TRANSLATING = 1 / 3  # of the budget, at most; we have not tried other shares
_TIMED_LINES = 128  # that the teacher translates to measure its speed
_LEAST_LINES = 100  # to translate
_N_BEST = 5
# With 4,400 pieces the file of student-tiny has 9.97 MB. Half of the pieces cost nothing on Tatoeba de-en (dev BLEU
# 35.6 with 4,000 and with 8,000 a side); scripts with thousands of characters need more.
_MOST_PIECES = {"student": 4400, "student-tiny": 4400}
_PIECES_PER_CHARACTER = 4
# Text that people type into a page. With these shares, BLEU of text in lower case rose from 17 to 26 and that of text
# without a final mark from 26 to 31, while clean text lost about 1 in a short run (docs/log.md).
_AS_TYPED = {"lower_case": 0.03, "no_final_mark": 0.03, "typos": 0.05}
_SCORED = 500  # sentences of dev
WARMING_UP = 32  # sentences before the clock starts, because the first ones load compiled loops
_RESTORE = "put the files back"
_GIVE_TEXT = "give text in the source language with --text of `mtkit make-student`"


@dataclass(frozen=True)
class Student:
    """A finished student and its teacher."""

    bundle: Path
    browser: Path | None  # the folder in Bergamot's format; None: the export differs too much from the model
    teacher_figures: Figures
    figures: Figures


def make_student(
    teacher: Path,
    out: Path,
    budget: str,
    shape: str = "student",
    text: Path | None = None,
    since: float | None = None,
) -> Student:
    """Train a student on the teacher's translations of its own training text, or resume, and export it.

    text: the student also learns the lines of this file, and these alone if the training text is missing. since: the
    time.monotonic() from which the budget counts; default: now.
    Raises KeyboardInterrupt, after saving, if the user stops it, and MtkitError if the input does not allow a student.
    """
    since = time.monotonic() if since is None else since
    out = out.absolute()
    if problems := export_problems(ModelConfig.model_validate(PRESETS[shape]), "bergamot"):
        fitting = [
            name for name in PRESETS if not export_problems(ModelConfig.model_validate(PRESETS[name]), "bergamot")
        ]
        raise ConfigError(f"--shape {shape} does not run in browsers: {problems[0]}; choose {', '.join(fitting)}")
    files = read_bundle(find_model(teacher))
    check_teacher(files, text)
    with disk_full_explained(out), locked(out):
        corpora, shares = _text_and_shares(files, out, budget, shape, text)
        cfg, untranslated = student_config(files, out, budget, shape, corpora, shares)
        check_early(cfg)
        cfg = with_teachers_text(cfg)
    data = cfg.data.model_copy(update={"train": [*cfg.data.train, *untranslated]})
    try:
        bundle = train(cfg.model_copy(update={"data": data}), since).bundle
    except BudgetError as error:
        raise TrainingError(error.shortage.message(f"--budget {budget}")) from error
    _add_shortlist(read_bundle(bundle))
    dev = dev_text(read_bundle(bundle))
    browser = _export(read_bundle(bundle), dev, out / BROWSER)
    weights = bundle / "model.safetensors" if browser is None else next(browser.glob("model.*.bin"))
    n_sentences = sum(len(one.pairs) for one in dev)
    log.info(f"measuring the teacher and the student on {counted(n_sentences, 'sentence')}")
    measured = frontier.Measured(
        files.manifest["sha256"]["model.safetensors"],
        n_sentences,
        figures_of(files, files.folder / "model.safetensors", dev),
        figures_of(read_bundle(bundle), weights, dev),
    )
    frontier.keep(out, measured)
    if report := refresh_report(out):
        log.info(f"report: {report}#frontier")
    return Student(bundle, browser, measured.teacher, measured.student)


def check_teacher(files: BundleFiles, text: Path | None = None) -> None:
    """Raise DataError if text that the student needs is missing, or if --text is not in the teacher's source language.

    Raises ConfigError if the teacher used only a part of its text, or is itself a student.
    """
    if files.folder.name == "model" and (files.folder.parent / SETTINGS).exists():
        raise ConfigError(f"{files.folder.parent}: this is a student; give the teacher that it was made from")
    data, config = files.config.data, files.folder / "config.yaml"
    require_files("data.dev", data.dev, config=config, remedy=_RESTORE)
    if text is None:
        remedy = f"{_RESTORE}, or {_GIVE_TEXT}"
        require_files("data.train", data.train, config=config, remedy=remedy)
        if _is_part(data.train):
            raise ConfigError(
                f"{config}: data.train has min_score, and a student would also learn the pairs that it leaves out; "
                f"train the teacher on a file with the good pairs alone, or {_GIVE_TEXT}"
            )
    else:
        require_regular(text)
        if not any(line.strip() for line in read_lines(text)):
            raise DataError(f"--text {text}: no text; give sentences in the source language, one a line")
        check_source_text(f"--text {text}", read_lines(text), files)


def _text_and_shares(
    files: BundleFiles, out: Path, budget: str, shape: str, text: Path | None
) -> tuple[list[TrainCorpus], list[float]]:
    """Return the text, and the shares of it that the teacher translates: a larger one for each longer budget.

    Both are as at an earlier start, unless that failed before the teacher translated anything. Another share follows
    if the budget has time for more lines than before, and training has not begun. Raises ConfigError if OUT has another
    run, or if the text has changed since an earlier start.
    """
    _forget_failed_start(out)
    path = out / SETTINGS
    now = {
        "teacher": files.manifest["sha256"]["model.safetensors"],
        "shape": shape,
        "text": str(text.absolute()) if text else None,
    }
    then = _settings_of(path) if path.exists() else {}
    if then:
        _check_same_student(out, then, now)
    corpora = text_of(files, text, then.get("text_alone"))
    checksums = text_checksums(corpora)
    if then:
        _check_same_text(out, corpora, then.get("checksums", checksums), checksums)  # absent in earlier versions
        is_longer = seconds_of(budget) > then.get("budget_s", 0.0)  # absent in earlier versions
        if then["shares"][-1] == 1 or not is_longer or Checkpoints(out / "checkpoints").exist():
            return corpora, then["shares"]
    elif any(not entry.name.startswith(".") for entry in out.iterdir()):
        raise ConfigError(f"{out} already exists and is not empty; choose another --out")
    sources = [pair.src for pair in read_pairs(corpora)]
    share, _ = translating(files, budget, sources)
    if then:
        if share < min(1.0, then["shares"][-1] + _LEAST_LINES / len(sources)):
            return corpora, then["shares"]
        change = f"{share:.0%} of them instead of {then['shares'][-1]:.0%}"
        log.info(f"{out}: --budget {budget} is longer than before, so the teacher translates more lines, {change}")
    shares = [*then.get("shares", []), share]
    alone = all(one.is_untranslated for one in corpora)
    if share < 1:
        which = "the others of the training text" if text else "the others"
        log.info(
            f"the teacher translates {share:.0%} of {counted(len(sources), 'line')}, because a third of --budget "
            f"{budget} is too short for all" + ("" if alone else f"; the student learns {which} from their references")
        )
    settings = {**now, "text_alone": alone, "checksums": checksums, "budget_s": seconds_of(budget), "shares": shares}
    write_text(path, json.dumps(settings, indent=1) + "\n")
    return corpora, shares


def _forget_failed_start(out: Path) -> None:
    """Remove what an earlier start wrote if it failed before the teacher translated anything."""
    path = out / SETTINGS
    if path.exists() and {entry.name for entry in out.iterdir() if entry.name[0] != "."} <= {SETTINGS, _PARTS}:
        shutil.rmtree(out / _PARTS, ignore_errors=True)
        path.unlink()


def _check_same_student(out: Path, then: Mapping[str, Any], now: Mapping[str, str | None]) -> None:
    """Raise ConfigError if the folder holds a student of another teacher, shape or text."""
    if changed := [key for key in now if then.get(key) != now[key]]:
        raise ConfigError(f"{out} holds a student of another {' and '.join(changed)}; choose another --out")
    if now["text"] and "text_alone" not in then:
        raise ConfigError(
            f"{out} was started by an earlier version of mtkit, in which --text replaced the training text; choose "
            "another --out"
        )


def _check_same_text(out: Path, corpora: Sequence[TrainCorpus], then: Sequence[Any], now: Sequence[Any]) -> None:
    """Raise ConfigError with the corpora that have changed. then, now: the checksums of each."""
    if others := [one for one, old, new in zip(corpora, then, now, strict=True) if old != new]:
        names = ", ".join(str(name) for one in others for name in one.paths)
        raise ConfigError(
            f"{names}: this text has changed since {out} was started; put it back, or choose another --out"
        )


def _settings_of(path: Path) -> dict[str, Any]:
    """Return what an earlier start has recorded. Raises ConfigError if the file is damaged."""
    try:
        settings: Any = parse_json(path.read_text(encoding="utf-8"))
        shares = settings["shares"] if "shares" in settings else [settings["share"]]  # of earlier versions
        return {**settings, "shares": [float(share) for share in shares]}
    except (ValueError, LookupError, TypeError):
        raise ConfigError(f"{path}: this file is damaged; restore it, or choose another --out") from None


def translating(files: BundleFiles, budget: str, sources: Sequence[str]) -> tuple[float, float]:
    """Return the share of the lines that the teacher translates, and the seconds for it; measured on a few lines."""
    sample = evenly_spaced([line for line in sources if line.strip()], _TIMED_LINES)
    seconds_per_line = _seconds_per_line(files, sample)
    share = share_in(_FOR_TRANSLATING * seconds_of(budget), seconds_per_line, len(sources))
    return share, share * len(sources) * seconds_per_line


def share_in(seconds: float, seconds_per_line: float, n_lines: int) -> float:
    """Return the share of the lines that can be translated in the time, and at least 100 lines."""
    return min(1.0, max(seconds / seconds_per_line, _LEAST_LINES) / max(1, n_lines))


def _seconds_per_line(files: BundleFiles, lines: Sequence[str]) -> float:
    read = read_bundle(files.folder, [f"decode.beam_size={_N_BEST}"])
    with without_log():
        teachers = in_fast_precision([read], "auto")
        translator = Translator.from_bundles(teachers, threads=files.config.train.threads)
        translator.translate(lines[:WARMING_UP])
        started = time.perf_counter()
        for _ in translator.stream(lines, n_best=_N_BEST):
            pass
        return (time.perf_counter() - started) / max(1, len(lines))


def student_config(
    files: BundleFiles, out: Path, budget: str, shape: str, given: Sequence[TrainCorpus], shares: Sequence[float]
) -> tuple[Config, list[TrainCorpus]]:
    """Return the student's config, whose text the teacher must translate, and the text to learn with its references.

    given: the text as `text_of` returns it. shares: of its lines, to be translated; see `_divided`.
    """
    teacher = files.config
    to_translate, others = _divided(given, out / _PARTS, shares)
    pieces = teacher.tokenizer.src.model_dump() | {"vocab_size": _n_pieces(files, shape)}
    values = {
        "run_dir": str(out),
        "data": {
            **teacher.data.model_dump(mode="json"),
            "train": [one.model_dump(mode="json") for one in to_translate],
        },
        "augment": teacher.augment.rates or _AS_TYPED,
        "distill": {"teachers": [str(files.folder.absolute())], "n_best": _N_BEST, "choose": "chrf"},
        "tokenizer": {"src": pieces, "shared": True},
        "model": shape,
        "train": {"budget": budget, "guided_alignment": GUIDED_ALIGNMENT, "threads": teacher.train.threads},
        "decode": {"beam_size": 1, "tag": teacher.decode.tag},
    }
    return Config.model_validate(values), others


def _divided(
    given: Sequence[TrainCorpus], folder: Path, shares: Sequence[float]
) -> tuple[list[TrainCorpus], list[TrainCorpus]]:
    """Return the parts of the text to translate, and the pairs to learn with their references.

    shares: how much of the text is in the first part, in the first two, and so on, so that the translations of earlier
    parts stay.
    """
    to_translate: list[TrainCorpus] = []
    left = dict(enumerate(given, start=1))  # what no part has yet
    for n_parts, (before, share) in enumerate(pairwise([0.0, *shares]), start=1):
        if share == 1:
            return [*to_translate, *left.values()], []
        of_left, name = (share - before) / (1 - before), "" if n_parts == 1 else f".{n_parts}"
        places = {n: folder / f"{n}{name}.tsv" for n in left}
        parts = [part_of(one, places[n], of_left) for n, one in left.items()]
        if n_parts == len(shares):
            left = {n: one for n, one in left.items() if not given[n - 1].is_untranslated}
        left = {n: part_of(one, places[n].with_suffix(".rest.tsv"), of_left, wanted=False) for n, one in left.items()}
        to_translate += filter(_has_text, parts)  # a small corpus may have too few lines for a part
        left = {n: one for n, one in left.items() if _has_text(one)}
    return to_translate, [*left.values()]


def _has_text(corpus: TrainCorpus) -> bool:
    return any(path.stat().st_size for path in corpus.paths)


def text_of(files: BundleFiles, text: Path | None = None, alone: bool | None = None) -> list[TrainCorpus]:
    """Return the text that the student learns, before the teacher translates it: the training text, and --text.

    alone: learn --text without the training text; default: only if the training text cannot be used.
    Raises DataError if the training text is wanted, and a file of it is missing.
    """
    train, config = files.config.data.train, files.folder / "config.yaml"
    own = [one.model_copy(update={"scores": None}) for one in train]
    if text is None:
        return own
    if alone is False:
        require_files("data.train", train, config=config, remedy=_RESTORE)
    elif alone is None:
        missing = first_missing(train)
        alone = missing is not None or _is_part(train)
        if alone:
            reason = f"{missing} is missing" if missing else "data.train has min_score"
            log.info(f"the student learns --text {text} without the training text in {config}, because {reason}")
    given = TrainCorpus(src=text.absolute(), tgt=None, tag=files.config.decode.tag)
    return [given] if alone else [*own, given]


def _is_part(corpora: Sequence[TrainCorpus]) -> bool:
    """Return whether training left out pairs of these corpora, which a student would learn."""
    return any(one.min_score is not None for one in corpora)


def _n_pieces(files: BundleFiles, shape: str) -> int:
    """Return the size of the student's one vocabulary: the teacher's larger one, or less for a small file.

    A size that mtkit chose for the teacher's budget counts as the default.
    """
    chosen: list[str] = files.manifest.get("training", {}).get(CHOSEN, [])
    wanted = max(
        TokenizerConfig().vocab_size if f"tokenizer.{side}.vocab_size" in chosen else settings.vocab_size
        for side, settings in (("src", files.config.tokenizer.src), ("tgt", files.config.tokenizer.tgt))
    )
    if shape not in _MOST_PIECES:
        return wanted
    pieces = {
        piece.removeprefix("\N{LOWER ONE EIGHTH BLOCK}")
        for one in (files.src_tokenizer, files.tgt_tokenizer)
        for piece in one.pieces(range(one.vocab_size))
    }
    n_characters = sum(len(piece) == 1 for piece in pieces)
    return min(wanted, max(_MOST_PIECES[shape], _PIECES_PER_CHARACTER * n_characters))


def part_of(corpus: TrainCorpus, place: Path, share: float, *, wanted: bool = True) -> TrainCorpus:
    """Return a share of the pairs, evenly spaced, or else the others, in the file `place`, which is written once."""
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(place) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(_rows(corpus, share, wanted))
    return corpus.moved_to(place)


def _rows(corpus: TrainCorpus, share: float, wanted: bool) -> Iterator[str]:
    """Yield the chosen pairs, or the other ones, as lines of TSV."""
    for n, pair in enumerate(read_pairs([corpus])):
        if (int((n + 1) * share) > int(n * share)) == wanted:
            yield "\t".join(" ".join(side.split()) for side in (pair.src, pair.tgt)) + "\n"


def _add_shortlist(files: BundleFiles) -> None:
    if bundle_file(files, SHORTLIST) is not None:
        return
    corpora = files.config.data.train
    n_pairs = count_pairs(corpora)
    made = learn_shortlist(read_pairs(corpora), n_pairs, files.src_tokenizer, files.tgt_tokenizer)
    add_to_bundle(files, SHORTLIST, made.save)


def _export(files: BundleFiles, dev: Sequence[DevText], out: Path) -> Path | None:
    """Write the student for browsers; warn and return None if its translations differ too much."""
    texts = [ComparedText.from_pairs(one.name, one.tag, one.pairs) for one in dev]
    n_lines = sum(len(text.sources) for text in texts)
    try:
        with progress_bar(n_translated(files.config.decode, n_lines), "comparing", "line") as bar:
            parity = export_bundle(files, "bergamot", out, texts, DEFAULT_TOLERANCES["browser"], 1, bar.update)
    except MtkitError as error:
        remains = f"{out} still contains an earlier student; " if out.exists() else ""
        log.warning(f"{error}; {remains}train longer, or export it with `mtkit export --to bergamot` and other limits")
        return None
    assert parity is not None
    search = parity.searches[0]
    change = "" if search.bleu_change is None else f", and BLEU changes by {search.bleu_change:+.2f}"
    log.info(
        f"{out}: written; as a browser computes, it translates {search.equal_lines:,} of {n_lines:,} dev lines as the "
        f"student does{change}"
    )
    return out


def dev_text(files: BundleFiles, n: int = _SCORED) -> list[DevText]:
    """Return n sentences on which a model is measured."""
    return read_dev_text(files.config.data.dev, n, config=files.folder / "config.yaml", remedy=_RESTORE)


def figures_of(files: BundleFiles, weights: Path, dev: Sequence[DevText]) -> Figures:
    """Measure a model on dev, in one thread. Its seconds are CPU time, so that other programs hardly change them."""
    translations, seconds, n_words = [], 0.0, 0
    for one in dev:
        tagged = read_bundle(files.folder, [f"decode.tag={one.tag or 'null'}"])
        lines = [pair.src for pair in one.pairs]
        with without_log():
            translator = Translator.from_bundles([tagged], threads=1, device="cpu")
            translator.translate(lines[:WARMING_UP])
            started = time.process_time()
            translations += translator.translate(lines)
            seconds += time.process_time() - started
        n_words += sum(len(words_of(line)) for line in lines)
    references = [pair.tgt for one in dev for pair in one.pairs]
    bleu = corpus_bleu(translations, references, MetricSettings(tokenizer_for(files.config.data.tgt_lang)))
    return Figures(bleu, weights.stat().st_size / 1e6, len(translations) / seconds, n_words / seconds)
