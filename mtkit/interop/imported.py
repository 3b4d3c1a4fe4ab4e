"""Write another system's model as a bundle: config, tokenizers, and the origin that its manifest records."""

import itertools
import math
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar, get_args

from pydantic import ValidationError
from torch import Tensor

from mtkit.bundle import Bundle, BundleFiles, FileWriters, save_bundle
from mtkit.config.augment import NOTHING
from mtkit.config.data import UNNAMED
from mtkit.config.decoding import DecodeConfig
from mtkit.config.model import ModelConfig
from mtkit.config.reading.problems import explain
from mtkit.config.schema import Config
from mtkit.config.section import Section
from mtkit.config.tokenizer import Normalization, TokenizerConfig
from mtkit.errors import DataError, MtkitError, UsageError
from mtkit.files import sha256_file
from mtkit.interop.vocabulary import Layout
from mtkit.languages import are_one_language, normal_code
from mtkit.quality.language import foreign_lines, known_code
from mtkit.tokens.languages import find_language
from mtkit.tokens.sentencepiece_file import SentencePieceModel, parse
from mtkit.tokens.tokenizer import SPACE, Tokenizer

_Section = TypeVar("_Section", bound=Section)


@dataclass(frozen=True)
class Languages:
    """The language codes of the two sides."""

    src: str = UNNAMED[0]
    tgt: str = UNNAMED[1]


def direction(place: Path, known: Sequence[str], named: Languages | None) -> Languages:
    """Return two languages in the codes of a model of many. Raises MtkitError if there are none, or it lacks one.

    place: of the model, for messages.
    """
    if named is None:
        raise MtkitError(
            f"{place}: the model translates between {len(known)} languages; choose the usual ones with --src-lang and "
            f"--tgt-lang (mtkit translate has these options, too): {', '.join(known)}"
        )
    return Languages(*(find_language(code, known, str(place)) for code in (named.src, named.tgt)))


@dataclass(frozen=True)
class Origin:
    """The origin of an imported model as its manifest records it: what an export needs to restore the original."""

    format: str
    file: str
    sha256: str
    src: Layout
    tgt: Layout
    details: Mapping[str, Any]  # specific to the format

    @classmethod
    def from_file(cls, path: Path, kind: str, src: Layout, tgt: Layout, details: Mapping[str, Any]) -> Self:
        """Return the origin of a model read from this file."""
        return cls(kind, path.name, sha256_file(path), src, tgt, details)

    @classmethod
    def from_bundle(cls, bundle: Bundle, kind: str) -> Self:
        """Return the origin that a bundle records for this format, else mtkit's own layout of its vocabularies."""
        recorded = bundle.manifest.get("training", {}).get("imported", {})
        if recorded.get("format") != kind:
            src, tgt = (Layout.native(side.vocab_size) for side in (bundle.src_tokenizer, bundle.tgt_tokenizer))
            return cls(kind, "", "", src, tgt, {})
        src, tgt = (Layout.from_json(recorded["vocabulary"][side]) for side in ("src", "tgt"))
        return cls(kind, recorded["file"], recorded["sha256"], src, tgt, recorded["details"])

    def as_json(self) -> dict[str, Any]:
        """Return the values for the manifest."""
        vocabulary = {"src": self.src.as_json(), "tgt": self.tgt.as_json()}
        named = {"format": self.format, "file": self.file, "sha256": self.sha256}
        return {"imported": {**named, "vocabulary": vocabulary, "details": dict(self.details)}}


def checked(section: type[_Section], values: Mapping[str, Any], path: Path | str) -> _Section:
    """Build a section of the config. Raises DataError, naming the file of the values, if they are invalid."""
    try:
        return section.model_validate(values)
    except ValidationError as error:
        problems = [explain(details, values, {}, section) for details in error.errors(include_url=False)]
        raise DataError(f"{path}: {'; '.join(map(str, problems))}") from error


def number(options: Mapping[str, Any], key: str, default: float, path: Path | str) -> float:
    """Return the key's value, or the default if it is missing. Raises DataError if it is not a finite number."""
    given = default if options.get(key) is None else options[key]
    try:
        value = float(given)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{path}: {key}: {given} is not a number")
    return value


