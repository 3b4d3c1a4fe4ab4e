"""Replace the target sides of the training text by the translations of teachers (Kim and Rush 2016).

A corpus may lack the target side. For corpus N of data.train, RUN/distilled/N.tsv holds each source and its
translation, and N.json records how they were made. Each is a `line_job`: killed at any moment, it resumes where it
stopped.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from mtkit.augmentation.back_translation import (
    Synthesis,
    Translated,
    UsableTranslations,
    identity_of,
    make_corpus,
    summary,
    work_of,
)
from mtkit.bundle import BundleFiles, find_model, read_bundle
from mtkit.config.data import UNNAMED, TrainCorpus
from mtkit.config.decoding import DecodeConfig
from mtkit.config.distillation import DISTILLED, DistillConfig, has_teachers_text
from mtkit.config.reading.differences import differences
from mtkit.config.schema import Config
from mtkit.config.tags import tags_of
from mtkit.console import log
from mtkit.data.corpus import corpus_name, count_pairs, read_side, text_checksums
from mtkit.engines.choose import loss_in_int8
from mtkit.engines.int8_scores import INT8_SCORES
from mtkit.errors import BundleError, ConfigError, DataError
from mtkit.evaluation.metrics.scores import sentence_scores
from mtkit.evaluation.metrics.settings import MetricSettings, tokenizer_for
from mtkit.files import parse_json, remove_leftovers, write_text
from mtkit.jobs.executors import Executor, on_this_machine
from mtkit.jobs.job import work_folder
from mtkit.jobs.line_job import LineJobResult, Work
from mtkit.jobs.shards import remove_folder
from mtkit.languages import are_one_language
from mtkit.scoring.pair_text import pair_of, pair_text
from mtkit.translation.direction import check_source_text
from mtkit.translation.loading import SharedTranslator, load_shared, shared_device
from mtkit.translation.translator import Translator, n_best_problem

_MOST_LOST = 0.5  # points of BLEU by int8


def with_teachers_text(cfg: Config, executor: Executor | None = None) -> Config:
    """Return the config with the teachers' translations as data.train; translate if the run does not have them.

    Without teachers, returns cfg itself. executor: runs the translation; default: distill.workers processes.
    Raises BundleError or ConfigError for teachers that do not fit the config or
    each other, ConfigError if the run's translations were made in another way, or if the config has no teachers, and
    DataError for unusable text.
    """
    assert cfg.run_dir is not None
    folder = cfg.run_dir / DISTILLED
    if not cfg.distill.teachers:
        _check_undistilled(cfg, folder)
        return cfg
    numbered = list(enumerate(cfg.data.train, start=1))
    complete = all(_record(folder / f"{number}.json") is not None for number, _ in numbered)
    executor = executor or on_this_machine(cfg.distill.workers)
    teachers = _Teachers(cfg, _members(cfg, needed=not complete), executor)
    folder.mkdir(parents=True, exist_ok=True)  # not before: the folder alone means that the run has teachers
    remove_leftovers(folder)
    made = [_distilled(corpus, folder / f"{number}.tsv", teachers) for number, corpus in numbered]
    weight = cfg.distill.original_weight
    originals = [corpus.times(weight) for corpus in cfg.data.train if not corpus.is_untranslated]
    data = cfg.data.model_copy(update={"train": [*made, *(originals if weight else [])]})
    return cfg.model_copy(update={"data": data, "distill": DistillConfig()})


def _check_undistilled(cfg: Config, folder: Path) -> None:
    """Raise ConfigError if the user forgot the teachers, so that the run would learn from the original text."""
    if cfg.distill != DistillConfig():
        named = ", ".join(
            f"distill.{key}" for key, *_ in differences(DistillConfig().model_dump(), cfg.distill.model_dump())
        )
        raise ConfigError(f"{named}: needs a teacher; set distill.teachers, or give --teacher to mtkit distill")
    if folder.exists() and not has_teachers_text(cfg.data.train):
        raise ConfigError(
            f"{folder}: this run learns from translations by teachers, but the config names none; give them again "
            "(distill.teachers, or --teacher of mtkit distill), choose another run_dir, or remove that folder to learn "
            "from the text as it is"
        )


def in_fast_precision(members: Sequence[BundleFiles], device: str) -> Sequence[BundleFiles]:
    """Return the teachers for the native engine in int8, if that is faster here and loses at most 0.5 BLEU.

    Other translations may lose less. But in int8 a teacher translates up to twice as many lines in the same time, and
    these are worth more to a student.
    """
    loss = loss_in_int8(members, device)
    if loss is None or loss.bleu > _MOST_LOST:
        return members
    change = f"loses {loss.bleu:.2f} BLEU" if loss.bleu > 0 else "loses no BLEU"
    log.info(f"the teacher translates in int8: it {change} on dev ({INT8_SCORES}), and is faster than in fp32")
    first, *others = members
    decode = first.config.decode.model_copy(update={"engine": "native", "precision": "int8"})
    return [replace(first, config=first.config.model_copy(update={"decode": decode})), *others]


class _Teachers:
    """The bundles of distill.teachers; empty if they are missing and unnecessary."""

    def __init__(self, cfg: Config, members: Sequence[BundleFiles], executor: Executor) -> None:
        self.cfg = cfg
        self.executor = executor
        self.members = members
        self.settings = MetricSettings(tokenizer_for(cfg.data.tgt_lang))

    def load(self, corpus: TrainCorpus) -> SharedTranslator:
        """Load a translator for this corpus."""
        train, (first, *others) = self.cfg.train, self.members
        names = ", ".join(str(files.folder) for files in self.members)
        log.info(f"{corpus_name(corpus)}: translating with {names}")
        config = first.config.model_copy(update={"decode": self._decode(corpus)})
        device = shared_device(train.device, self.executor)
        members = in_fast_precision([replace(first, config=config), *others], device)
        return load_shared(members, self.executor, device=device, threads=train.threads)

    def recipe(self, corpus: TrainCorpus) -> dict[str, Any]:
        """Return what the translations depend on, as JSON values; without teachers, only what is known."""
        distill = self.cfg.distill
        known: dict[str, Any] = {"text": text_checksums([corpus]), "n_best": distill.n_best, "choose": distill.choose}
        if distill.choose == "bleu" and self.settings.tokenize != MetricSettings().tokenize:
            known["bleu"] = self.settings.tokenize
        return {**known, **identity_of(self.members, self._decode(corpus))} if self.members else known

    def _decode(self, corpus: TrainCorpus) -> DecodeConfig:
        """Return the first teacher's settings, with distill.tag, or with the corpus' tags that it was trained with."""
        first = self.members[0]
        tag = self.cfg.distill.tag or known_tags(first, corpus)
        return first.config.decode.model_copy(update={"tag": tag} if tag else {})


def _members(cfg: Config, *, needed: bool) -> list[BundleFiles]:
    """Read the teachers' bundles; return none if one is missing or damaged, and they are not needed.

    Raises ConfigError for a teacher of other languages.
    """
    distill = cfg.distill
    beam = f"decode.beam_size={distill.beam_size}"
    try:
        members = [read_bundle(find_model(folder), [beam]) for folder in distill.teachers]
    except BundleError as error:
        if needed:
            raise type(error)(f"distill.teachers: {error}") from None
        log.warning(f"distill.teachers: {error}; using their earlier translations")
        return []
    for files in members:
        by_tag = distill.tag is not None or reads_languages_from_tags(files, cfg)
        for key in ("src_lang", "tgt_lang"):
            theirs, ours = getattr(files.config.data, key), getattr(cfg.data, key)
            if key == "tgt_lang" and by_tag:
                continue  # the tag names the target language; a config can name only one
            if not may_be_one_language(theirs, ours):
                raise ConfigError(
                    f"distill.teachers: {files.folder} has data.{key}={theirs}, but this config has {ours}; choose a "
                    "teacher of the same languages in the same direction"
                )
    return members


def may_be_one_language(one: str, other: str) -> bool:
    """Return whether the languages of a model and a config are the same, or one of them is unknown."""
    return are_one_language(one, other) or bool({one, other} & {*UNNAMED})


def reads_languages_from_tags(files: BundleFiles, cfg: Config) -> bool:
    """Return whether the model was trained with several tags, and knows one of each corpus."""
    return len(_tags(files)) > 1 and all(known_tags(files, corpus) for corpus in cfg.data.train)


def known_tags(files: BundleFiles, corpus: TrainCorpus) -> str:
    """Return the corpus' tags that the model was trained with."""
    known = _tags(files)
    return " ".join(tag for tag in tags_of(corpus.tag) if tag in known)


