"""Add the training text translated again, in both directions, to the training text (Nguyen et al. 2020).

Each forward model translates the sources, and each backward model the targets. For corpus N of data.train,
FOLDER/N-forward.tsv and FOLDER/N-backward.tsv hold the pairs that are new. FOLDER/translations has what each model
wrote, in files whose names are checksums of model, settings and text, so that a later call translates only what is
missing.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from mtkit.augmentation.back_translation import Synthesis, identity_of, make_corpus, summary, usable_work
from mtkit.augmentation.distillation import known_tags, may_be_one_language, reads_languages_from_tags
from mtkit.bundle import BundleFiles, find_model, read_bundle
from mtkit.config.data import UNNAMED, TrainCorpus
from mtkit.config.decoding import DecodeConfig
from mtkit.config.reading.yaml_text import format_yaml
from mtkit.config.schema import Config
from mtkit.console import counted, log, progress_bar
from mtkit.data.corpus import corpus_name, count_pairs, read_pairs, read_side, require_files, text_checksums
from mtkit.errors import ConfigError, DataError, UsageError
from mtkit.files import disk_full_explained, locked, remove_leftovers, write_text
from mtkit.jobs.executors import Executor
from mtkit.jobs.job import work_folder
from mtkit.jobs.line_job import LineJobResult, Text
from mtkit.jobs.shards import remove_folder
from mtkit.languages import Side
from mtkit.pair_files.compression import open_output
from mtkit.pair_files.lines import as_column
from mtkit.text.near_texts import loose_keys, squeezed
from mtkit.translation.direction import check_source_text
from mtkit.translation.loading import load_shared

Way = Literal["forward", "backward"]

_TRANSLATIONS = "translations"
_SIDES: dict[Way, Side] = {"forward": "src", "backward": "tgt"}  # what the models of each way read


@dataclass(frozen=True)
class Model:
    """A model that translates the training text."""

    files: BundleFiles
    way: Way

    @property
    def option(self) -> str:
        """The option that names it, for messages."""
        return f"--{self.way} {self.files.folder}"

    def decode(self, corpus: TrainCorpus) -> DecodeConfig:
        """Return its settings, with the corpus' tags that it was trained with."""
        tag = known_tags(self.files, corpus)
        return self.files.config.decode.model_copy(update={"tag": tag} if tag else {})

    def place(self, folder: Path, number: int, corpus: TrainCorpus) -> Path:
        """Return where its translations of a corpus belong."""
        identity = {
            **identity_of([self.files], self.decode(corpus)),
            "text": text_checksums([corpus]),
            "side": _SIDES[self.way],
        }
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        return folder / _TRANSLATIONS / f"{number}-{self.way}-{digest[:12]}.tsv.gz"


def read_models(cfg: Config, folders: Sequence[Path], way: Way, beam_size: int | None = None) -> list[Model]:
    """Read the bundles of runs, each once. Raises UsageError for a model of another direction, or two equal ones."""
    overrides = [] if beam_size is None else [f"decode.beam_size={beam_size}"]
    models = [Model(read_bundle(find_model(folder), overrides), way) for folder in folders]
    known: dict[str, Model] = {}
    for model in models:
        _check_direction(model, cfg)
        weights = json.dumps(identity_of([model.files], model.files.config.decode)["models"])
        if weights in known:
            raise UsageError(
                f"{model.option}: this is the same model as {known[weights].files.folder}, and would translate "
                "everything the same way; give models that were trained with other seeds or settings"
            )
        known[weights] = model
    return models


def _check_direction(model: Model, cfg: Config) -> None:
    """Raise UsageError if a model translates between other languages, or the other way round."""
    ours = (cfg.data.src_lang, cfg.data.tgt_lang)
    wanted = ours if model.way == "forward" else ours[::-1]
    data = model.files.config.data
    theirs = (data.src_lang, data.tgt_lang)
    by_tag = reads_languages_from_tags(model.files, cfg)
    if may_be_one_language(theirs[0], wanted[0]) and (by_tag or may_be_one_language(theirs[1], wanted[1])):
        return
    other = "backward" if model.way == "forward" else "forward"
    is_swapped = may_be_one_language(theirs[0], wanted[1]) and may_be_one_language(theirs[1], wanted[0])
    remedy = f"give it as --{other}" if is_swapped else f"give a model from {wanted[0]} into {wanted[1]}"
    raise UsageError(
        f"{model.option}: this model translates from {theirs[0]} into {theirs[1]}, but the config has "
        f"data.src_lang={ours[0]} and data.tgt_lang={ours[1]}, so a {model.way} model translates from {wanted[0]} into "
        f"{wanted[1]}; {remedy}"
    )


