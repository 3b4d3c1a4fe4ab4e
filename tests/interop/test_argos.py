"""Packages of Argos Translate: import, export, and packages that are damaged or forged."""

import json
import pickle
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from fixtures.ctranslate2_folders import SPECIALS, write_folder
from fixtures.interop import ENGLISH, FRENCH
from safetensors.torch import load_file

from mtkit.bundle import load_bundle, read_bundle
from mtkit.config.decoding import DecodeConfig
from mtkit.engines.native import NativeEngine
from mtkit.errors import MtkitError
from mtkit.interop import argos
from mtkit.interop.ctranslate2 import export
from mtkit.interop.ctranslate2 import folder as ctranslate2
from mtkit.interop.parity import ComparedText, Tolerance
from mtkit.translation.translator import Translator

library = pytest.importorskip("ctranslate2", reason="the extra `fast` is not installed")

METADATA = {"from_code": "en", "to_code": "fr", "package_version": "1.0"}
ROOT = "translate-en_fr-1_0"


def from_english_to_french(files: Any) -> Any:
    """Return the bundle with languages."""
    data = files.config.data.model_copy(update={"src_lang": "en", "tgt_lang": "fr"})
    return replace(files, config=files.config.model_copy(update={"data": data}))


class Attack:
    """Pickled, it writes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


@pytest.fixture(scope="module")
def folder(train_spm, tmp_path_factory) -> Path:
    return write_folder(tmp_path_factory.mktemp("argos") / "model", train_spm(ENGLISH + FRENCH), quantization="int8")


@pytest.fixture
def files(folder) -> dict[str, bytes]:
    return files_of(folder)


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of a package by their names in it."""
    model = {f"model/{path.name}": path.read_bytes() for path in folder.iterdir() if path.suffix != ".model"}
    tokenizer = {"sentencepiece.model": (folder / "sentencepiece.model").read_bytes()}
    return {"metadata.json": json.dumps(METADATA).encode(), **tokenizer, **model}


def write_package(path: Path, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(f"{ROOT}/{name}", data)
    return path


def test_a_package_is_its_model_and_no_pickle_runs(folder, files, tmp_path, caplog):
    files["stanza/en/tokenize/ewt.pt"] = pickle.dumps(Attack(tmp_path / "attacked"))
    argos.import_model(write_package(tmp_path / "en_fr.argosmodel", files), tmp_path / "bundle")
    ctranslate2.import_model(folder, tmp_path / "of_folder")
    assert not (tmp_path / "attacked").exists()
    for name in ("model.safetensors", "src.spm", "tgt.spm"):
        assert (tmp_path / "bundle" / name).read_bytes() == (tmp_path / "of_folder" / name).read_bytes(), name
    config = read_bundle(tmp_path / "bundle").config
    assert (config.data.src_lang, config.data.tgt_lang) == ("en", "fr")
    assert not config.model.src_end


def test_a_warning_about_a_package_gives_the_place_in_it(train_spm, tmp_path, caplog):
    spm = train_spm([*ENGLISH, *FRENCH])
    tokenizer = sentencepiece.SentencePieceProcessor(model_proto=spm)
    names = [*SPECIALS, *(tokenizer.id_to_piece(n) for n in range(3, tokenizer.get_piece_size() - 1))]
    model = write_folder(tmp_path / "folder", spm, names=names)
    path = write_package(tmp_path / "x.argosmodel", files_of(model))
    argos.import_model(path, tmp_path / "bundle")
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings and all(warning.startswith(f"{path}/model/") for warning in warnings)


def refusal(path: Path, out: Path) -> str:
    """The message of an import that is refused and leaves nothing behind."""
    with pytest.raises(MtkitError) as caught:
        argos.import_model(path, out)
    assert not out.exists()
    assert str(caught.value).startswith(str(path))
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"metadata.json": None}, ["metadata.json"]),
        ({"metadata.json": b"{"}, ["metadata.json", "JSON"]),
        ({"metadata.json": b"[]"}, ["metadata.json", "from_code"]),
        ({"metadata.json": json.dumps({**METADATA, "target_prefix": "__fr__"}).encode()}, ["target_prefix", "__fr__"]),
        ({"model/model.bin": None}, ["model/model.bin"]),
        ({"model/model.bin": None, "model/model.pt": b"x"}, ["model/model.pt", "pickle"]),
        ({"model/model.bin": b"\6\0\0\0"}, ["model/model.bin", "cut off"]),
        ({"sentencepiece.model": None}, ["sentencepiece.model"]),
        ({"sentencepiece.model": None, "bpe.model": b"x"}, ["bpe.model"]),
        ({"../../evil": b"x"}, ["../../evil"]),
        ({"..\\evil": b"x"}, ["evil"]),
        ({"zeros": bytes(50_000_000)}, ["refused", "unpacked"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_a_forged_or_incomplete_package_is_refused_with_the_reason(files, tmp_path, changes, facts):
    changed = {name: data for name, data in {**files, **changes}.items() if data is not None}
    message = refusal(write_package(tmp_path / "x.argosmodel", changed), tmp_path / "bundle")
    assert all(fact in message for fact in facts), message
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("name", ["/evil", "another/metadata.json"])
def test_a_second_folder_is_refused(files, tmp_path, name):
    path = write_package(tmp_path / "x.argosmodel", files)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, b"x")
    assert name.split("/")[0] in refusal(path, tmp_path / "bundle")


def test_a_link_is_refused(files, tmp_path):
    path = write_package(tmp_path / "x.argosmodel", files)
    with zipfile.ZipFile(path, "a") as archive:
        link = zipfile.ZipInfo(f"{ROOT}/model/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc")
    assert "link" in refusal(path, tmp_path / "bundle")


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_package_that_is_cut_off_is_refused(files, tmp_path, share):
    path = write_package(tmp_path / "x.argosmodel", files)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    assert "damaged" in refusal(path, tmp_path / "bundle")


def test_argos_translate_gets_the_translations_of_the_model(make_native, tmp_path):
    bundle = from_english_to_french(load_bundle(make_native(tmp_path / "bundle", "none", norm_position="pre")))
    out, lines = tmp_path / "en_fr.argosmodel", ENGLISH[:4]
    text = ComparedText("lines", None, lines, None)
    # in int8, the translations of a random model may be completely different
    parity = argos.export_bundle(bundle, out, "float32", [text], Tolerance(0.0, 1e-3, 0.1), 1)
    assert parity.n_lines == 4
    assert {parity.computes_in, *parity.agreement_by_type} >= {"float32", "int8_float32"}
    with zipfile.ZipFile(out) as archive:
        [root] = {name.split("/")[0] for name in archive.namelist()}
        archive.extractall(tmp_path)
    package = tmp_path / root
    metadata = json.loads((package / "metadata.json").read_text())
    assert (metadata["from_code"], metadata["to_code"], metadata["type"]) == ("en", "fr", "translate")
    assert json.loads((package / "model" / "parity.json").read_text())["n_lines"] == 4
    assert "MiniSBD" in (package / "README.md").read_text()

    # what argostranslate 1.11 does with a sentence, but greedily: its beam search has another length penalty;
    # its limit counts the end of the sentence
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(package / "sentencepiece.model"))
    engine = library.Translator(str(package / "model"), "cpu")
    pieces = [tokenizer.encode(line, out_type=str) for line in lines]
    found = engine.translate_batch(pieces, replace_unknowns=True, beam_size=1, max_decoding_length=17)
    decode = DecodeConfig(beam_size=1, max_len=16, on_suspect="off")
    tokenizers = bundle.src_tokenizer, bundle.tgt_tokenizer
    expected = [
        n_best[0].text for n_best in Translator(NativeEngine([bundle.model]), *tokenizers, decode).search(lines)
    ]
    assert [tokenizer.decode_pieces(one.hypotheses[0]) for one in found] == expected

    argos.import_model(out, tmp_path / "again")
    before, after = (load_file(path / "model.safetensors") for path in (tmp_path / "bundle", tmp_path / "again"))
    assert all((before[name] == after[name]).all() for name in before)