def _tags(files: BundleFiles) -> set[str]:
    """Return the tags that the model was trained with."""
    return {tag for other in files.config.data.train for tag in tags_of(other.tag)}


def _distilled(corpus: TrainCorpus, place: Path, teachers: _Teachers) -> TrainCorpus:
    """Return the corpus with the teachers' translations as its target side; write it to `place` if it is missing."""
    made = corpus.moved_to(place)
    recipe = teachers.recipe(corpus)
    record = _record(place.with_suffix(".json"))
    if record is None:
        _translate(corpus, made, place, teachers, recipe)
        return made
    then = record["recipe"] if teachers.members else {key: record["recipe"].get(key) for key in recipe}
    names, now = record["teachers"], _names(teachers.cfg)
    if not teachers.members and names is not None and names != now:
        raise ConfigError(
            f"distill.teachers: {', '.join(now)}: some are missing, and {place} was made by {', '.join(names)}; name "
            "these, or existing teachers"
        )
    if changes := differences(then, recipe):
        listed = "; ".join(
            f"the teachers were {', '.join(names or ['others'])}, now {', '.join(now)}"
            if name == "models"
            else f"{name} was {old}, now {new}"
            for name, old, new in changes
        )
        raise ConfigError(
            f"{place} was made with other settings: {listed}; start a new run (another run_dir), or remove "
            f"{place.parent} to translate the text again"
        )
    remove_folder(work_folder(place))  # a killed process may have left it
    log.info(f"{place}: already translated: {summary(record['n_lines'], record['counts'])}")
    return made


