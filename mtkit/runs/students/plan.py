"""Plan students of a teacher before the work: size, speed and number of updates of each shape, and what runs reached.

The sizes are those of the files that `make-student` writes. Speeds and updates are measured here, with random weights,
and on a sample of the text, so that the plan of a large corpus takes no longer.
The loss in BLEU cannot be measured before a student exists, so the plan gives that of runs on other text.
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import torch

from mtkit.bundle import BundleFiles, find_model, read_bundle
from mtkit.config.decoding import DecodeConfig
from mtkit.config.model import PRESETS
from mtkit.config.schema import Config
from mtkit.console import log, progress_bar, without_log
from mtkit.cores import CpuTime, use_of_others
from mtkit.data.corpus import count_pairs, read_pairs
from mtkit.data.dev_text import DevText
from mtkit.engines.native import NativeEngine
from mtkit.files import disk_full_explained
from mtkit.interop.bergamot.folder import model_size
from mtkit.interop.support import Target, export_problems
from mtkit.model import ops
from mtkit.model.transformer import Transformer
from mtkit.runs.export import cost_in_validations
from mtkit.runs.students import make
from mtkit.runs.students.frontier import Figures
from mtkit.search.hypothesis import Engine, Segment
from mtkit.tokens.special_ids import EOS_ID
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.training.preparation.pace import worth_of
from mtkit.training.preparation.prepare import prepare, ready_text
from mtkit.training.update.budget import Budget, BudgetError, expected_updates
from mtkit.training.update.checkpoint import Checkpoints
from mtkit.translation.translator import Translator

SHAPES = [name for name in PRESETS if name.startswith("student-")]
_PAIRS_PER_PIECE = 4  # of the vocabulary, to learn it from: twice as many sentences
_TIMED = 128  # sentences of dev
_NEVER = -1e9  # bias of <end>, so that a translation has a known length


@dataclass(frozen=True)
class MeasuredRun:
    """A student that was trained on real text, from scripts/results/students.tsv."""

    shape: str
    pair: str
    updates: int
    epochs: float
    bleu_lost: float  # on the test text: by how much the student, greedy, is below its teacher with a beam of 4


MEASURED = (
    MeasuredRun("student-tiny", "en-fr", 2666, 1.6, 3.62),
    MeasuredRun("student-tiny", "en-fr", 4772, 2.7, 3.97),
    MeasuredRun("student-tiny", "en-de", 5017, 2.8, 3.88),
    MeasuredRun("student", "en-de", 11769, 13.5, 0.77),
    MeasuredRun("student", "en-fr", 11723, 13.6, 0.91),
    MeasuredRun("student-base-memory", "en-fr", 8314, 5.1, -0.66),
    MeasuredRun("student-base-memory", "en-de", 8961, 5.6, -0.64),
)


@dataclass(frozen=True)
class ShapePlan:
    """The forecast of a student of one shape."""

    shape: str
    megabytes: float  # of the model file for Bergamot
    sentences_per_s: float  # on one core
    words_per_s: float  # of the source, on one core
    updates: int  # that the budget has time for
    epochs: float
    problem: str  # why the budget is too short; "" if it is not
    expect: str  # what so few updates are worth, in words; "" if they may be enough
    measured: list[MeasuredRun]  # students of this shape
    exports: dict[str, list[str]]  # each export format, with the reasons why it cannot hold the shape


@dataclass(frozen=True)
class StudentsPlan:
    """The forecast of the students of one teacher."""

    teacher: Figures  # measured on dev
    n_sentences: int  # of dev, with which speeds are measured
    n_lines: int  # of the training text
    translated_share: float  # of these lines, by the teacher
    translating_s: float
    shapes: list[ShapePlan]
    used_by_others: str | None  # "1.4 of 2 cores" meanwhile, if that left too little


@dataclass(frozen=True)
class _Course:
    """The training of a shape with the budget, and what is needed to measure its speed."""

    cfg: Config
    tokenizers: tuple[Tokenizer, Tokenizer]
    updates: int
    epochs: float
    problem: str


def plan_students(teacher: Path, budget: str) -> StudentsPlan:
    """Plan a student of each shape. budget: as for `make-student`.

    Raises MtkitError for whatever would stop `make-student`, except too short a budget, which is a shape's `problem`.
    """
    began = CpuTime.now()
    files = read_bundle(find_model(teacher))
    make.check_teacher(files)
    dev = make.dev_text(files)
    sources = [pair.src for pair in read_pairs(files.config.data.train)]
    share, translating_s = make.translating(files, budget, sources)
    with tempfile.TemporaryDirectory(prefix="mtkit-plan-") as name, disk_full_explained(Path(name)):
        courses = _courses(files, budget, translating_s, Path(name))
    n_sentences, timed = sum(len(one.pairs) for one in dev), make.dev_text(files, _TIMED)
    n_timed = sum(len(one.pairs) for one in timed)
    with progress_bar(1 + len(courses), "speed", "model") as bar:
        figures = make.figures_of(files, files.folder / "model.safetensors", dev)
        beside_search = max(0.0, 1 / figures.sentences_per_s - _search_of_teacher(files, timed) / n_timed)
        bar.update()
        shapes = []
        for shape, course in courses.items():
            model = Transformer(course.cfg.model, *(one.vocab_size for one in course.tokenizers))
            seconds = beside_search + _search_of_student(model, course, timed) / n_timed
            shapes.append(_shape_plan(shape, course, model_size(model), seconds, figures))
            bar.update()
    return StudentsPlan(figures, n_sentences, len(sources), share, translating_s, shapes, use_of_others(began))


def _courses(files: BundleFiles, budget: str, translating_s: float, scratch: Path) -> dict[str, _Course]:
    """Plan the training of each shape on the references, which are about as long as the teacher's translations."""
    courses: dict[str, _Course] = {}
    text_s: dict[int, float] = {}  # seconds of preparing all text, by the number of pieces
    for shape in SHAPES:
        log.info(f"{shape}: measuring updates on a sample of the text")
        cfg, _ = make.student_config(files, scratch, budget, shape, make.text_of(files), [1.0])
        n_pieces = cfg.tokenizer.src.vocab_size
        folder = scratch / str(n_pieces)  # the shapes with the same vocabulary share the encoded text
        cfg, times = _sampled(cfg, folder)
        with without_log():
            if n_pieces not in text_s:
                text_s[n_pieces] = ready_text(cfg, folder)[-1] * times
            since = time.monotonic() - translating_s - text_s[n_pieces]
            run = prepare(cfg, folder, Checkpoints(folder / "checkpoints"), since=since, text_times=times)
        clock = Budget(run.cfg.train, since)
        clock.timing.export = cost_in_validations(run.cfg, run.updater.device, run.validator.n_sentences)
        problem, n_updates = "", 0
        try:
            clock.begin(run.validation_s)
            n_updates, _ = expected_updates(run.cfg.train, clock.timing, run.update_s)
        except BudgetError as error:
            problem = error.shortage.message(f"--budget {budget}")
        epochs = n_updates / (run.epoch_size.n_updates * times)
        courses[shape] = _Course(run.cfg, run.text.tokenizers, n_updates, epochs, problem)
    return courses


