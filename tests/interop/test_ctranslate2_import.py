"""Import folders of CTranslate2: its own converter classes write them, and its own engine is the oracle."""

import json
import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
from fixtures.ctranslate2_folders import SPECIALS, write_folder
from fixtures.interop import ENGLISH, FRENCH
from safetensors.torch import load_file

from mtkit.bundle import load_bundle, read_bundle
from mtkit.errors import DataError, MtkitError
from mtkit.interop.ctranslate2 import folder as ctranslate2
from mtkit.interop.ctranslate2.binary import read_ctranslate2_binary
from mtkit.interop.ctranslate2.export import TOKENIZERS, write_model
from mtkit.interop.ctranslate2.weights import to_model
from mtkit.interop.support import Quantization

library = pytest.importorskip("ctranslate2", reason="the extra `fast` is not installed")


@pytest.fixture(scope="module")
def spm(train_spm) -> bytes:
    model: bytes = train_spm(ENGLISH + FRENCH)
    return model


def scores_of_the_original(folder: Path, ends: Sequence[str] = ()) -> list[float]:
    """CTranslate2's log-probabilities of the French sentences, given the English ones."""
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
    src, tgt = ([tokenizer.encode(line, out_type=str) for line in lines] for lines in (ENGLISH, FRENCH))
    translator = library.Translator(str(folder), "cpu")
    found = translator.score_batch([[*pieces, *ends] for pieces in src], tgt)
    return [float(sum(one.log_probs)) for one in found]


def scores_of_the_import(bundle: Path) -> list[float]:
    """The same of the imported bundle."""
    loaded = load_bundle(bundle)
    scores = []
    for src, tgt in zip(ENGLISH, FRENCH, strict=True):
        ids = [*loaded.tgt_tokenizer.encode(tgt), 3]
        with torch.no_grad():
            logits = loaded.model(
                torch.tensor([[*loaded.src_tokenizer.encode(src), 3]]), torch.tensor([[2, *ids[:-1]]])
            )
        scores.append(float(logits[0].log_softmax(-1)[range(len(ids)), ids].sum()))
    return scores


def not_scaled(spec: Any) -> None:
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = False


def shared(spec: Any) -> None:
    spec.decoder.embeddings.weight = spec.decoder.projection.weight = spec.encoder.embeddings[0].weight


def from_zeros(spec: Any) -> None:
    shared(spec)
    spec.decoder.start_from_zero_embedding = True


CONVERTED: dict[
    str, tuple[dict[str, Any], list[str]]
] = {  # of each kind of converted model: its choices, and what the caller puts after a source
    "OpenNMT-py": ({}, []),
    "OpenNMT-py, relative positions": ({"with_relative_position": True, "change": not_scaled}, []),
    "OpenNMT-tf, without a table of positions": ({"with_table": False, "config": {"add_source_eos": True}}, []),
    "OPUS-MT": ({"pre_norm": False, "activation": 2, "change": from_zeros}, ["</s>"]),
}


@pytest.mark.parametrize("kind", CONVERTED)
def test_an_import_gives_translations_the_same_probabilities(spm, tmp_path, kind):
    choices, ends = CONVERTED[kind]
    folder = write_folder(tmp_path / "folder", spm, **choices)
    ctranslate2.import_model(folder, tmp_path / "bundle")
    assert scores_of_the_import(tmp_path / "bundle") == pytest.approx(scores_of_the_original(folder, ends), abs=1e-3)
    model = load_bundle(tmp_path / "bundle").config.model
    assert (model.src_end, model.tie) == (bool(ends) or "tf" in kind, "all" if kind == "OPUS-MT" else "none")


@pytest.mark.parametrize(("quantization", "most"), [("int16", 2**-11), ("float16", 2**-11), ("bfloat16", 2**-8)])
def test_sixteen_bits_are_rounded_once(spm, tmp_path, quantization, most):
    exact, rounded = (
        read_ctranslate2_binary(write_folder(tmp_path / kind, spm, quantization=kind) / "model.bin")
        for kind in ("float32", quantization)
    )
    assert rounded.quantization == quantization
    name = "encoder/layer_0/self_attention/linear_0/weight"
    largest = np.abs(exact.arrays[name]).max()
    assert 0 < np.abs(exact.arrays[name] - rounded.arrays[name]).max() <= most * largest * 1.001


def test_eight_bits_are_rounded_once_by_row(spm, tmp_path):
    exact, rounded = (
        read_ctranslate2_binary(write_folder(tmp_path / kind, spm, quantization=kind) / "model.bin")
        for kind in ("float32", "int8")
    )
    for name in ("decoder/embeddings/weight", "decoder/layer_1/ffn/linear_1/weight"):
        step = np.abs(exact.arrays[name]).max(axis=1) / 127
        errors = np.abs(exact.arrays[name] - rounded.arrays[name]).max(axis=1)
        assert (errors > 0).any() and (errors <= step / 2 * 1.001).all()
    assert np.array_equal(exact.arrays["encoder/layer_norm/gamma"], rounded.arrays["encoder/layer_norm/gamma"])


