"""Read and write Marian's vocabularies: SentencePiece models, or lists of pieces (.yml) with such models."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtkit.bundle import Bundle
from mtkit.config.reading.yaml_text import yaml_value
from mtkit.errors import DataError, MtkitError, UnnamedFiles
from mtkit.files import parse_json
from mtkit.interop.imported import Origin
from mtkit.interop.vocabulary import (
    Layout,
    Vocabularies,
    Vocabulary,
    in_order,
    names_of,
    original_names,
    original_spm,
    read_spm,
    spm_layout,
    text_spm,
)

_YML = (".yml", ".yaml")


@dataclass(frozen=True)
class Sources:
    """The vocabulary files of both sides; .yml vocabularies need SentencePiece models, too."""

    src: Path
    tgt: Path
    src_spm: Path | None = None  # by default source.spm and target.spm in the vocabularies' folder
    tgt_spm: Path | None = None


def decoder_options(model: Path) -> dict[str, Any]:
    """Return the options of the decoder config of a model; {} if there is none."""
    path = model.with_name(f"{model.name}.decoder.yml")
    try:
        options = yaml_value(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    return options if isinstance(options, dict) else {}


def beside(model: Path) -> Sources:
    """Return the vocabularies that a model's decoder config names. Raises MtkitError if there are none."""
    remedy = "give the model's vocabularies: --src-vocab FILE --tgt-vocab FILE"
    named = decoder_options(model).get("vocabs")
    if not isinstance(named, list) or len(named) != 2:
        raise UnnamedFiles(f"{model}: no {model.name}.decoder.yml beside it that names two vocabularies; {remedy}")
    vocabularies = []
    for name in map(Path, named):
        candidates = [model.parent / name, model.parent / name.name]  # an absolute path may have moved
        if not (paths := [path for path in candidates if path.is_file()]):
            raise UnnamedFiles(f"{model}: its decoder config names {name}, which does not exist; {remedy}")
        vocabularies.append(paths[0])
    return Sources(*vocabularies)


def read(sources: Sources, *, shared: bool) -> Vocabularies:
    """Read the vocabularies of both sides; shared: they have one matrix.

    Raises MtkitError if mtkit does not know their kind, or if they are shared but differ.
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
    return Vocabularies.from_sides(src, tgt, kinds[0], shared=shared)


def _kind(path: Path) -> str:
    if path.suffix == ".spm":
        return "spm"
    if path.suffix in _YML:
        return "yml"
    if path.suffix == ".fsv":
        raise MtkitError(f"{path}: a factored vocabulary (.fsv) is not supported; only .spm, or .yml with .spm")
    raise MtkitError(f"{path}: unknown kind of vocabulary; mtkit reads .spm, or .yml with .spm")


def _from_spm(path: Path) -> Vocabulary:
    model = read_spm(path)
    try:
        return Vocabulary(path, model, names_of(model), spm_layout(model))
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _from_yml(path: Path, spm: Path) -> Vocabulary:
    if not spm.is_file():
        raise UnnamedFiles(
            f"{path}: a list of pieces, without the SentencePiece model that cuts text into them; put it there as "
            f"{spm}, or name it with --src-spm and --tgt-spm"
        )
    names = read_yml(path)
    return Vocabulary(path, read_spm(spm), names, Layout.from_names(names, path))


def read_yml(path: Path) -> list[str]:
    """Read a vocabulary of lines such as `"▁the": 5`; return the pieces in the order of their ids."""
    rows: dict[str, int] = {}
    key = ""
    for number, line in enumerate(_lines(path), start=1):
        if line.startswith("? "):  # this is how YAML writes a long key
            key = line[2:]
            continue
        text, _, value = line.rpartition(":")
        if key and line.startswith(": "):
            text = key
        try:
            rows[_unquoted(text)] = int(value)
        except ValueError as error:
            raise DataError(f"{path}: line {number}: {line!r} is not a piece with its id") from error
        key = ""
    return in_order(rows, path)


def _lines(path: Path) -> list[str]:
    """Split at LF only: splitlines() would split at U+2028, too."""
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
        return str(parse_json(text))
    except ValueError:  # YAML only: single quotes, \x41
        return str(yaml_value(text))


def write(folder: Path, bundle: Bundle, origin: Origin) -> list[str]:
    """Write the bundle's tokenizers as vocabularies of their original kind; return the file names for the config."""
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
