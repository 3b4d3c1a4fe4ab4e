"""Adapt a model to the domain of a translation memory: prepare, tune, mix with the base, and judge."""

import json
import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mtkit.adaptation.base_translations import BaseTranslations
from mtkit.adaptation.curve import Point, chosen_share, likely_losses, share_to_try
from mtkit.adaptation.extension import extend, report_gain
from mtkit.adaptation.general import General, prepare_general, text_of
from mtkit.adaptation.judgement import FILE, ON_MEMORY, Judgement, changes_of, examples_of
from mtkit.adaptation.memory import Memory, add_shortlist, has_grown, is_prepared, languages_of, prepare_memory
from mtkit.adaptation.reading import as_read
from mtkit.bundle import MANIFEST, BundleFiles, is_run_or_bundle, load_model, read_bundle
from mtkit.config.data import CorpusFiles
from mtkit.config.durations import duration_of, seconds_of
from mtkit.config.schema import Config
from mtkit.console import log, progress_bar
from mtkit.cores import usable_cores
from mtkit.data.corpus import evenly_spaced, read_pairs
from mtkit.engines.native import NativeEngine
from mtkit.engines.shortlist import shortlist_of
from mtkit.errors import ConfigError, DataError, MtkitError, TrainingError
from mtkit.evaluation.metrics.scores import corpus_bleu
from mtkit.evaluation.metrics.settings import MetricSettings, tokenizer_for
from mtkit.files import locked, parse_json, sha256_file, write_text
from mtkit.model.transformer import Transformer
from mtkit.runs.averaging import interpolated, save_interpolated
from mtkit.runs.export import add_fast_forms, sentences_for_fast_forms
from mtkit.runs.train import train
from mtkit.runtime import choose_device, set_threads
from mtkit.training.preparation.rule import DROPOUTS
from mtkit.training.update.budget import BudgetError
from mtkit.training.update.checkpoint import Checkpoints
from mtkit.translation.translator import Translator

SETTINGS = "adaptation.json"
_NEW_PIECES = "number of new pieces"  # one of its keys
_BASE_TRANSLATIONS, _OWN_TRANSLATIONS = "base-translations.json", "own-translations.json"  # to compare, to train on
_EXTENDED = "extended"  # the folder of the base with new pieces
_BUDGET, _TRAINING = "budget_s", "train_s"  # its keys: the whole time that training was planned for, and its part of it
_SHARES = (0.0, 0.5, 0.75, 1.0)  # of the tuned weights, to try on dev
_N_SHARES = len(_SHARES) + 1  # and one more: see `share_to_try`
_MOST_LOST = 0.5  # BLEU on general text with references
# BLEU between the translations of both models, on general text without references. English to French, Git's catalogue,
# own translations of Tatoeba mixed in: 23 points on other text of Tatoeba went with a loss of 0.6 BLEU, 33 with 1.0, 40
# with 2.8 (250 sentences).
_MOST_DIFFERENT = 20.0
# Otherwise training also moves what the memory does not concern. With label smoothing, each target token changes the
# rows of all tokens, and Adam with a small epsilon moves a weight as far by tiny gradients as by large ones. In an
# imported student (32,002 tokens), the median gradient of a token that a batch lacks is 4e-6 with label smoothing and
# 8e-8 without; that of the other weights is 1e-3. docs/log.md has the effect.
_SPARING = {"label_smoothing": 0.0, "adam_eps": 1e-5}
_FOR_MIX, _FOR_CURVE = 0.1, 0.15  # of the budget, at most: own translations of general text; the means on each dev text
_FOR_TEST = 0.1  # of the budget, at most: the general test, before and after
_FOR_OTHERS = _FOR_MIX + _FOR_CURVE + _FOR_TEST  # of a longer budget's additional time
_LEAST_ON_DEV, _LEAST_ON_TEST = 50, 100  # sentences
_LEAST_TRAINING = 0.3  # of the budget
_RESERVE = 1.1  # in the advice for a longer budget
_SPARE_S, _MARGIN = 5.0, 1.25  # for tests, loading and writing; on the expected time of translating
# Pairs of general text that an epoch draws for each pair of the memory. The second holds for the memory's own sources,
# because the memory has other translations of them; we have not tried other values. docs/log.md compares the first.
_MIXED, _MIXED_OWN = 4.0, 0.2