def _translate(
    corpus: TrainCorpus, made: TrainCorpus, place: Path, teachers: _Teachers, recipe: dict[str, Any]
) -> None:
    """Write the corpus of translations, then the record, which marks it as complete."""
    text = corpus.paths[0]
    count_pairs([corpus])  # reports unequal files before the work
    distill = teachers.cfg.distill
    check_source_text(str(text), read_side([corpus], "src"), teachers.members[0])

    def done(result: LineJobResult) -> None:
        n_lines, counts = result.n_lines, result.counts
        if not counts["pairs"]:
            raise DataError(f"{text}: no line has a usable translation by the teachers: {summary(n_lines, counts)}")
        record = {"n_lines": n_lines, "counts": counts, "recipe": recipe, "teachers": _names(teachers.cfg)}
        write_text(place.with_suffix(".json"), json.dumps(record, indent=2, ensure_ascii=False) + "\n")
        log.info(f"{place}: {summary(n_lines, counts)}")

    shared = teachers.load(corpus)
    if problem := n_best_problem(distill.n_best, shared.translator.decode):
        raise ConfigError(f"distill.n_best={distill.n_best}: {problem}")
    make_corpus(
        pair_text([corpus]),
        made,
        shared,
        partial(_work, shared.make, distill, teachers.settings),
        recipe,
        Synthesis("forward"),
        done=done,
        unit="pair",
        restart_hint=f"remove {place.parent} to have all text translated again",
    )


def _work(make_translator: Callable[[], Translator], distill: DistillConfig, settings: MetricSettings) -> Work:
    usable = UsableTranslations(make_translator(), n_best=distill.n_best)

    def translate(lines: Sequence[str], first_line: int) -> list[Translated]:
        pairs = [pair_of(line) for line in lines]
        translated = usable.translate([src for src, _ in pairs], first_line)
        if distill.choose == "all":
            return translated
        return [_choose(line, tgt, distill.choose, settings) for line, (_, tgt) in zip(translated, pairs, strict=True)]

    return work_of(translate)


def _choose(line: Translated, reference: str, metric: Literal["bleu", "chrf"], settings: MetricSettings) -> Translated:
    """Keep only the translation most similar to the reference; among equals or without one, the most likely."""
    if len(line.translations) < 2 or not reference.strip():
        return replace(line, translations=line.translations[:1])
    scores = sentence_scores(line.translations, reference, metric, settings)
    return replace(line, translations=[line.translations[scores.index(max(scores))]])


def _names(cfg: Config) -> list[str]:
    return [str(teacher) for teacher in cfg.distill.teachers]


def _record(path: Path) -> dict[str, Any] | None:
    """Read how a finished corpus was made; None if there is none."""
    try:
        record = parse_json(path.read_text(encoding="utf-8"))
        return {**{key: record[key] for key in ("n_lines", "counts", "recipe")}, "teachers": record.get("teachers")}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: cannot read it ({error}); remove it to translate the text again") from None
