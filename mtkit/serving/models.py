"""The served models: their languages, their versions, and the path from one language to another."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mtkit.bundle import BundleFiles, find_model, read_bundle
from mtkit.config.reading.overrides import decode_overrides
from mtkit.data.sides import Side, Sides
from mtkit.errors import BundleError, UsageError
from mtkit.languages import english_name, normal_code
from mtkit.memory.index import Memory
from mtkit.memory.loading import load_memory
from mtkit.serving.refusals import BadRequest
from mtkit.serving.workers.work import ModelVersion, fingerprint
from mtkit.translation.direction import sides_of

_MOST_MODELS_IN_A_PATH = 2  # each further one adds the errors of all before it


@dataclass(frozen=True)
class Model:
    """A served model."""

    version: ModelVersion
    src: str  # language codes, in their shortest spelling
    tgt: str
    beam_size: int
    sides: Sides | None = field(default=None, compare=False, repr=False)  # of its training text, if it tells them
    memory: Memory | None = field(default=None, compare=False, repr=False)  # decode.memory


@dataclass(frozen=True)
class Language:
    """A source or target language."""

    code: str
    name: str
    targets: Sequence[str]  # codes of the languages that it is translated into


class ServedModels:
    """The models by their languages; immutable, so a request sees one state from its start to its end."""

    def __init__(self, models: Sequence[Model]) -> None:
        """Raises UsageError if two models have the same languages."""
        self._by_pair: dict[tuple[str, str], Model] = {}
        for model in models:
            other = self._by_pair.setdefault((model.src, model.tgt), model)
            if other is not model:
                raise UsageError(
                    f"{other.version.folder} and {model.version.folder} both translate {model.src}-{model.tgt}; "
                    "serve one of them"
                )
        self._codes = dict.fromkeys(code for pair in self._by_pair for code in pair)
        self.languages = [
            Language(
                code, english_name(code) or code, [tgt for tgt in self._codes if tgt != code and self._find(code, tgt)]
            )
            for code in self._codes
        ]

    @property
    def models(self) -> list[Model]:
        """All models."""
        return list(self._by_pair.values())

    @property
    def sources(self) -> list[str]:
        """The languages that can be translated from."""
        return [language.code for language in self.languages if language.targets]

    @property
    def targets(self) -> list[str]:
        """The languages that can be translated into."""
        return list(dict.fromkeys(tgt for language in self.languages for tgt in language.targets))

    @property
    def words(self) -> dict[str, Side]:
        """The side of a training text for each language; of several models, the one with the largest vocabulary."""
        found: dict[str, Side] = {}
        for model in self.models:
            for code, side in ((model.src, model.sides.src), (model.tgt, model.sides.tgt)) if model.sides else ():
                known = found.setdefault(code, side)
                if side.tokenizer.vocab_size > known.tokenizer.vocab_size:
                    found[code] = side
        return found

    def sources_of(self, tgt: str) -> list[str]:
        """Return the languages that can be translated into one. Raises BadRequest if it is not a target."""
        sources = [language.code for language in self.languages if tgt in language.targets]
        if not sources:
            raise BadRequest(f"{tgt} is not supported as a target language; the pairs are {self._pairs()}")
        return sources

    def path(self, src: str, tgt: str) -> list[Model]:
        """Return the models to apply in order; [] if both languages are the same.

        Raises BadRequest for a language that is not served, or two that no models connect.
        """
        src, tgt = self.code(src), self.code(tgt)
        if src == tgt:
            return []
        path = self._find(src, tgt)
        if not path:
            raise BadRequest(f"{src} cannot be translated into {tgt}; the pairs are {self._pairs()}")
        return path

    def code(self, language: str) -> str:
        """Return the code of a served language, such as `en` for en, EN and en-US. Raises BadRequest for any other."""
        if language in self._codes:
            return language
        wanted, codes = normal_code(language.strip()), self._codes
        bare = wanted.partition("-")[0]
        for code in (wanted, bare):
            if code in codes:
                return code
        if len(regional := [code for code in codes if code.partition("-")[0] == wanted]) == 1:
            return regional[0]
        shown = language if len(language) <= 20 else f"{language[:20]}..."
        raise BadRequest(f"{shown} is not supported; the languages are {', '.join(codes)}")

    def _pairs(self) -> str:
        return ", ".join(f"{language.code}-{tgt}" for language in self.languages for tgt in language.targets)

    def _find(self, src: str, tgt: str) -> list[Model]:
        """Return the shortest path between two languages; of equally short ones, the first by the order of models."""
        ways: deque[list[Model]] = deque([model] for (start, _), model in self._by_pair.items() if start == src)
        while ways:
            way = ways.popleft()
            if way[-1].tgt == tgt:
                return way
            if len(way) < _MOST_MODELS_IN_A_PATH:
                ways += [[*way, model] for (start, _), model in self._by_pair.items() if start == way[-1].tgt != src]
        return []


def read_models(folders: Sequence[Path], decode: Mapping[str, object]) -> ServedModels:
    """Find the bundles in these run or bundle folders and verify all but the weights, which workers verify.

    decode: keys of their decode section to change.
    Raises BundleError, ConfigError, DataError or UsageError that says which folder cannot be served, and why.
    """
    overrides = decode_overrides(decode)
    # resolved: workers load what a symbolic link led to when we looked, also if it leads elsewhere by then
    bundles = [path.resolve() for path in ([find_model(path) for path in folders] or [find_model()])]
    return ServedModels([_model_of(read_bundle(folder, overrides)) for folder in bundles])


def _model_of(files: BundleFiles) -> Model:
    data, decode = files.config.data, files.config.decode
    if data.src_lang == "src" or data.tgt_lang == "tgt":
        raise BundleError(
            f"{files.folder}: its config does not name its languages; train it with data.src_lang and data.tgt_lang"
        )
    return Model(
        ModelVersion(files.folder, fingerprint(files)),
        normal_code(data.src_lang),
        normal_code(data.tgt_lang),
        decode.mbr_samples or decode.beam_size,
        sides_of(files),
        None if decode.memory is None else load_memory(decode.memory, (data.src_lang, data.tgt_lang)),
    )