NATIVE: list[dict[str, Any]] = [
    {"tie": "none", "positions": "learned"},
    {"tie": "decoder", "positions": "rotary", "activation": "swiglu", "norm": "rmsnorm", "norm_position": "pre"},
    {"tie": "all", "positions": "alibi", "activation": "gelu"},
    {"tie": "none", "positions": "relative", "norm_position": "pre", "src_end": False},
    {"tie": "all", "positions": "marian", "activation": "silu"},
]


def export(bundle: Path, folder: Path, quantization: Quantization = "float32") -> Path:
    files = load_bundle(bundle)
    folder.mkdir()
    sides = files.src_tokenizer, files.tgt_tokenizer
    src, tgt = (side.pieces(range(side.vocab_size)) for side in sides)
    write_model(files.model, src, tgt, folder, quantization)
    for name in TOKENIZERS:
        (folder / name).write_bytes((bundle / name).read_bytes())
    return folder


@pytest.mark.parametrize("model", NATIVE, ids=str)
def test_importing_an_export_restores_every_bit(make_native, tmp_path, model):
    bundle = make_native(tmp_path / "bundle", **model)
    ctranslate2.import_model(export(bundle, tmp_path / "folder"), tmp_path / "again")
    for name in ("model.safetensors", *TOKENIZERS):
        assert (tmp_path / "again" / name).read_bytes() == (bundle / name).read_bytes(), name
    before, after = (read_bundle(path).config.model for path in (bundle, tmp_path / "again"))
    assert after == before.model_copy(
        update={"max_positions": after.max_positions, "max_relative_distance": after.max_relative_distance}
    )
    again = export(tmp_path / "again", tmp_path / "exported")
    assert (again / "model.bin").read_bytes() == (tmp_path / "folder" / "model.bin").read_bytes()


def test_a_piece_without_a_row_is_unknown(spm, tmp_path):
    tokenizer = sentencepiece.SentencePieceProcessor(model_proto=spm)
    pieces = [tokenizer.id_to_piece(n) for n in range(3, tokenizer.get_piece_size())]
    english, french = (
        {piece for line in lines for piece in tokenizer.encode(line, out_type=str)} for lines in (ENGLISH, FRENCH)
    )
    lacking = min(english - french)
    folder = write_folder(tmp_path / "folder", spm, names=[*SPECIALS, *(piece for piece in pieces if piece != lacking)])
    ctranslate2.import_model(folder, tmp_path / "bundle")
    assert scores_of_the_import(tmp_path / "bundle") == pytest.approx(scores_of_the_original(folder), abs=1e-3)


def test_a_vocabulary_of_another_tokenizer_is_refused(spm, tmp_path):
    tokenizer = sentencepiece.SentencePieceProcessor(model_proto=spm)
    pieces = [tokenizer.id_to_piece(n) for n in range(3, tokenizer.get_piece_size())]
    folder = write_folder(tmp_path / "folder", spm, names=[*SPECIALS, *pieces[4:]])
    message = refusal(folder, tmp_path / "bundle")
    share = f"{4 / len(pieces):.1%}"
    assert all(fact in message for fact in ["shared_vocabulary.json", "4 of", share, *pieces[:4]]), message


def refusal(folder: Path, out: Path) -> str:
    """The message of an import that is refused and leaves nothing behind."""
    with pytest.raises(MtkitError) as caught:
        ctranslate2.import_model(folder, out)
    assert not out.exists()
    assert str(folder) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("choices", "facts"),
    [
        ({"activation": 1}, ["activation=1", "gelu with tanh"]),
        ({"layernorm_embedding": True}, ["layernorm_embedding"]),
        ({"config": {"add_source_bos": True}}, ["config.json", "add_source_bos"]),
        ({"config": {"decoder_start_token": None}}, ["config.json", "decoder_start_token", "None"]),
        ({"config": {"layer_norm_epsilon": 0.1}}, ["layer_norm_epsilon", "0.1"]),
        ({"names": [*SPECIALS, *(f"__{a}{b}__" for a in "abcd" for b in "abcd")]}, ["M2M-100", "target language"]),
    ],
    ids=lambda value: "".join(value) if isinstance(value, list) else "",
)
def test_a_model_that_mtkit_cannot_compute_is_refused_with_the_reason(spm, tmp_path, choices, facts):
    message = refusal(write_folder(tmp_path / "folder", spm, **choices), tmp_path / "bundle")
    assert all(fact in message for fact in facts), message