@dataclass(frozen=True)
class _Text:
    """Sentences with references."""

    sources: list[str]
    references: list[str]

    @classmethod
    def read(cls, corpus: CorpusFiles | None) -> "_Text":
        pairs = list(read_pairs([corpus])) if corpus else []
        return cls([pair.src for pair in pairs], [pair.tgt for pair in pairs])

    def first(self, n: int) -> "_Text":
        """Return n of them, evenly spaced."""
        return _Text(evenly_spaced(self.sources, n), evenly_spaced(self.references, n))

    def only(self, sources: Sequence[str]) -> "_Text | None":
        """Return these of its sentences; None if there are none."""
        references = dict(zip(self.sources, self.references, strict=True))
        return _Text(list(sources), [references[source] for source in sources]) if sources else None


def adapt(
    base_folder: Path,
    memory_paths: Sequence[Path],
    out: Path,
    budget: str,
    general_paths: Sequence[Path] = (),
    since: float | None = None,
    n_new_pieces: int = 0,
) -> Judgement:
    """Adapt the model of a bundle, or resume: OUT has the memory's parts, the run, the report, and a better model.

    OUT/model appears only if the adapted model is significantly better on the memory's test text, and does not lose too
    much on general text.
    budget: wall time of the whole command, such as "10m". general_paths: see `prepare_general`. since: the
    time.monotonic() from which the budget counts; default: now. n_new_pieces: see `extend`.
    Raises KeyboardInterrupt, after saving, if the user stops it, and MtkitError for input that makes it impossible.
    """
    since = time.monotonic() if since is None else since
    base = read_bundle(base_folder)
    if is_run_or_bundle(out):
        raise ConfigError(f"{out} is a run or bundle, whose files the adaptation would replace; choose another --out")
    with locked(out):
        settings = _settings(base, memory_paths, general_paths, n_new_pieces, out)
        if (judgement := Judgement.load(out)) is not None:
            if seconds_of(budget) <= settings.get(_BUDGET, math.inf):
                log.info(
                    f"{out}: this adaptation has already ended; a longer --budget continues it, and another --out "
                    "starts a new one"
                )
                return judgement
            (out / FILE).unlink()
        return _Adaptation(base, memory_paths, out, budget, general_paths, since, settings).run()


def _settings(
    base: BundleFiles, memory: Sequence[Path], general: Sequence[Path], n_new_pieces: int, out: Path
) -> dict[str, Any]:
    """Return what OUT records of an earlier start, or the beginning of a new record.

    Frees OUT if only the memory has changed, and has more than half of its earlier pairs, or if the earlier memory was
    unsuitable. Raises ConfigError for any other adaptation.
    """
    now = {
        "model": base.shaping_checksums,
        "memory": [sha256_file(path) for path in memory if path.is_file()],
        "general text": [sha256_file(path) for path in general if path.is_file()],
        _NEW_PIECES: n_new_pieces,
    }
    path = out / SETTINGS
    then: dict[str, Any] = parse_json(path.read_text(encoding="utf-8")) if path.exists() else now
    then = {_NEW_PIECES: 0} | then
    changed = [key for key in now if then.get(key, now[key]) != now[key]]
    if not changed:
        return now | then
    if is_prepared(out / "memory"):
        if changed != ["memory"] or not has_grown(memory, base, out / "memory"):
            raise ConfigError(f"{out} holds an adaptation of another {' and '.join(changed)}; choose another --out")
        log.info(f"{out}: the memory has changed since the earlier adaptation; starting again from {base.folder}")
    _free(out)
    return now


def _free(out: Path) -> None:
    """Remove the record of an adaptation and its work, so that another may come.

    Its model and the base's translations stay.
    """
    (out / FILE).unlink(missing_ok=True)
    for name in ("run", "general", _EXTENDED, "memory"):
        shutil.rmtree(out / name, ignore_errors=True)
    (out / SETTINGS).unlink()  # the record last: with it, another start does the rest