def diversify(
    cfg: Config, models: Sequence[Model], folder: Path, executor: Executor, *, device: str = "auto"
) -> list[TrainCorpus]:
    """Return the corpora of the config and, for each, the new pairs of all models; translate what is missing.

    Two calls with the same models, settings and text give the same files. Made pairs leave out duplicates, and pairs
    whose source is also in dev or test.
    Raises ConfigError for a config without text to translate, DataError for text that does not suit the models, and
    MtkitError as `run_line_job` does.
    """
    _check_config(cfg, folder)
    (folder / _TRANSLATIONS).mkdir(parents=True, exist_ok=True)
    with locked(folder), disk_full_explained(folder):
        remove_leftovers(folder)
        numbered = list(enumerate(cfg.data.train, start=1))
        places = {
            (number, model.option): model.place(folder, number, corpus)
            for number, corpus in numbered
            for model in models
        }
        for number, corpus in numbered:
            for model in models:
                place = places[number, model.option]
                if place.exists():
                    remove_folder(work_folder(place))  # a killed process may have left it
                else:
                    _translate(corpus, model, place, executor, device)
        new = _NewPairs(cfg)
        made = []
        for number, corpus in numbered:
            for way in _SIDES:
                by_models = [places[number, model.option] for model in models if model.way == way]
                made.append(_merged(corpus, by_models, folder / f"{number}-{way}.tsv", new))
        _report_unused(folder, set(places.values()))
    if not any(made):
        raise DataError(f"{folder}: the models wrote no pair that is not in data.train already")
    return [*cfg.data.train, *filter(None, made)]


def _check_config(cfg: Config, folder: Path) -> None:
    """Raise MtkitError if this config or this folder cannot be used."""
    if cfg.task != "translate":
        raise ConfigError(f"task: {cfg.task}: only the training text of a translator can be translated again")
    if cfg.distill.teachers:
        raise ConfigError(
            "distill.teachers: this config trains on its teachers' translations, not on the pairs of data.train; "
            "remove the teachers, or give them as --forward"
        )
    for index, corpus in enumerate(cfg.data.train):
        if corpus.min_score is not None:
            raise ConfigError(
                f"data.train.{index}.min_score: the models would also translate the pairs that it leaves out, and a "
                f"run would train on them; replace {corpus_name(corpus)} by a file with the good pairs alone, and "
                "leave out scores and min_score"
            )
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / _TRANSLATIONS).is_dir())):
        raise UsageError(
            f"--output {folder}: already exists, and does not come from mtkit diversify; choose a new folder"
        )
    if own := [path for corpus in cfg.data.train for path in corpus.paths if path.parent.resolve() == folder.resolve()]:
        raise UsageError(
            f"--output {folder}: the command would overwrite {own[0]} of data.train, which is in this folder; give the "
            "config with the text that it was made from, or another folder"
        )
    for key, corpora in (("data.train", cfg.data.train), ("data.dev", cfg.data.dev), ("data.test", [cfg.data.test])):
        require_files(key, filter(None, corpora))
    count_pairs(cfg.data.train)  # reports unequal files before the work


def _translate(corpus: TrainCorpus, model: Model, place: Path, executor: Executor, device: str) -> None:
    """Write the usable translations that a model makes of one side of a corpus."""
    side, files = _SIDES[model.way], model.files
    name = corpus_name(corpus)
    check_source_text(f"{name} ({side})", read_side([corpus], side), files)
    log.info(f"{name}: {files.folder} translates the {'source' if side == 'src' else 'target'} side")
    config = files.config.model_copy(update={"decode": model.decode(corpus)})
    shared = load_shared([replace(files, config=config)], executor, device=device)
    settings = Synthesis("forward" if model.way == "forward" else "back")

    def done(result: LineJobResult) -> None:
        message = f"{name}, {model.option}: {summary(result.n_lines, result.counts)}"
        if not result.counts["pairs"]:
            place.unlink()  # which would count as finished
            raise DataError(f"{message}; is it the right model?")
        log.info(message)

    make_corpus(
        Text(partial(_distinct_lines, corpus, side), corpus.paths),
        TrainCorpus(tsv=place),
        shared,
        partial(usable_work, shared.make, settings),
        {"translates": side},
        settings,
        done=done,
        restart_hint=f"remove {place.parent} to have everything translated again",
    )