def _sampled(cfg: Config, folder: Path) -> tuple[Config, float]:
    """Return the config of a run in this folder with a sample of its text, and how many times as large all text is.

    Each corpus has the same share of its pairs, but at least one in a hundred of the sample.
    """
    corpora, wanted = cfg.data.train, _PAIRS_PER_PIECE * cfg.tokenizer.src.vocab_size
    sizes = [count_pairs([corpus]) for corpus in corpora]
    shares = [min(1.0, max(wanted / sum(sizes), wanted / 100 / max(1, size))) for size in sizes]
    parts = [
        make.part_of(corpus, folder / "text" / f"{n}.tsv", share) if share < 1 else corpus
        for n, (corpus, share) in enumerate(zip(corpora, shares, strict=True), start=1)
    ]
    n_sampled = sum(size * share for size, share in zip(sizes, shares, strict=True))
    data = cfg.data.model_copy(update={"train": parts})
    return cfg.model_copy(update={"run_dir": folder, "data": data}), sum(sizes) / n_sampled


def _shape_plan(shape: str, course: _Course, n_bytes: int, seconds: float, teacher: Figures) -> ShapePlan:
    """seconds: for a sentence."""
    return ShapePlan(
        shape=shape,
        megabytes=n_bytes / 1e6,
        sentences_per_s=1 / seconds,
        words_per_s=teacher.words_per_s / teacher.sentences_per_s / seconds,
        updates=course.updates,
        epochs=course.epochs,
        problem=course.problem,
        expect="" if course.problem else worth_of(course.updates),
        measured=[run for run in MEASURED if run.shape == shape],
        exports={target: export_problems(course.cfg.model, target) for target in get_args(Target)},
    )


def _search_of_teacher(files: BundleFiles, dev: Sequence[DevText]) -> float:
    """Return the seconds that the teacher's engine takes for dev, without what a translator does around it."""
    with without_log():
        translator = Translator.from_bundles([files], threads=1, device="cpu")
    decode, src = translator.decode, files.src_tokenizer
    segments = []
    for one in dev:
        for ids in src.tagged(one.tag).encode_batch([pair.src for pair in one.pairs]):
            segments.append(Segment(tuple(ids), int(decode.max_len_factor * len(ids)) + decode.max_len_constant + 1))
    return _search_s(translator.engine, segments, decode)


def _search_of_student(model: Transformer, course: _Course, dev: Sequence[DevText]) -> float:
    """Return the seconds that the engine takes to give dev translations as long as the references, in one thread."""
    with torch.no_grad():
        model.output.bias[EOS_ID] = _NEVER
    src, tgt = course.tokenizers
    segments = []
    for one in dev:
        sources = src.tagged(one.tag).encode_batch([pair.src for pair in one.pairs])
        references = tgt.encode_batch([pair.tgt for pair in one.pairs])
        segments += [Segment(tuple(ids), len(of_tgt) + 1) for ids, of_tgt in zip(sources, references, strict=True)]
    precision = "int8" if ops.has_faster_decoder(model.cfg, "int8") else "fp32"
    return _search_s(NativeEngine([model], precision=precision), segments, course.cfg.decode)


def _search_s(engine: Engine, segments: Sequence[Segment], decode: DecodeConfig) -> float:
    """Return the seconds of CPU time, as `make.figures_of` counts them."""
    for some in (segments[: make.WARMING_UP], segments):
        started = time.process_time()
        for _ in engine.decode(some, decode, 1):
            pass
        seconds = time.process_time() - started
    return seconds
