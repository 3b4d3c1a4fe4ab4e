"""Import folders of CTranslate2 as bundles: exports of mtkit, and converted models of OPUS-MT, Marian and OpenNMT.

The weights become float32, whatever their stored type, so the bundle can be tuned like any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtkit.config.decoding import DecodeConfig
from mtkit.engines.ctranslate2 import ABOUT
from mtkit.errors import DataError, UnnamedFiles
from mtkit.files import parse_json
from mtkit.interop.ctranslate2.binary import read_ctranslate2_binary
from mtkit.interop.ctranslate2.export import distinct
from mtkit.interop.ctranslate2.weights import to_model
from mtkit.interop.imported import Languages, Origin, check_sides, direction, save_imported
from mtkit.interop.vocabulary import (
    Layout,
    Vocabularies,
    Vocabulary,
    import_state,
    names_of,
    read_spm,
    with_exchanged,
    with_language_pieces,
)
from mtkit.tokens.special_ids import BOS_ID
from mtkit.tokens.tokenizer import language_of_piece, language_piece

FORMAT = "ctranslate2"
MODEL = "model.bin"
_EPSILONS = (0.0, 1e-5)  # of layer norms; mtkit has 1e-5, and less changes nothing that shows
_SPMS = [("source.spm", "target.spm"), ("src.spm", "tgt.spm")]
_MANY = 10  # tokens that look like those of languages; fewer may be words
_SHARED_SPMS = ("sentencepiece.model", "sentencepiece.bpe.model", "tokenizer.model")


@dataclass(frozen=True)
class Tokenizers:
    """The SentencePiece models of both sides."""

    src: Path
    tgt: Path

    @classmethod
    def find(cls, folder: Path) -> "Tokenizers":
        """Find them in a folder. Raises UnnamedFiles if there are none."""
        pairs = [*_SPMS, *((name, name) for name in _SHARED_SPMS)]
        for src, tgt in pairs:
            if (folder / src).is_file() and (folder / tgt).is_file():
                return cls(folder / src, folder / tgt)
        names = ", ".join(f"{src} and {tgt}" for src, tgt in _SPMS)
        raise UnnamedFiles(
            f"{folder}: contains no tokenizers ({names}, or one of {', '.join(_SHARED_SPMS)}); give the model's "
            "SentencePiece models with --src-spm and --tgt-spm"
        )


def import_model(
    folder: Path,
    out: Path,
    languages: Languages | None = None,
    tokenizers: Tokenizers | None = None,
    target_prefix: str | None = None,
) -> None:
    """Write the model in a folder as a bundle; tokenizers: by default those in the folder.

    languages: for a model of many, the direction that the bundle translates in by default. target_prefix: the token
    that a caller makes each translation start with, if there is one.
    Raises MtkitError, naming the file and the variable or key, if mtkit cannot compute the model.
    """
    path = folder / MODEL
    variables = read_ctranslate2_binary(path)
    tokenizers = tokenizers or Tokenizers.find(folder)
    settings = _settings(folder)
    start = settings["decoder_start_token"]
    from_zeros = bool(variables.numbers.get("decoder/start_from_zero_embedding"))
    # The caller of such models puts </s> after the source; only for the others does add_source_eos tell.
    src_end = bool(settings["add_source_eos"]) or from_zeros or start == settings["eos_token"]
    src, tgt = (_side(folder, side, settings, spm) for side, spm in vars(tokenizers).items())
    codes = [code for name in tgt.names if (code := language_of_piece(name)) is not None]
    end_first = bool(codes) and start == settings["eos_token"] and not from_zeros  # M2M-100 and NLLB
    if not end_first:
        _refuse_other_starts(folder, settings, target_prefix, codes)
    cfg, state = to_model(variables, src_end=src_end, end_first=end_first)
    for side, vocabulary in (("src", src), ("tgt", tgt)):
        if (n_rows := len(state[f"{side}_embedding.weight"])) != vocabulary.layout.size:
            raise DataError(
                f"{vocabulary.path}: {vocabulary.layout.size} entries, but {path} has {n_rows} rows of them"
            )
    if cfg.tie == "all" and src.names != tgt.names:
        cfg = cfg.model_copy(update={"tie": "decoder"})
    if start not in tgt.names:
        missing = "" if (folder / "config.json").is_file() else "no such file, so it is the usual one; "
        raise DataError(f"{folder / 'config.json'}: {missing}decoder_start_token: {start} is not in {tgt.path.name}")
    row = tgt.names.index(start)
    named = direction(folder, codes, languages) if end_first else languages or Languages()
    first = tgt.names.index(language_piece(named.tgt)) if end_first else row
    embedding = None if from_zeros else state["tgt_embedding.weight"][first]
    if tokenizers.src != tokenizers.tgt:
        check_sides((src.model, tgt.model), named, folder)
    # An export of mtkit has its ids already. In an Argos package the tokenizer of the target is not the original one.
    if (folder / ABOUT).is_file() and all(_has_ids_of_mtkit(side) for side in (src, tgt)):
        models = src.model.serialize(), tgt.model.serialize()
        layouts = Layout.native(src.layout.size), Layout.native(tgt.layout.size)
    else:
        both = Vocabularies.from_sides(src, tgt, FORMAT, shared=cfg.tie == "all")
        layout = both.tgt.layout
        both = both.with_bos(None if from_zeros or row in (layout.pad, layout.unk, layout.eos) else row)
        models, layouts = both.tokenizers(), (both.src.layout, both.tgt.layout)
    state = import_state(state, cfg.tie, *layouts, embedding)
    if end_first and embedding is not None:  # an export of mtkit has a row for it, with another language perhaps
        state["tgt_embedding.weight"][BOS_ID] = embedding
    origin = Origin.from_file(path, FORMAT, *layouts, {"quantization": variables.quantization})
    save_imported(out, state, cfg, models, DecodeConfig(), named, origin)


def fixed_source_token(folder: Path) -> str:
    """Return the token that CTranslate2 puts before each source; "" if there is none."""
    settings = _settings(folder)
    return str(settings["bos_token"]) if settings["add_source_bos"] else ""


def _has_ids_of_mtkit(side: Vocabulary) -> bool:
    """Return whether the rows are the pieces of mtkit; <start> may have the name of a language, as in exports."""
    own, names = distinct(names_of(side.model)), side.names
    if len(own) == len(names) and language_of_piece(names[BOS_ID]) is not None:
        names = with_exchanged(names, names[BOS_ID], own[BOS_ID])
    return names == own


def _settings(folder: Path) -> dict[str, Any]:
    """Return the settings of config.json, which older folders do not have, with CTranslate2's defaults."""
    path = folder / "config.json"
    defaults = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "decoder_start_token": "<s>"}
    settings: dict[str, Any] = {**defaults, "add_source_bos": False, "add_source_eos": False}
    if path.is_file():
        given = _read(path)
        if not isinstance(given, Mapping):
            raise DataError(f"{path}: not a JSON object")
        settings |= given
    for key in defaults:
        if not isinstance(settings[key], str):
            reason = "; mtkit needs a fixed token, not one that each request chooses" if "start" in key else ""
            raise DataError(f"{path}: {key}: {settings[key]} is not a token{reason}")
    epsilon = settings.get("layer_norm_epsilon")
    if epsilon is not None and not (isinstance(epsilon, float) and _EPSILONS[0] <= epsilon <= _EPSILONS[1]):
        raise DataError(f"{path}: layer_norm_epsilon: {epsilon} is not supported; only {_EPSILONS[1]} or less")
    return settings


