"""Import packages of Argos Translate (.argosmodel) as bundles, and export bundles as such packages.

A package is a zip file with one folder: metadata.json, a CTranslate2 model in model/, and one SentencePiece model.
Anything else, such as the pickled sentence splitter in stanza/, is never unpacked.
"""

import json
import re
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from mtkit.bundle import BundleFiles
from mtkit.config.data import UNNAMED
from mtkit.config.tags import tags_of
from mtkit.console import counted, log, shown_as
from mtkit.errors import DataError, MtkitError
from mtkit.files import atomic_file, parse_json, write_text
from mtkit.interop.ctranslate2 import folder as ctranslate2
from mtkit.interop.ctranslate2.export import write_compared
from mtkit.interop.handover import write_readme
from mtkit.interop.imported import Languages
from mtkit.interop.parity import ComparedText, Parity, Tolerance
from mtkit.interop.support import Quantization
from mtkit.interop.vocabulary import with_language_pieces
from mtkit.languages import english_name, primary_code
from mtkit.tokens.tokenizer import language_of_piece, language_piece

_METADATA, _TOKENIZER, _BPE = "metadata.json", "sentencepiece.model", "bpe.model"
_TGT_TOKENIZER = "tgt.spm"  # of exports of mtkit whose sides differ
_WANTED = re.compile(
    r"metadata\.json|sentencepiece\.model|tgt\.spm|model/(model\.bin|config\.json|export\.json|\w+_vocabulary\.(json|txt))"
)
_PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".ckpt")
_MOST_GROWTH = 100  # how often larger an unpacked package may be; compression hardly shrinks learned weights
_DAMAGE = (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)
_VERSION = "1.0"  # of a package; argostranslate compares it with that of newer packages
_ARGOS_VERSION = "1.9"


def import_model(path: Path, out: Path, languages: Languages | None = None) -> None:
    """Write the model in a package as a bundle; languages: by default those in its metadata.

    Raises MtkitError, naming the file in the package, if it is damaged or mtkit cannot compute the model.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        _unpack(path, folder)
        with shown_as(path, folder):
            named, prefix = _languages(folder)
            src, tgt = folder / _TOKENIZER, folder / _TGT_TOKENIZER
            tokenizers = ctranslate2.Tokenizers(src, tgt if tgt.exists() else src)
            ctranslate2.import_model(folder / "model", out, languages or named, tokenizers, prefix)


def _unpack(path: Path, folder: Path) -> None:
    """Write the files that mtkit needs into a folder. Raises DataError if the package is damaged or forged."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(path, archive)
            others = [name for name in members if not _WANTED.fullmatch(name)]
            _check_parts(path, members)
            for name in members.keys() - {*others}:
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_bytes(archive.read(members[name]))
    except _DAMAGE as error:
        raise DataError(f"{path}: not a package of Argos Translate, or damaged ({error})") from error
    if others:
        log.info(
            f"{path}: did not read {counted(len(others), 'file')} that mtkit does not need, such as {others[0]}; mtkit "
            "splits text into sentences by itself"
        )


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the files in the package's folder by their names there."""
    members: dict[str, zipfile.ZipInfo] = {}
    roots: set[str] = set()
    for info in archive.infolist():
        parts = PurePosixPath(info.filename).parts
        is_link = stat.S_ISLNK(info.external_attr >> 16)
        if not parts or ".." in parts or info.filename.startswith("/") or "\\" in info.filename or is_link:
            raise DataError(f"{path}: refused: {info.filename!r} would leave the package's folder")
        if not info.is_dir():
            roots.add(parts[0])
            members["/".join(parts[1:])] = info
    if len(roots) > 1:
        raise DataError(f"{path}: contains {', '.join(sorted(roots)[:3])} instead of one folder")
    n_bytes, packed = sum(info.file_size for info in members.values()), path.stat().st_size
    if n_bytes > _MOST_GROWTH * packed:
        raise DataError(f"{path}: refused: {n_bytes:,} bytes unpacked, but {packed:,} packed")
    return members


def _check_parts(path: Path, members: dict[str, zipfile.ZipInfo]) -> None:
    if _METADATA not in members:
        raise DataError(f"{path}: contains no {_METADATA}")
    if "model/model.bin" not in members:
        pickles = sorted(name for name in members if name.endswith(_PICKLES))
        instead = f", but the pickle {pickles[0]}, which mtkit never opens" if pickles else ""
        raise DataError(f"{path}: contains no CTranslate2 model (model/model.bin){instead}")
    if _TOKENIZER not in members:
        instead = f"; its {_BPE} belongs to another tokenizer, which mtkit does not have" if _BPE in members else ""
        raise DataError(f"{path}: contains no {_TOKENIZER}{instead}")


