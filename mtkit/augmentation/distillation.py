"""Replace the target sides of the training text by the translations of teachers (Kim and Rush 2016).

For corpus N of data.train, RUN/distilled/N.tsv holds each source and its translation, and N.json records how they were
made. Each is a job of `file_job`: killed at any moment, it resumes where it stopped.
"""

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from mtkit.augmentation.back_translation import (
    Translated,
    UsableTranslations,
    counts_of,
    identity_of,
    summary,
    window_of,
    write_corpus,
)
from mtkit.bundle import BundleFiles, find_model, read_bundle
from mtkit.config.data import TrainCorpus
from mtkit.config.decoding import DecodeConfig
from mtkit.config.differences import differences
from mtkit.config.distillation import DistillConfig
from mtkit.config.schema import Config
from mtkit.config.tags import tags_of
from mtkit.console import log
from mtkit.cores import usable_cores
from mtkit.data.corpus import corpus_name, count_pairs, read_pairs, read_side, text_checksums
from mtkit.engines.parallel import ParallelEngine
from mtkit.errors import BundleError, ConfigError, DataError
from mtkit.evaluation.metrics.scores import sentence_scores
from mtkit.evaluation.metrics.settings import MetricSettings, tokenizer_for
from mtkit.files import parse_json, remove_leftovers, write_text
from mtkit.formats.corpus_files import writing
from mtkit.formats.lines import read_lines
from mtkit.languages import are_one_language
from mtkit.translation.direction import check_source_text
from mtkit.translation.file_job import remove_job, run_job
from mtkit.translation.translator import Translator, n_best_problem
from mtkit.version import __version__

FOLDER = "distilled"
_UNNAMED = ("src", "tgt")  # the defaults of data.src_lang and data.tgt_lang


def with_teachers_text(cfg: Config) -> Config:
    """Return the config with the teachers' translations as data.train; translate if the run does not have them.

    Without teachers, returns cfg itself. Raises BundleError or ConfigError for teachers that do not fit the config or
    each other, ConfigError if the run's translations were made in another way, or if the config has no teachers, and
    DataError for unusable text.
    """
    assert cfg.run_dir is not None
    folder = cfg.run_dir / FOLDER
    if not cfg.distill.teachers:
        _check_undistilled(cfg, folder)
        return cfg
    numbered = list(enumerate(cfg.data.train, start=1))
    complete = all(_record(folder / f"{number}.json") is not None for number, _ in numbered)
    teachers = _Teachers(cfg, _members(cfg, needed=not complete))
    folder.mkdir(parents=True, exist_ok=True)  # not before: the folder alone means that the run has teachers
    remove_leftovers(folder)
    made = [_distilled(corpus, folder / f"{number}.tsv", teachers) for number, corpus in numbered]
    weight = cfg.distill.original_weight
    originals = [corpus.times(weight) for corpus in cfg.data.train]
    data = cfg.data.model_copy(update={"train": [*made, *(originals if weight else [])]})
    return cfg.model_copy(update={"data": data, "distill": DistillConfig()})


def _check_undistilled(cfg: Config, folder: Path) -> None:
    """Raise ConfigError if the user forgot the teachers, so that the run would learn from the text as it is."""
    if cfg.distill != DistillConfig():
        named = ", ".join(
            f"distill.{key}" for key, *_ in differences(DistillConfig().model_dump(), cfg.distill.model_dump())
        )
        raise ConfigError(f"{named}: needs a teacher; set distill.teachers, or give --teacher to mtkit distill")
    if folder.exists() and not any(corpus.tsv and corpus.tsv.parent.name == FOLDER for corpus in cfg.data.train):
        raise ConfigError(
            f"{folder}: this run learns from translations by teachers, but the config names none; give them again "
            "(distill.teachers, or --teacher of mtkit distill), choose another run_dir, or remove that folder to learn "
            "from the text as it is"
        )


class _Teachers:
    """The bundles of distill.teachers; empty if they are missing and unnecessary."""

    def __init__(self, cfg: Config, members: Sequence[BundleFiles]) -> None:
        self.cfg = cfg
        self.members = members
        self.settings = MetricSettings(tokenizer_for(cfg.data.tgt_lang))

    @contextmanager
    def translator(self, corpus: TrainCorpus) -> Iterator[Translator]:
        """Provide a translator for this corpus; end its worker processes with the block."""
        train, (first, *others) = self.cfg.train, self.members
        names = ", ".join(str(files.folder) for files in self.members)
        log.info(f"{corpus_name(corpus)}: translating with {names}")
        config = first.config.model_copy(update={"decode": self._decode(corpus)})
        members = [replace(first, config=config), *others]
        translator = Translator.from_bundles(members, device=train.device, threads=train.threads or usable_cores())
        try:
            yield translator
        finally:
            if isinstance(translator.engine, ParallelEngine):
                translator.engine.close()

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
        tag = self.cfg.distill.tag or _known_tags(first, corpus)
        return first.config.decode.model_copy(update={"tag": tag} if tag else {})


def _members(cfg: Config, *, needed: bool) -> list[BundleFiles]:
    """Read the teachers' bundles; return none if one is missing or damaged, and they are not needed.

    Raises ConfigError for a teacher of other languages.
    """
    distill = cfg.distill
    overrides = [f"decode.beam_size={distill.beam_size}", f"decode.workers={distill.workers}"]
    try:
        members = [read_bundle(find_model(folder), overrides) for folder in distill.teachers]
    except BundleError as error:
        if needed:
            raise type(error)(f"distill.teachers: {error}") from None
        log.warning(f"distill.teachers: {error}; using their earlier translations")
        return []
    for files in members:
        of_several = len(_tags(files)) > 1 and all(_known_tags(files, corpus) for corpus in cfg.data.train)
        by_tag = distill.tag is not None or of_several
        for key, unnamed in zip(("src_lang", "tgt_lang"), _UNNAMED, strict=True):
            theirs, ours = getattr(files.config.data, key), getattr(cfg.data, key)
            if key == "tgt_lang" and by_tag:
                continue  # the tag names the target language; a config can name only one
            if not are_one_language(theirs, ours) and unnamed not in (theirs, ours):
                raise ConfigError(
                    f"distill.teachers: {files.folder} has data.{key}={theirs}, but this config has {ours}; choose a "
                    "teacher of the same languages in the same direction"
                )
    return members