@pytest.mark.parametrize("has_vnni", [True, False])
def test_a_model_that_a_type_of_the_machine_breaks_is_refused(make_native, tmp_path, monkeypatch, has_vnni):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_vnni": has_vnni}, raising=False)
    files = from_english_to_french(read_bundle(make_native(tmp_path / "bundle", "none")))
    monkeypatch.setattr(export, "measure_types", lambda *rest: {"int16": 0.995, "int8_float32": 0.9})
    text, out = ComparedText("lines", None, ENGLISH[:4], None), tmp_path / "x.argosmodel"
    with pytest.raises(MtkitError, match=r"x.argosmodel: .* int8_float32.*: 90.00% .* 95.00%") as caught:
        argos.export_bundle(files, out, "float32", [text], Tolerance(0.99, 1e-3, 0.1), 1)
    assert "int16" not in str(caught.value)
    assert ("lacks VNNI" in str(caught.value)) == (not has_vnni)
    assert not out.exists()


@pytest.mark.parametrize("tag", ["<2fr>"])
def test_a_model_that_needs_a_tag_is_refused(make_native, tmp_path, tag):
    files = from_english_to_french(read_bundle(make_native(tmp_path / "bundle", "none"), [f"decode.tag={tag}"]))
    with pytest.raises(MtkitError, match=f"a tag such as {tag} .* Argos Translate"):
        argos.export_bundle(files, tmp_path / "x.argosmodel", "float32", [], Tolerance(0.99, 1e-3, 0.1), 1)
    assert not (tmp_path / "x.argosmodel").exists()


def test_a_model_without_languages_is_refused(make_native, tmp_path):
    files = read_bundle(make_native(tmp_path / "bundle", "none"))
    with pytest.raises(MtkitError, match=r"bundle: .*languages.*--src-lang .*--tgt-lang"):
        argos.export_bundle(files, tmp_path / "x.argosmodel", "float32", [], Tolerance(0.99, 1e-3, 0.1), 1)
    assert not (tmp_path / "x.argosmodel").exists()
