"""Collect the systems to score on a test set: files of translations, and models that translate it."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.bundle import find_model
from mtkit.config.data import CorpusFiles
from mtkit.config.reading.differences import differences
from mtkit.config.reading.loading import load_config
from mtkit.console import counted, log, progress_bar
from mtkit.data.corpus import read_pairs
from mtkit.errors import DataError, UsageError
from mtkit.evaluation.metrics.settings import METRICS
from mtkit.pair_files.lines import read_lines
from mtkit.tokens.special_ids import UNK_ID

if TYPE_CHECKING:
    from mtkit.tokens.tokenizer import Tokenizer
    from mtkit.translation.translator import Translator


@dataclass(frozen=True)
class Place:
    """A system's name and path: a file of translations, or a run or bundle folder."""

    name: str
    path: Path

    @property
    def is_model(self) -> bool:
        """Return whether the path is a model, which has to translate."""
        return self.path.is_dir()


@dataclass(frozen=True)
class UnknownPieces:
    """The number of pieces in a tokenized text that are bytes or <unk>, because the tokenizer lacks the characters."""

    n_pieces: int
    n_unknown: int

    @property
    def share(self) -> float:
        """Return the share of unknown pieces."""
        return self.n_unknown / self.n_pieces if self.n_pieces else 0.0

    @classmethod
    def from_ids(cls, lines: Sequence[Sequence[int]], tokenizer: "Tokenizer") -> "UnknownPieces":
        """Count the unknown ones among the ids of each line."""
        unknown = {UNK_ID, *tokenizer.byte_ids()}
        return cls(sum(map(len, lines)), sum(token in unknown for ids in lines for token in ids))


@dataclass(frozen=True)
class System:
    """The translations of a whole test set, with details if they come from a model."""

    name: str
    texts: Sequence[str]
    origin: dict[str, object] = field(default_factory=dict)  # file, or model and speed, for JSON
    finished: Sequence[bool] | None = None  # False: the length limit ended it
    confidences: Sequence[float | None] | None = None  # by the bundle's calibration
    good_chrf: float | None = None  # lowest sentence chrF of a good translation, in the calibration
    unknown_src: UnknownPieces | None = None  # of the source text
    unknown_tgt: UnknownPieces | None = None  # of the translations
    given: dict[str, list[float]] = field(default_factory=dict)  # scores from elsewhere, by name, one a sentence


@dataclass(frozen=True)
class TestSet:
    """References, and sources for models to translate."""

    references: list[list[str]]  # one or more lists, line by line
    reference_files: list[Path]
    sources: list[str] | None
    origin: dict[str, object]  # files by role, for JSON

    __test__ = False  # not a pytest class

    def warn_of_blanks(self) -> None:
        """Log how many references are blank: they match no translation."""
        for path, lines in zip(self.reference_files, self.references, strict=True):
            if n_blank := sum(not line.strip() for line in lines):
                where = f"{path}: " if len(self.references) > 1 else ""
                log.warning(f"{where}{n_blank:,} of {len(lines):,} references are blank")


def find_places(systems: Sequence[str], groups: Sequence[str]) -> tuple[list[Place], dict[str, list[str]]]:
    """Return every system, in order, and the names of each group's systems.

    systems: PATH or NAME=PATH; the default name is the path. groups: NAME=SYSTEM,SYSTEM,..., each the name of one of
    the systems, or the path of another one. Raises UsageError for a name used twice, DataError for a missing path.
    """
    places: dict[str, Place] = {}
    for text in systems:
        _add(places, _place(text))
    named_groups: dict[str, list[str]] = {}
    for text in groups:
        name, _, rest = text.partition("=")
        members = [member.strip() for member in rest.split(",") if member.strip()]
        if not name or len(members) < 2:
            raise UsageError(f"--group {text}: write NAME=SYSTEM,SYSTEM,... with two or more systems")
        for member in members:
            if member not in places:
                _add(places, Place(member, _existing(member, f"--group {text}: ")))
        if twice := next((member for member in members if members.count(member) > 1), None):
            raise UsageError(f"--group {text}: lists {twice} twice")
        if name in named_groups:
            raise UsageError(f"two groups have the name {name}; choose different names")
        named_groups[name] = members
    if both := next((name for name in named_groups if name in places), None):
        raise UsageError(f"a group and a system have the name {both}; choose different names")
    return list(places.values()), named_groups


