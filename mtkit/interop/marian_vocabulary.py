"""Marian's vocabularies: SentencePiece models, or lists of pieces (.yml) beside them, in; tokenizers out, and back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from torch import Tensor

from mtkit.bundle import Bundle
from mtkit.data.sentencepiece_file import Piece, SentencePieceModel
from mtkit.errors import DataError, MtkitError
from mtkit.interop.imported import Origin
from mtkit.interop.vocabulary import (
    Layout,
    names_of,
    original_names,
    original_spm,
    read_spm,
    spelled_as_unknown,
    spm_layout,
    src_tokenizer,
    text_spm,
    tgt_tokenizer,
)

_YML = (".yml", ".yaml")


@dataclass(frozen=True)
class Sources:
    """The files of both sides' vocabularies; the SentencePiece models are for those that are .yml."""

    src: Path
    tgt: Path
    src_spm: Path | None = None  # by default source.spm and target.spm beside the vocabularies
    tgt_spm: Path | None = None


@dataclass(frozen=True)
class Vocabulary:
    """One side's: what its rows are called, and how text is cut into these pieces."""

    path: Path
    model: SentencePieceModel
    names: list[str]
    layout: Layout


@dataclass(frozen=True)
class Vocabularies:
    """Both sides'; shared: one matrix serves both, row by row."""

    src: Vocabulary
    tgt: Vocabulary
    kind: str  # spm or yml
    shared: bool
    extra: tuple[Piece, ...] = ()  # what the source's tokenizer finds in text, but the vocabulary does not know

    def starting_from_zeros(self, tgt_embedding: Tensor) -> "Vocabularies":
        """With a row of zeros as bos: <s> if its row in tgt_embedding is that, else one of its own."""
        bos = self.tgt.layout.bos
        if bos is None or not tgt_embedding[bos].count_nonzero():
            return self
        tgt = replace(self.tgt, layout=replace(self.tgt.layout, bos=None))
        src = replace(self.src, layout=replace(self.src.layout, bos=None)) if self.shared else self.src
        return replace(self, src=src, tgt=tgt)

    def tokenizers(self) -> tuple[bytes, bytes]:
        """SentencePiece models in mtkit's order of ids."""
        src = src_tokenizer(self.src.model, self.src.names, self.src.layout)
        extra = self.extra if self.shared else ()
        return src, tgt_tokenizer(self.tgt.model, self.tgt.names, self.tgt.layout, extra)