def _languages(folder: Path) -> tuple[Languages, str | None]:
    """Return the direction, and the token that Argos Translate makes translations start with.

    In a package of a model of many languages, tokens name the languages exactly: its codes have zh for each Chinese.
    """
    path = folder / _METADATA
    try:
        metadata: Any = parse_json(path.read_bytes())
    except ValueError as error:
        raise DataError(f"{path}: not valid JSON ({error})") from error
    codes = [metadata.get(key) for key in ("from_code", "to_code")] if isinstance(metadata, dict) else []
    if not codes or not all(isinstance(code, str) and code for code in codes):
        raise DataError(f"{path}: from_code and to_code do not name two languages")
    prefix = metadata.get("target_prefix")
    tokens = ctranslate2.fixed_source_token(folder / "model"), prefix if isinstance(prefix, str) else ""
    exact = [language_of_piece(piece) for piece in with_language_pieces(tokens)]
    src, tgt = (one or str(code) for one, code in zip(exact, codes, strict=True))
    return Languages(src, tgt), prefix


def export_bundle(
    files: BundleFiles,
    out: Path,
    quantization: Quantization,
    texts: Sequence[ComparedText],
    tolerance: Tolerance,
    threads: int,
    tick: Callable[[int], object] = lambda n_lines: None,
) -> Parity:
    """Write a package with its certificate; arguments and errors as for the export to CTranslate2.

    Argos Translate cuts and joins text with one tokenizer, the source's: pieces that it does not know are text to it.
    """
    data, src, tgt = files.config.data, files.src_tokenizer, files.tgt_tokenizer
    if {data.src_lang, data.tgt_lang} & {*UNNAMED}:
        raise MtkitError(
            f"{files.folder}: the model does not record its languages, which a package of Argos Translate needs; "
            "import it again with --src-lang and --tgt-lang, or train it with data.src_lang and data.tgt_lang"
        )
    tags = (files.config.decode.tag, *(corpus.tag for corpus in (*data.train, *data.dev)))
    others = (tag for tag in tags for part in tags_of(tag) if language_of_piece(part) is None)
    if tag := next(others, None):
        raise MtkitError(
            f"{files.folder}: the model expects a tag such as {tag} before text; Argos Translate puts none"
        )
    if tgt.byte_ids() and not src.byte_ids():
        raise MtkitError(
            f"{files.folder}: tgt.spm falls back on bytes, but src.spm does not; Argos Translate has one for both"
        )
    is_of_many = files.config.model.end_first
    metadata = _metadata(data.src_lang, data.tgt_lang)
    if is_of_many:
        metadata = _metadata(primary_code(data.src_lang), primary_code(data.tgt_lang))
        metadata["target_prefix"] = language_piece(data.tgt_lang)
    root = f"translate-{metadata['from_code']}_{metadata['to_code']}-{_VERSION.replace('.', '_')}"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "model").mkdir()
        rest = quantization, texts, tolerance, threads, tick
        parity = write_compared(files, folder / "model", *rest, for_others=True, names_languages=True)
        if failures := parity.failing_types(tolerance):  # Argos Translate computes in the fastest type of a machine
            raise MtkitError(f"{out}: not written, because Argos Translate chooses the type: {'; '.join(failures)}")
        (folder / _TOKENIZER).write_bytes(src.serialized())
        if src.fingerprint != tgt.fingerprint:
            (folder / _TGT_TOKENIZER).write_bytes(tgt.serialized())
        (folder / _METADATA).write_text(json.dumps(metadata, indent=2) + "\n")
        if is_of_many:
            _put_around_sources(folder / "model" / "config.json", language_piece(data.src_lang))
        write_readme(folder, files, "argos")
        with atomic_file(out) as package, zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                archive.write(path, f"{root}/{path.relative_to(folder).as_posix()}")
    return parity


def _put_around_sources(path: Path, token: str) -> None:
    """Let CTranslate2 put the token of the source language and </s> around each source: Argos Translate puts nothing.

    path: the model's config.json.
    """
    settings = parse_json(path.read_text(encoding="utf-8"))
    settings |= {"add_source_bos": True, "bos_token": token, "add_source_eos": True}
    write_text(path, json.dumps(settings, indent=2) + "\n")


def _metadata(src_lang: str, tgt_lang: str) -> dict[str, Any]:
    codes = {"from": src_lang, "to": tgt_lang}
    named = {f"{side}_code": code for side, code in codes.items()}
    named |= {f"{side}_name": english_name(code) or code for side, code in codes.items()}
    return {"type": "translate", "package_version": _VERSION, "argos_version": _ARGOS_VERSION, **named}