def _place(text: str) -> Place:
    name, equals, rest = text.partition("=")
    if not equals or Path(text).exists():
        return Place(text, _existing(text))
    if not name or not rest:
        raise UsageError(f"{text}: write NAME=PATH")
    return Place(name, _existing(rest))


def _existing(text: str, place: str = "") -> Path:
    path = Path(text)
    if not path.exists():
        raise DataError(
            f"{place}{path}: no such file or folder; a system is a file of translations, or a run or bundle folder"
        )
    if path.is_dir():
        find_model(path)  # raises BundleError before any other system does its work
    return path


def _add(places: dict[str, Place], place: Place) -> None:
    if (other := places.get(place.name)) is not None:
        raise UsageError(
            f"two systems have the name {place.name}: {other.path} and {place.path}; choose different names with "
            "NAME=PATH"
        )
    places[place.name] = place


def read_test_set(files: CorpusFiles | None, references: Sequence[Path]) -> TestSet:
    """Read sources and references; files: sources with the first references; references: all others.

    Raises DataError, with files and counts, if the numbers of lines differ or are 0.
    """
    texts: list[list[str]] = []
    paths: list[Path] = []
    sources = None
    if files is not None:
        pairs, paths = list(read_pairs([files])), files.paths[-1:]
        if not pairs:
            empty = [f"{path} has 0 lines" for path in files.paths]
            raise DataError(f"{'; '.join(empty)}: nothing to score")
        sources = [pair.src for pair in pairs]
        texts.append([pair.tgt for pair in pairs])
    for path in references:
        lines = list(read_lines(path))
        if texts and len(lines) != len(texts[0]):
            raise DataError(
                f"{path} has {counted(len(lines), 'line')}, {paths[0]} has {len(texts[0]):,}; line n of both must be "
                "references of the same sentence"
            )
        texts.append(lines)
        paths.append(path)
    origin: dict[str, object] = {}
    if files is not None and len(files.paths) == 1:
        origin["file" if files.file else "tsv"] = str(files.paths[0])
    else:
        if files is not None:
            origin["src"] = str(files.src)
        origin |= {"ref": str(paths[0])} if len(paths) == 1 else {"refs": [str(path) for path in paths]}
    return TestSet(texts, paths, sources, origin)


def read_system(place: Place, test_set: TestSet) -> System:
    """Read a file of translations. Raises DataError if the numbers of its lines and the references differ or are 0."""
    translations, references = list(read_lines(place.path)), test_set.references[0]
    counts = (
        f"{place.path} has {counted(len(translations), 'line')}, {test_set.reference_files[0]} has {len(references):,}"
    )
    if len(translations) != len(references):
        raise DataError(f"{counts}; line n of one must be the reference of line n of the other")
    if not references:
        raise DataError(f"{counts}: nothing to score")
    return System(place.name, translations, {"hyp": str(place.path)})


def find_scores(texts: Sequence[str], n_systems: int) -> dict[str, list[Path]]:
    """Return the files of given scores by name, one for each system, in the systems' order.

    texts: NAME=FILE,FILE,... Raises UsageError for a name used twice or as a metric's, or another number of files.
    """
    known = {metric.lower() for metric in METRICS}
    found: dict[str, list[Path]] = {}
    for text in texts:
        name, _, rest = text.partition("=")
        paths = [Path(part.strip()) for part in rest.split(",") if part.strip()]
        if not name or not paths:
            raise UsageError(f"--scores {text}: write NAME=FILE, or with several systems NAME=FILE,FILE,...")
        if name.lower() in known:
            raise UsageError(f"--scores {text}: mtkit computes {name} itself; give these scores another name")
        if name in found:
            raise UsageError(f"--scores {text}: you gave {name} twice; write its files together: NAME=FILE,FILE")
        if len(paths) != n_systems:
            raise UsageError(
                f"--scores {text}: {counted(len(paths), 'file')} for {counted(n_systems, 'system')}; give one for each "
                "system, in their order"
            )
        found[name] = paths
    return found