def decoder_options(model: Path) -> dict[str, Any]:
    """The options in the decoder config beside a model; none if there is none."""
    path = model.with_name(f"{model.name}.decoder.yml")
    try:
        options = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (yaml.YAMLError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    return options if isinstance(options, dict) else {}


def beside(model: Path) -> Sources:
    """The vocabularies that the decoder config beside a model names. Raises MtkitError if there are none."""
    remedy = "give the model's vocabularies: --src-vocab FILE --tgt-vocab FILE"
    named = decoder_options(model).get("vocabs")
    if not isinstance(named, list) or len(named) != 2:
        raise MtkitError(f"{model}: no {model.name}.decoder.yml beside it that names two vocabularies; {remedy}")
    found = []
    for name in map(Path, named):
        places = [model.parent / name, model.parent / name.name]  # an absolute name stays absolute; it may have moved
        if not (paths := [path for path in places if path.is_file()]):
            raise MtkitError(f"{model}: its decoder config names {name}, which is not there; {remedy}")
        found.append(paths[0])
    return Sources(*found)


def read(sources: Sources, *, shared: bool) -> Vocabularies:
    """Read both sides' vocabularies; shared: their matrices are one.

    Raises MtkitError if they are of a kind that mtkit does not know, or shared and yet different.
    """
    kinds = [_kind(path) for path in (sources.src, sources.tgt)]
    if kinds[0] != kinds[1]:
        raise MtkitError(f"{sources.src} and {sources.tgt}: give either two .spm or two .yml vocabularies")
    if kinds[0] == "spm":
        sides = [_from_spm(path) for path in (sources.src, sources.tgt)]
    else:
        src_spm = sources.src_spm or sources.src.with_name("source.spm")
        tgt_spm = sources.tgt_spm or sources.tgt.with_name("target.spm")
        sides = [_from_yml(sources.src, src_spm), _from_yml(sources.tgt, tgt_spm)]
    src, tgt = sides
    if shared and src.names != tgt.names:
        raise MtkitError(f"{src.path} and {tgt.path} differ, but the model has one embedding matrix for both sides")
    extra = tuple(spelled_as_unknown(src.model, src.names))
    src = replace(src, layout=replace(src.layout, n_unknown=len(extra)))
    if shared:
        tgt = replace(tgt, layout=src.layout)
    return Vocabularies(src, tgt, kinds[0], shared, extra)


def _kind(path: Path) -> str:
    if path.suffix == ".spm":
        return "spm"
    if path.suffix in _YML:
        return "yml"
    if path.suffix == ".fsv":
        raise MtkitError(f"{path}: a factored vocabulary (.fsv) is not supported; only .spm, or .yml with .spm")
    raise MtkitError(f"{path}: not a vocabulary that mtkit knows; only .spm, or .yml with .spm")


def _from_spm(path: Path) -> Vocabulary:
    model = read_spm(path)
    try:
        return Vocabulary(path, model, names_of(model), spm_layout(model))
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _from_yml(path: Path, spm: Path) -> Vocabulary:
    if not spm.is_file():
        raise MtkitError(
            f"{path}: a list of pieces, but not how to cut text into them; put the SentencePiece model there as {spm}, "
            "or name it with --src-spm and --tgt-spm"
        )
    names = read_yml(path)
    return Vocabulary(path, read_spm(spm), names, layout_of_names(names, path))


def layout_of_names(names: list[str], path: Path, *, unk: str = "<unk>", eos: str = "</s>") -> Layout:
    """Where the special rows are, by their names. Raises DataError if unk or eos are missing."""
    rows = {name: row for row, name in enumerate(names)}
    if missing := [name for name in (unk, eos) if name not in rows]:
        raise DataError(f"{path}: the vocabulary has no {missing[0]}")
    return Layout(len(names), unk=rows[unk], eos=rows[eos], pad=rows.get("<pad>"), bos=rows.get("<s>"))


def in_order(rows: Mapping[str, int], path: Path) -> list[str]:
    """The names by row. Raises DataError unless the rows are 0, 1, 2, ..."""
    names = sorted(rows, key=lambda name: rows[name])
    for expected, name in enumerate(names):
        if rows[name] != expected:
            raise DataError(f"{path}: {name!r} has the id {rows[name]}, but {expected} comes next: damaged?")
    return names


def read_yml(path: Path) -> list[str]:
    """The pieces in a vocabulary of Marian's: lines such as `"▁the": 5`, in the order of their numbers."""
    rows: dict[str, int] = {}
    key = ""
    for number, line in enumerate(_lines(path), start=1):
        if line.startswith("? "):  # YAML's way to write a long key
            key = line[2:]
            continue
        text, _, value = line.rpartition(":")
        if key and line.startswith(": "):
            text = key
        try:
            rows[_unquoted(text)] = int(value)
        except (ValueError, yaml.YAMLError) as error:
            raise DataError(f"{path}: line {number}: {line!r} is not a piece with its number") from error
        key = ""
    return in_order(rows, path)


def _lines(path: Path) -> list[str]:
    """Only LF ends a line: splitlines() would cut at U+2028, too."""
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text") from error
    return [line.rstrip("\r") for line in text.split("\n") if line.rstrip("\r")]


def _unquoted(text: str) -> str:
    if not text.startswith(('"', "'")):
        return text
    try:
        return str(json.loads(text))
    except ValueError:  # what JSON does not know: single quotes, \x41
        return str(yaml.load(text, Loader=yaml.BaseLoader))


def write(folder: Path, bundle: Bundle, origin: Origin) -> list[str]:
    """Write the bundle's tokenizers as vocabularies of the kind that they came as; returns the names for the config."""
    sides = {"src": (bundle.src_tokenizer, origin.src, "source"), "tgt": (bundle.tgt_tokenizer, origin.tgt, "target")}
    names = []
    for side, (tokenizer, layout, long_name) in sides.items():
        model = read_spm(tokenizer.path)
        if origin.details.get("vocabulary", "spm") == "spm":
            names.append(f"{side}.spm")
            (folder / names[-1]).write_bytes(original_spm(model, layout))
            continue
        names.append(f"{side}.yml")
        rows = enumerate(original_names(model, layout))
        lines = [f"{json.dumps(name, ensure_ascii=False)}: {row}\n" for row, name in rows]
        (folder / names[-1]).write_text("".join(lines), encoding="utf-8", newline="\n")
        (folder / f"{long_name}.spm").write_bytes(text_spm(model, layout))
    return names