def save_imported(
    out: Path,
    state: Mapping[str, Tensor],
    model: ModelConfig,
    tokenizers: tuple[bytes, bytes],
    decode: DecodeConfig,
    languages: Languages,
    origin: Origin,
    added: FileWriters = MappingProxyType({}),
) -> None:
    """Write the bundle. state and tokenizers (SentencePiece models) have mtkit's order of ids.

    added: further files. A model of OPUS-MT with a tag for the target language gets that tag before each source.
    """
    tag = _tag_of(languages.tgt, _opus_tags(Tokenizer(tokenizers[0], out)))
    cfg = _config(model, tokenizers, decode.model_copy(update={"tag": tag}), languages)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{side}.spm") for side in ("src", "tgt")]
        for path, tokenizer in zip(paths, tokenizers, strict=True):
            path.write_bytes(tokenizer)
        save_bundle(out, state, cfg, *paths, training=origin.as_json(), added=added)


def remark_on_tags(bundle: BundleFiles) -> str:
    """Return how to choose a target language of OPUS-MT; "" if the model has none to choose, or if it is chosen."""
    tags = _opus_tags(bundle.src_tokenizer)
    if bundle.config.decode.tag or not tags:
        return ""
    return (
        f"{bundle.folder}: a tag before each source chooses the target language: {', '.join(tags)}; import the model "
        f"with --src-lang and --tgt-lang, or translate with --set 'decode.tag={tags[0]}'"
    )


def _opus_tags(tokenizer: Tokenizer) -> list[str]:
    return [tag for tag in tokenizer.tags() if tag.startswith(">>")]


def _tag_of(lang: str, tags: Sequence[str]) -> str | None:
    """Return the tag of OPUS-MT for a target language, such as >>fra<< for fr; None if none or several can mean it."""
    codes = {tag: tag.removeprefix(">>").removesuffix("<<") for tag in tags}
    same = [tag for tag, code in codes.items() if normal_code(code) == normal_code(lang)]
    alike = same or [tag for tag, code in codes.items() if are_one_language(code, lang)]
    return alike[0] if len(alike) == 1 else None


def check_sides(models: tuple[SentencePieceModel, SentencePieceModel], languages: Languages, path: Path) -> None:
    """Raise DataError if the two tokenizers seem to be swapped, because each has the other language's words."""
    codes = languages.src, languages.tgt
    texts = [" ".join(_frequent_words(model)) for model in models]
    foreign: list[str | None] = []
    with suppress(UsageError):  # without py3langid, no language can be detected
        for i, text in enumerate(texts):
            foreign.append(foreign_lines([text], codes[i], codes[1 - i], [1]).get(0, "").split(" ")[0])
        foreign = [] if "" in foreign else foreign
    if foreign and foreign == [known_code(codes[1]), known_code(codes[0])]:
        raise DataError(
            f"{path}: the source tokenizer has the words of {codes[1]}, the target tokenizer those of "
            f"{codes[0]}: swap the two SentencePiece models (source.spm, target.spm), or the two languages"
        )


def _frequent_words(model: SentencePieceModel) -> list[str]:
    """Return whole words among the pieces, the most frequent first, which is the order of the pieces."""
    words = (piece.text.removeprefix(SPACE) for piece in model.pieces if piece.text.startswith(SPACE))
    return list(itertools.islice((word for word in words if len(word) >= 2 and word.isalpha()), _MOST_WORDS))


_MOST_WORDS = 300


def _config(model: ModelConfig, tokenizers: tuple[bytes, bytes], decode: DecodeConfig, languages: Languages) -> Config:
    src, tgt = map(_tokenizer_config, tokenizers)
    return Config.model_validate(
        {
            # The training text is unknown, but the section is required. These files do not exist; fine-tuning replaces
            # them, and mtkit refuses a run that still has these names.
            "data": {
                "src_lang": languages.src,
                "tgt_lang": languages.tgt,
                "train": [{"src": f"unknown/train.{languages.src}", "tgt": f"unknown/train.{languages.tgt}"}],
                "dev": {"src": f"unknown/dev.{languages.src}", "tgt": f"unknown/dev.{languages.tgt}"},
            },
            "tokenizer": {"src": src, "tgt": tgt, "shared": model.tie == "all"},
            "model": model.model_dump(),
            "train": {"max_epochs": 1},
            "augment": NOTHING.model_dump(),
            "decode": decode.model_dump(),
        }
    )


def _tokenizer_config(tokenizer: bytes) -> dict[str, Any]:
    """Return the tokenizer's settings, as far as the config has keys for them; only a new training uses them."""
    model = parse(tokenizer)
    defaults = TokenizerConfig()
    known = model.normalization in get_args(Normalization)
    return {
        "type": model.algorithm if model.algorithm in ("unigram", "bpe", "char") else defaults.type,
        "vocab_size": max(264, len(model.pieces)),
        "byte_fallback": model.byte_fallback,
        "normalization": model.normalization if known else defaults.normalization,
    }