def read_scores(path: Path, test_set: TestSet) -> list[float]:
    """Read one number per line, for each translation of the test set. Raises DataError with file and line."""
    lines = list(read_lines(path))
    n = len(test_set.references[0])
    if len(lines) != n:
        raise DataError(
            f"{path} has {counted(len(lines), 'line')}, {test_set.reference_files[0]} has {n:,}; line n must be the "
            "score of translation n"
        )
    scores = []
    for number, line in enumerate(lines, start=1):
        try:
            score = float(line.replace("_", " "))  # Python would take 1_5 for 15
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise DataError(
                f"{path}: line {number:,}: {line[:40]!r} is not a finite number; write one number per line, such as "
                "0.853"
            )
        scores.append(score)
    return scores


def translate_system(name: str, folders: Sequence[Path], translator: "Translator", sources: Sequence[str]) -> System:
    """Translate a test set's sources with a model or an ensemble, and log its speed."""
    start = time.perf_counter()
    translations = []
    with progress_bar(len(sources), "translating", "sentence") as bar:
        for translation in translator.stream(sources):
            translations.append(translation)
            bar.update()
    seconds = time.perf_counter() - start
    beam, speed = translator.decode.beam_size, len(sources) / seconds
    log.info(f"{counted(len(sources), 'sentence')} in {seconds:.1f} s: {speed:.1f} sentences/s with beam size {beam}")
    origin = {
        "model": ", ".join(map(str, folders)),
        "engine": translator.engine.name,
        "beam_size": beam,
        "seconds": seconds,
        "sentences_per_s": speed,
    }
    best, calibration = [translation.n_best[0] for translation in translations], translator.calibration
    src_ids = translator.src_tokenizer.encode_batch(list(sources))
    return System(
        name,
        [translation.text for translation in translations],
        origin,
        finished=[translation.finished for translation in translations],
        confidences=[translator.confidence(candidate) for candidate in best] if calibration else None,
        good_chrf=calibration.threshold if calibration else None,
        unknown_src=UnknownPieces.from_ids(src_ids, translator.src_tokenizer),
        unknown_tgt=UnknownPieces.from_ids([candidate.ids for candidate in best], translator.tgt_tokenizer),
    )


def read_files(places: Sequence[Place], test_set: TestSet) -> dict[str, System]:
    """Read the systems that are files, by name; call this first, so that errors show before a model starts to work."""
    return {place.name: read_system(place, test_set) for place in places if not place.is_model}


def translate_others(
    places: Sequence[Place], given: Mapping[str, System], test_set: TestSet, load: Callable[[Path], "Translator"]
) -> list[System]:
    """Return each system, in order: those given by `read_files`, and the models' translations of the test set.

    load: loads the translator of a bundle folder.
    """
    systems = []
    for place in places:
        if place.name in given:
            systems.append(given[place.name])
        else:
            folder = find_model(place.path)
            systems.append(translate_system(place.name, [folder], load(folder), test_set.sources or []))
    return systems


def warn_of_other_settings(groups: Mapping[str, Sequence[str]], places: Sequence[Place]) -> None:
    """Log which of a group's models differ in more than their seed, or have the same seed."""
    paths = {place.name: place.path for place in places if place.is_model}
    for group, members in groups.items():
        models = [name for name in members if name in paths]
        configs = [load_config(find_model(paths[name]) / "config.yaml") for name in models]
        seeds = [config.seed for config in configs]
        for index, (name, config) in enumerate(zip(models, configs, strict=True)):
            values = [each.model_dump(mode="json", exclude={"seed", "run_dir"}) for each in (configs[0], config)]
            if others := [key for key, _, _ in differences(values[0], values[1])]:
                log.warning(
                    f"group {group}: {models[0]} and {name} differ in more than their seed: {', '.join(others)}"
                )
            elif config.seed in seeds[:index]:
                log.warning(
                    f"group {group}: {models[seeds.index(config.seed)]} and {name} have the same seed, {config.seed}"
                )


def warn_of_tokens(systems: Sequence[System]) -> None:
    """Warn about translations that look tokenized: metrics tokenize them again, so their scores are not comparable."""
    for system in systems:
        n, total = sum(line.endswith(" .") for line in system.texts), len(system.texts)
        if 2 * n > total:
            log.warning(
                f"{system.name}: {n:,} of {counted(total, 'line')} end in a space and a full stop, like tokenized "
                "text; detokenize it, or give --tokenize none if the references are tokenized, too"
            )