@dataclass(frozen=True)
class _Compared:
    """The sentences on which both models are compared, and the base's translations of those of the tests."""

    test: _Text
    before: list[str]
    general_test: _Text  # empty without general text
    general_before: list[str]
    dev: _Text
    general_dev: _Text
    later_s: float  # expected seconds of what follows the training


@dataclass(frozen=True)
class _Prepared:
    """All that an adaptation has before it trains."""

    memory: Memory
    changed: str  # what training changes in it, in words
    start: BundleFiles  # the base, or the base with new pieces
    new_pieces: list[str]  # what these bring for each side, in words
    general: General
    compared: _Compared


class _Adaptation:
    """One adaptation in progress."""

    def __init__(
        self,
        base: BundleFiles,
        memory_paths: Sequence[Path],
        out: Path,
        budget: str,
        general_paths: Sequence[Path],
        since: float,
        settings: dict[str, Any],
    ) -> None:
        self.base, self.out = base, out
        self.memory_paths, self.general_paths = memory_paths, general_paths
        self.seconds, self.since, self.settings = seconds_of(budget), since, settings
        self.metric = MetricSettings(tokenizer_for(base.config.data.tgt_lang))
        self.device = choose_device("auto")
        set_threads(usable_cores())

    def run(self) -> Judgement:
        """Do all of it."""
        prepared = self._prepare()
        return self._judge(prepared, self._tune(prepared))

    def _prepare(self) -> _Prepared:
        """Prepare the text, and translate with the base what both models will be compared on."""
        if not (self.out / SETTINGS).exists():
            self._write_settings(without="general text")  # which may prove unsuitable
        gets_pieces = bool(self.settings.get(_NEW_PIECES))
        try:
            memory = prepare_memory(self.memory_paths, self.base, self.out / "memory", gets_pieces=gets_pieces)
        except MtkitError:
            if not is_prepared(self.out / "memory"):
                (self.out / SETTINGS).unlink()  # so that a new folder does not stay
            raise
        start, new_pieces = self._start(memory)
        whole, name = memory, " ".join(map(str, self.memory_paths))
        try:
            memory, changed = as_read(whole, start, self.out / "memory", name)
        except DataError:
            _free(self.out)  # another memory may come here, or more pieces
            raise
        if changed:
            log.info(f"{name}: {changed}")
        general = self._general(memory, whole)
        self._write_settings()
        return _Prepared(memory, changed, start, new_pieces, general, self._compare_on(memory, general))

    def _compare_on(self, memory: Memory, general: General) -> _Compared:
        """Choose as many sentences as there is time for, and translate those of the tests with the base."""
        test, general_test = _Text.read(memory.test), _Text.read(general.test)
        memory_dev, general_dev = _Text.read(memory.dev), _Text.read(general.dev)
        base_model = load_model(self.base)
        kept = self._kept(_BASE_TRANSLATIONS, self.base)
        if kept.missing(test.sources):
            self._translate(base_model, test.first(1), "first sentence")  # which takes longer: mtkit makes its kernels

        def of_base(text: _Text, name: str) -> list[str]:
            if missing := text.only(kept.missing(text.sources)):
                started = time.monotonic()
                translations = self._translate(base_model, missing, name)
                kept.add(missing.sources, translations, time.monotonic() - started)
            return kept.of(text.sources)

        before = of_base(test, "memory's test, before")
        general_test = self._within(_FOR_TEST / 2, general_test, _LEAST_ON_TEST, kept)
        general_before = of_base(general_test, "general test, before")
        dev, general_dev = (
            self._within(_FOR_CURVE / _N_SHARES, text, _LEAST_ON_DEV, kept) for text in (memory_dev, general_dev)
        )
        if not general.has_references:  # both models are compared with the base, which searches in the same way
            general_test = _Text(general_test.sources, general_before)
            general_dev = _Text(general_dev.sources, of_base(general_dev, "general dev, before"))
        later_s = self._later_s([test, general_test], [dev, general_dev], memory_dev, kept)
        return _Compared(test, before, general_test, general_before, dev, general_dev, later_s)

    def _kept(self, name: str, model: BundleFiles) -> BaseTranslations:
        """Return the translations in this file of OUT, if the model made them with the same search."""
        search = model.config.decode.plain.model_dump(mode="json")
        return BaseTranslations(self.out / name, {"model": self.settings["model"], **search})

    def _within(self, share: float, text: _Text, least: int, kept: BaseTranslations) -> _Text:
        """Return as many sentences as the base translates in this share of the budget, but at least these."""
        at_once = kept.seconds_for(text.sources) or math.inf
        return text.first(max(least, int(len(text.sources) * share * self.seconds / at_once)))

    def _later_s(self, tests: list[_Text], devs: list[_Text], memory_dev: _Text, kept: BaseTranslations) -> float:
        """Return the expected seconds of judging the tuned model, and of making the new model's fast forms."""
        on_tests, on_devs = (
            kept.seconds_for([src for text in texts for src in text.sources]) for texts in (tests, devs)
        )
        n_dev = len(memory_dev.sources)
        n_for_fast_forms = sentences_for_fast_forms(self.base.config, self.device, n_dev)
        for_fast_forms = kept.seconds_for(memory_dev.sources) * n_for_fast_forms / n_dev
        return _MARGIN * (on_tests + _N_SHARES * on_devs + for_fast_forms) + _SPARE_S

    def _start(self, memory: Memory) -> tuple[BundleFiles, list[str]]:
        """Return the model to train: the base, or the base with new pieces; and what these bring, in words."""
        if not self.settings.get(_NEW_PIECES):
            return self.base, []
        folder = self.out / _EXTENDED
        if (folder / MANIFEST).exists():
            start = read_bundle(folder)
        else:
            start = extend(self.base, memory.pairs("train"), self.settings[_NEW_PIECES], folder)
        if start is self.base:
            return self.base, []
        return start, report_gain(self.base, start, memory.pairs("test"), "the memory's test text")

    def _judge(self, prepared: _Prepared, tuned: BundleFiles) -> Judgement:
        """Mix the tuned model with the base, compare the mean with the base on test, and write it if it is better."""
        memory, general, compared = prepared.memory, prepared.general, prepared.compared
        test, general_test = compared.test, compared.general_test
        curve, network = self._curve(prepared, tuned)
        after = self._translate(network, test, "memory's test, after", tuned)
        general_after = self._translate(network, general_test, "general test, after", tuned)
        if general.test is None:
            elsewhere = changes_of(compared.before, after, compared.before, self.metric)
            general_of = ON_MEMORY
        else:
            elsewhere = changes_of(compared.general_before, general_after, general_test.references, self.metric)
            general_of = general.name if general.has_references else f"agreement with the base on {general.name}"
        judgement = Judgement(
            base=str(self.base.folder),
            model=None,
            memory=" ".join(path.name for path in self.memory_paths),
            n_read=memory.n_read,
            n_clean=memory.n_clean,
            n_train=len(memory.pairs("train")),
            n_test=len(test.sources),
            unseen=memory.unseen,
            changed=prepared.changed,
            new_pieces=prepared.new_pieces,
            n_mix=general.n_mix,
            domain=changes_of(compared.before, after, test.references, self.metric),
            general=elsewhere,
            general_of=general_of,
            n_general=len(general_test.sources) or len(test.sources),
            curve=curve,
            examples=examples_of(test.sources, test.references, compared.before, after),
            most_lost=None if general.test is None else self._most_lost(general),
        )
        if judgement.is_better:
            share = next(point.share for point in curve if point.is_chosen)
            save_interpolated(prepared.start, tuned, share, self.out / "model")
            add_fast_forms(self.out / "model", self.device)
            judgement = replace(judgement, model=str(self.out / "model"))
        elif (self.out / "model").exists():
            log.info(f"{self.out / 'model'} remains the model of an earlier adaptation")
        judgement.save(self.out)
        return judgement

    def _write_settings(self, without: str = "") -> None:
        settings = {key: value for key, value in self.settings.items() if key != without}
        write_text(self.out / SETTINGS, json.dumps(settings, indent=1) + "\n")

    def _general(self, memory: Memory, whole: Memory) -> General:
        """Return the general text, for which the base translates sources first. whole: the memory as it is written."""
        train = memory.pairs("train")
        greedy = read_bundle(self.base.folder, ["decode.beam_size=1", "decode.on_suspect=warn"])
        of_base = ([], []) if self.general_paths else text_of(self.base)
        mixed = _MIXED if self.general_paths or of_base[0] else _MIXED_OWN
        general = prepare_general(
            self.general_paths,
            [pair.src for pair in train],
            {pair.src for part in ("train", "dev", "test") for pair in whole.pairs(part)},
            languages_of(self.base),
            Translator.from_bundles([greedy], threads=usable_cores()),
            self._kept(_OWN_TRANSLATIONS, greedy),
            self.out / "general",
            n_mix=round(2 * mixed * len(train)),
            seconds=_FOR_MIX * self.seconds,
            of_base=of_base,
        )
        if general.has_references and not self.general_paths:
            log.info("general text: the dev and training text that the base's config names; --general takes other text")
        return general

    def _tune(self, prepared: _Prepared) -> BundleFiles:
        """Train within what the budget leaves, and return the tuned model."""
        left = self.seconds - (time.monotonic() - self.since) - prepared.compared.later_s
        if not Checkpoints(self.out / "run" / "checkpoints").exist():
            if left < _LEAST_TRAINING * self.seconds:
                takes = f", because preparing and judging take {duration_of(self.seconds - left)}"
                missing = _LEAST_TRAINING * self.seconds - left
                raise self._too_short(takes, self.seconds + _RESERVE * missing / (1 - _FOR_OTHERS - _LEAST_TRAINING))
            self.settings |= {_TRAINING: round(left), _BUDGET: self.seconds}
            self._write_settings()
        elif (more := self.seconds - self.settings.get(_BUDGET, self.seconds)) > 0:
            log.info(f"--budget is longer than before, by {duration_of(more)}, which training gets")
            self.settings |= {_TRAINING: self.settings[_TRAINING] + round(more), _BUDGET: self.seconds}
            self._write_settings()
        try:
            tuned = read_bundle(train(self._config(prepared)).bundle)
        except BudgetError as error:
            short = error.shortage  # of the part of the budget that training gets
            takes = f", because preparing and ending the run take {duration_of(short.prepared + short.ending)}"
            more = (short.enough - self.settings[_TRAINING]) / (1 - _FOR_OTHERS)
            raise self._too_short(takes, self.seconds + more) from error
        add_shortlist(tuned, self.base, prepared.memory.pairs("train"))
        return read_bundle(tuned.folder)

    def _too_short(self, why: str, enough_s: float) -> TrainingError:
        """Return the error of a budget that leaves too little time."""
        return TrainingError(
            f"--budget {duration_of(self.seconds)} leaves too little time to train{why}; run the command again with "
            f"--budget {duration_of(10 * math.ceil(enough_s / 10))}, which continues from what is prepared"
        )

    def _config(self, prepared: _Prepared) -> Config:
        base, memory, general = self.base.config, prepared.memory, prepared.general

        def files(corpus: CorpusFiles) -> dict[str, str]:
            return {"src": str(corpus.paths[0].absolute()), "tgt": str(corpus.paths[1].absolute())}

        n_train = len(memory.pairs("train"))
        corpora: list[dict[str, Any]] = [{**files(memory.train), "tag": base.decode.tag}]
        if general.n_mix:
            mixed = _MIXED_OWN if general.dev is None else _MIXED
            weight = min(1.0, mixed * n_train / general.n_mix)
            corpora.append({**files(general.mix), "tag": base.decode.tag, "weight": weight})
        return Config.model_validate(
            {
                "run_dir": str((self.out / "run").absolute()),
                "data": {
                    "src_lang": base.data.src_lang,
                    "tgt_lang": base.data.tgt_lang,
                    "max_tokens": base.data.max_tokens,
                    "train": corpora,
                    "dev": {**files(memory.dev), "tag": base.decode.tag},
                },
                "model": {} if general.dev is None else {key: getattr(base.model, key) for key in DROPOUTS},
                "train": {
                    "init_from": str(prepared.start.folder.absolute()),
                    "budget": f"{self.settings[_TRAINING]}s",
                    **_SPARING,
                    "guided_alignment": base.train.guided_alignment,  # or the model would align words less well
                },
                # OUT/model gets the forms for fast translation, not the run's own model
                "decode": base.decode.model_dump(mode="json") | {"engine": "native"},
            }
        )

    def _curve(self, prepared: _Prepared, tuned: BundleFiles) -> tuple[list[Point], Transformer]:
        """Return the scores of the means of both models' weights on dev, and the model with the best mean."""
        tuned_model = load_model(tuned)
        base_weights, tuned_weights = (
            {name: weight.to("cpu", copy=True) for name, weight in model.state_dict().items()}
            for model in (load_model(prepared.start), tuned_model)
        )

        def at(share: float) -> Transformer:
            tuned_model.load_state_dict(interpolated(base_weights, tuned_weights, share))
            return tuned_model

        shares = _SHARES[:1] if tuned.manifest["training"]["averaged_steps"] == [0] else _SHARES  # it kept the start
        texts, most_lost = (prepared.compared.dev, prepared.compared.general_dev), self._most_lost(prepared.general)
        translated: dict[float, list[list[str]]] = {}  # by share

        def try_share(share: float) -> None:
            name, model = f"dev, {share:.0%} of the tuned weights", at(share)
            translated[share] = [self._translate(model, text, name, tuned) for text in texts]

        for share in shares:
            try_share(share)
        points = self._points(translated, *texts)
        if (share_between := share_to_try(points, most_lost)) is not None:
            try_share(share_between)
            points = self._points(dict(sorted(translated.items())), *texts)
        chosen = chosen_share(points, most_lost)
        curve = [replace(point, is_chosen=point == chosen) for point in points]
        for point in curve:
            elsewhere = "" if point.general is None else f", {prepared.general.name} {point.general:.2f}"
            chosen_one = " (chosen)" if point.is_chosen else ""
            log.info(f"dev BLEU, {point.share:.0%} tuned: memory {point.domain:.2f}{elsewhere}{chosen_one}")
        return curve, at(chosen.share)

    def _points(self, translated: Mapping[float, Sequence[list[str]]], dev: _Text, general: _Text) -> list[Point]:
        """Return the scores of the translations of both texts, by share; the first ones are the base's."""
        of_general = [of_both[1] for of_both in translated.values()]
        points = [
            Point(share, corpus_bleu(of_both[0], dev.references, self.metric), None)
            for share, of_both in translated.items()
        ]
        if not general.sources:
            return points
        losses = likely_losses(of_general, general.references, self.metric)
        return [
            replace(point, general=corpus_bleu(lines, general.references, self.metric), loss=loss)
            for point, lines, loss in zip(points, of_general, losses, strict=True)
        ]

    @staticmethod
    def _most_lost(general: General) -> float:
        """Return the BLEU that the adapted model may lose on the general text."""
        return _MOST_LOST if general.has_references else _MOST_DIFFERENT

    def _translate(self, model: Transformer, text: _Text, name: str, files: BundleFiles | None = None) -> list[str]:
        """Translate a text with a model, and the tokenizers and the shortlist of this bundle; default: of the base."""
        files = files or self.base
        decode = self.base.config.decode.plain
        engine = NativeEngine([model], self.device, shortlist=shortlist_of(files) if decode.shortlist else None)
        tokenizers = files.src_tokenizer, files.tgt_tokenizer
        translator = Translator(engine, *tokenizers, decode, tgt_lang=self.base.config.data.tgt_lang)
        translations = []
        with progress_bar(len(text.sources), name, "sentence") as bar:
            for translation in translator.stream(text.sources):
                translations.append(translation.text)
                bar.update()
        return translations