def _known_tags(files: BundleFiles, corpus: TrainCorpus) -> str:
    """Return the corpus' tags that the model was trained with."""
    known = _tags(files)
    return " ".join(tag for tag in tags_of(corpus.tag) if tag in known)


def _tags(files: BundleFiles) -> set[str]:
    """Return the tags that the model was trained with."""
    return {tag for other in files.config.data.train for tag in tags_of(other.tag)}


def _distilled(corpus: TrainCorpus, place: Path, teachers: _Teachers) -> TrainCorpus:
    """Return the corpus with the teachers' translations as its target side; write it to `place` if it is missing."""
    made = corpus.model_copy(update={"src": None, "tgt": None, "file": None, "langs": None, "tsv": place})
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
    remove_job(place)  # a killed process may have left it
    log.info(f"{place}: already translated: {summary(record['n_lines'], record['counts'])}")
    return made


def _translate(
    corpus: TrainCorpus, made: TrainCorpus, place: Path, teachers: _Teachers, recipe: dict[str, Any]
) -> None:
    """Write the corpus of translations, then the record, which marks it as complete."""
    if corpus.file:
        corpus = _as_tsv(corpus, place.with_name(f"{place.stem}-text.tsv"))
    text = corpus.paths[0]
    count_pairs([corpus])  # reports unequal files before the work
    distill = teachers.cfg.distill
    check_source_text(str(text), read_side([corpus], "src"), teachers.members[0])
    columns = _Columns(corpus, with_tgt=distill.choose != "all")

    def finish(records: Iterator[str]) -> None:
        n_lines, counts = 0, Counter[str]()

        def counted() -> Iterator[Translated]:
            nonlocal n_lines
            for record in records:
                line = Translated.from_json(record)
                n_lines += 1
                counts.update(counts_of([line]))
                yield line

        write_corpus(counted(), made, "forward")
        if not counts["pairs"]:
            raise DataError(f"{text}: no line has a usable translation by the teachers: {summary(n_lines, counts)}")
        record = {"n_lines": n_lines, "counts": counts, "recipe": recipe, "teachers": _names(teachers.cfg)}
        write_text(place.with_suffix(".json"), json.dumps(record, indent=2, ensure_ascii=False) + "\n")
        log.info(f"{place}: {summary(n_lines, counts)}")

    with teachers.translator(corpus) as translator:
        if problem := n_best_problem(distill.n_best, translator.decode):
            raise ConfigError(f"distill.n_best={distill.n_best}: {problem}")
        usable = UsableTranslations(translator, n_best=distill.n_best)

        def translate(lines: Sequence[str], first_line: int) -> list[Translated]:
            sources, references = columns.sides_of(lines, first_line)
            translated = usable.translate(sources, first_line)
            if references is None or distill.choose == "all":
                return translated
            pairs = zip(translated, references, strict=True)
            return [_choose(line, reference, distill.choose, teachers.settings) for line, reference in pairs]

        engine = {"engine": translator.engine.name, "arithmetic": translator.engine.arithmetic, "mtkit": __version__}
        identity = {**recipe, **engine}
        hint = f"remove {place.parent} to have all text translated again"
        window = translator.window
        run_job(text, place, window_of(translate), identity, window_lines=window, restart_hint=hint, finish=finish)


def _as_tsv(corpus: TrainCorpus, place: Path) -> TrainCorpus:
    """Write a corpus in another format as TSV, in which a job finds its place by the line."""
    with writing([place], ("src", "tgt")) as write:
        for pair in read_pairs([corpus]):
            write(pair.src, pair.tgt)
    return corpus.model_copy(update={"file": None, "langs": None, "tsv": place})


class _Columns:
    """The sides of a corpus, window by window in order, given lines of its TSV or of its source file."""

    def __init__(self, corpus: TrainCorpus, *, with_tgt: bool) -> None:
        self.corpus = corpus
        self.with_tgt = with_tgt
        self._tgt_lines = read_lines(corpus.tgt) if corpus.tgt and with_tgt else iter(())
        self._n_read = 0  # lines of tgt

    def sides_of(self, lines: Sequence[str], first_line: int) -> tuple[list[str], list[str] | None]:
        """Return the source sides and, if wanted, the target sides of the window that begins at first_line."""
        if self.corpus.tsv:
            rows = [line.split("\t") for line in lines]
            for number, row in enumerate(rows, start=first_line):
                if len(row) < 2:
                    raise DataError(
                        f"{corpus_name(self.corpus)}: line {number}: no tab; a line must be: source, tab, target"
                    )
            return [row[0] for row in rows], [row[1] for row in rows] if self.with_tgt else None
        if not self.with_tgt:
            return list(lines), None
        begin = first_line - 1 - self._n_read
        references = list(itertools.islice(self._tgt_lines, begin, begin + len(lines)))
        self._n_read += begin + len(references)
        return list(lines), references


def _choose(line: Translated, reference: str, metric: Literal["bleu", "chrf"], settings: MetricSettings) -> Translated:
    """Keep only the translation most similar to the reference; of equals, the most likely."""
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