def _refuse_other_starts(
    folder: Path, settings: Mapping[str, Any], target_prefix: str | None, codes: Sequence[str]
) -> None:
    """Raise DataError for tokens before a source or a translation in a model that is not like M2M-100 or NLLB.

    codes: of the languages that the vocabulary has tokens for.
    """
    if settings["add_source_bos"]:
        raise DataError(
            f"{folder / 'config.json'}: add_source_bos: true is not supported: mtkit puts no token before a source"
        )
    if target_prefix or len(codes) > _MANY:
        start, prefix = settings["decoder_start_token"], f" (target_prefix: {target_prefix})" if target_prefix else ""
        raise DataError(
            f"{folder}: a model of many languages{prefix} whose decoder starts from {start} is not supported; only "
            "models like M2M-100 and NLLB, whose decoder reads </s> and then the token of the target language"
        )


def _side(folder: Path, side: str, settings: Mapping[str, Any], spm: Path) -> Vocabulary:
    path, names = _names(folder, {"src": "source", "tgt": "target"}[side])
    model = read_spm(spm)
    names = with_language_pieces(names, {piece.text for piece in model.pieces})
    specials = {key: settings[f"{key}_token"] for key in ("unk", "eos", "bos")}
    if language_of_piece(specials["bos"]) is not None:  # of the source, which a package of Argos Translate has fixed
        del specials["bos"]
    pad = "<pad>" if "<pad>" in names else "<blank>"
    return Vocabulary(path, model, names, Layout.from_names(names, path, pad=pad, **specials))


def _names(folder: Path, side: str) -> tuple[Path, list[str]]:
    """Return the pieces of a side in the order of their rows, and their file."""
    paths = [folder / f"{name}_vocabulary.{kind}" for name in ("shared", side) for kind in ("json", "txt")]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise DataError(f"{folder}: contains neither {paths[0].name} nor {paths[2].name}")
    if path.suffix == ".txt":
        lines = _text(path).split("\n")  # splitlines() would split at U+2028, too
        names: Any = [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]
    else:
        names = _read(path)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{path}: not a list of pieces")
    return path, names


def _read(path: Path) -> Any:
    try:
        return parse_json(_text(path))
    except ValueError as error:
        raise DataError(f"{path}: not valid JSON ({error})") from error


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text") from error