def _distinct_lines(corpus: TrainCorpus, side: Side) -> Iterator[str]:
    """Yield each sentence of one side once, without blank ones."""
    known = set[bytes]()
    for text in read_side([corpus], side):
        line = as_column(text).strip()
        if line and (key := _checksum(squeezed(line))) not in known:
            known.add(key)
            yield line


def _checksum(*texts: str | None) -> bytes:
    return hashlib.blake2b("\n".join(map(str, texts)).encode(), digest_size=12).digest()


class _NewPairs:
    """Decides which pairs are neither known already, nor have a source of dev or test."""

    def __init__(self, cfg: Config) -> None:
        held_out = [*cfg.data.dev, *([cfg.data.test] if cfg.data.test else [])]
        self._held_out = set(loose_keys([squeezed(src) for src in read_side(held_out, "src")])) - {""}
        self._known = {self._key(corpus, *pair[:2]) for corpus in cfg.data.train for pair in _texts(corpus)}

    def refusal(self, corpus: TrainCorpus, src: str, tgt: str) -> str:
        """Return why not to add a pair made from a corpus; "" for a new pair, which is known from then on."""
        if loose_keys([squeezed(src)])[0] in self._held_out:
            return "with a source in dev or test"
        key = self._key(corpus, src, tgt)
        if key in self._known:
            return "already there"
        self._known.add(key)
        return ""

    def _key(self, corpus: TrainCorpus, src: str, tgt: str) -> bytes:
        return _checksum(corpus.tag, squeezed(src), squeezed(tgt))


def _texts(corpus: TrainCorpus) -> Iterator[tuple[str, str]]:
    return ((pair.src, pair.tgt) for pair in read_pairs([corpus]))


def _merged(corpus: TrainCorpus, by_models: Iterable[Path], place: Path, new: _NewPairs) -> TrainCorpus | None:
    """Write the new pairs of several models; return their entry for data.train, or None if there are none."""
    counts = Counter[str]()
    with open_output(place) as file, progress_bar(None, f"writing {place.name}", "pair", delay=2.0) as bar:
        for path in by_models:
            for src, tgt in _texts(TrainCorpus(tsv=path)):
                refusal = new.refusal(corpus, src, tgt)
                counts[refusal] += 1
                if not refusal:
                    file.write(f"{src}\t{tgt}\n")
                bar.update()
    n_new = counts.pop("", 0)
    left_out = ", ".join(f"{n:,} {refusal}" for refusal, n in counts.most_common())
    if counts or n_new:
        log.info(f"{place}: {counted(n_new, 'new pair')}" + (f" (left out: {left_out})" if left_out else ""))
    if not n_new:
        place.unlink()
        return None
    return TrainCorpus(tsv=place, tag=corpus.tag, weight=corpus.weight)


def _report_unused(folder: Path, used: set[Path]) -> None:
    unused = [path for path in (folder / _TRANSLATIONS).iterdir() if path not in used]
    if unused:
        log.info(f"{folder / _TRANSLATIONS}: ignoring {counted(len(unused), 'file')} of other models, settings or text")


def write_config(cfg: Config, corpora: Sequence[TrainCorpus], path: Path) -> None:
    """Write the config's own keys with these corpora, for a run that is named after this file."""
    written = cfg.model_dump(mode="json", exclude_unset=True, exclude={"run_dir"})
    languages = {
        key: getattr(cfg.data, key) for key in ("src_lang", "tgt_lang") if getattr(cfg.data, key) not in UNNAMED
    }
    entries = [corpus.model_dump(mode="json", exclude_defaults=True) for corpus in corpora]
    write_text(path, format_yaml({**written, "data": {**languages, **written["data"], "train": entries}}))