@pytest.mark.parametrize(
    ("name", "content", "facts"),
    [
        ("shared_vocabulary.json", '["<unk>", "</s>", "<s>"]', ["3 entries"]),
        ("shared_vocabulary.json", '{"a": 1}', ["list of pieces"]),
        ("shared_vocabulary.json", '["<unk>", "</s>", "a", "a"]', ["the piece 'a' occurs twice"]),
        ("config.json", "{", ["JSON"]),
        ("sentencepiece.model", None, ["--src-spm"]),
        ("shared_vocabulary.json", None, ["source_vocabulary.json"]),
    ],
)
def test_a_folder_whose_files_do_not_fit_is_refused(spm, tmp_path, name, content, facts):
    folder = write_folder(tmp_path / "folder", spm)
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_text(content)
    message = refusal(folder, tmp_path / "bundle")
    assert all(fact in message for fact in [*facts, "" if content is None else name]), message


def test_a_start_that_no_config_names_is_called_the_usual_one(spm, tmp_path):
    pieces = sentencepiece.SentencePieceProcessor(model_proto=spm)
    names = ["<unk>", "</s>", *(pieces.id_to_piece(n) for n in range(3, pieces.get_piece_size()))]
    folder = write_folder(tmp_path / "folder", spm, names=names, config={"decoder_start_token": "</s>"})
    (folder / "config.json").unlink()
    message = refusal(folder, tmp_path / "bundle")
    assert "config.json: no such file, so it is the usual one; decoder_start_token: <s> is not in" in message


def test_pieces_of_text_that_look_like_languages_stay_text(train_spm, tmp_path):
    spm = train_spm(ENGLISH, user_defined_symbols=["__str__", "__lt__"])
    folder = write_folder(tmp_path / "folder", spm, config={"decoder_start_token": "</s>"})
    ctranslate2.import_model(folder, tmp_path / "bundle")
    bundle = read_bundle(tmp_path / "bundle")
    assert not bundle.config.model.end_first and bundle.src_tokenizer.languages() == []
    tokenizer = bundle.tgt_tokenizer
    assert {"__str__", "__lt__"} <= {*tokenizer.pieces(tokenizer.encode("a__str____lt__"))}


def test_a_vocabulary_of_lines_is_read(spm, tmp_path):
    folder = write_folder(tmp_path / "folder", spm)
    ctranslate2.import_model(folder, tmp_path / "bundle")
    names = json.loads((folder / "shared_vocabulary.json").read_text())
    (folder / "shared_vocabulary.json").unlink()
    (folder / "shared_vocabulary.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    (folder / "config.json").unlink()
    ctranslate2.import_model(folder, tmp_path / "again")
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("bundle", "again"))
    assert all(torch.equal(before[name], after[name]) for name in before)


def claims(shape: Sequence[int], n_bytes: int, kind: int = 0) -> bytes:
    """A file with one variable that claims this size, and has no data."""
    start = struct.pack("<IH16sII", 6, 16, b"TransformerSpec\0", 7, 1) + struct.pack("<H2s", 2, b"w\0")
    return start + struct.pack(f"<B{len(shape)}IBI", len(shape), *shape, kind, n_bytes)


@pytest.mark.parametrize(
    ("data", "fact"),
    [
        (b"", "cut off"),
        (struct.pack("<I", 99), "version 99"),
        (struct.pack("<IH12s", 6, 12, b"WhisperSpec\0"), "WhisperSpec"),
        (struct.pack("<IH3s", 6, 3, b"abc"), "not a name"),
        (claims([2**16, 2**14 - 1], 2**32 - 2**18), "cut off: it needs 4,294,"),
        (claims([2**32 - 1, 4], 16), "4294967295 x 4"),
        (claims([0, 4], 0), "0 x 4"),
        (claims([4], 16, kind=9), "unknown type 9"),
        (claims([2], 8) + struct.pack("<2fI", 1, 2, 1) + struct.pack("<H2sH2s", 2, b"a\0", 2, b"b\0"), "alias a of b"),
        (claims([2], 2, kind=1) + struct.pack("<2BI", 1, 2, 0), "without w_scale"),
        (claims([1], 4) + struct.pack("<fI", 1, 0) + b"more", "4 bytes too long"),
    ],
)
def test_a_damaged_file_is_refused_with_the_reason(tmp_path, data, fact):
    (tmp_path / "model.bin").write_bytes(data)
    with pytest.raises(DataError) as caught:
        read_ctranslate2_binary(tmp_path / "model.bin")
    assert str(tmp_path / "model.bin") in str(caught.value)
    assert fact in str(caught.value)


def test_no_damage_escapes_the_reader(spm, tmp_path):
    """Cut or changed anywhere, a file is read or refused, and never asks for more memory than it has bytes."""
    whole = (write_folder(tmp_path / "folder", spm, quantization="int8") / "model.bin").read_bytes()
    rng, path = random.Random(0), tmp_path / "model.bin"
    for _ in range(150):
        path.write_bytes(whole[: rng.randrange(len(whole))])
        with pytest.raises(DataError):
            read_ctranslate2_binary(path)
    n_refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(3):
            damaged[rng.choice([rng.randrange(400), rng.randrange(len(whole))])] = rng.randrange(256)
        path.write_bytes(damaged)
        try:
            to_model(read_ctranslate2_binary(path), src_end=True)
        except DataError:
            n_refused += 1
    assert n_refused > 50
