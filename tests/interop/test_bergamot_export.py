"""Exports for Bergamot: imported again, they are the model in 8 bits; what its engine cannot run is refused."""

import shutil
import struct
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from fixtures.interop import ENGLISH
from typer.testing import CliRunner

from mtkit.bundle import load_bundle
from mtkit.cli import app
from mtkit.engines.shortlist import SHORTLIST, shortlist_of
from mtkit.errors import MtkitError
from mtkit.interop import reimported
from mtkit.interop.bergamot.folder import export_bundle, import_model, model_size
from mtkit.interop.bergamot.lexicon import checksum
from mtkit.interop.marian_binary import read_marian_binary
from mtkit.interop.parity import DEFAULT_TOLERANCES, ComparedText, Parity, SearchParity
from mtkit.interop.vocabulary import read_spm
from mtkit.tokens.special_ids import BOS_ID, PAD_ID, UNK_ID

MODEL, LEXICON = "model.src-tgt.intgemm.alphas.bin", "lex.50.50.src-tgt.s2t.bin"


@pytest.mark.parametrize("tie", ["all", "decoder"])
def test_an_export_imported_again_is_the_model_in_8_bits(make_student, tmp_path, tie):
    bundle = make_student(tmp_path / "bundle", tie)
    export_bundle(bundle, tmp_path / "exported", ENGLISH[:4])
    import_model(tmp_path / "exported", tmp_path / "again")
    before, after = (load_bundle(folder).model.state_dict() for folder in (bundle, tmp_path / "again"))
    assert before.keys() == after.keys()
    size = len(before["output.bias"])
    for name, weight in before.items():
        if weight.dim() == 1:
            expected = weight.clone()
            if name == "output.bias":
                expected[[PAD_ID, BOS_ID, UNK_ID]] = -30_000  # which Marian, or mtkit, never writes
            assert torch.equal(after[name][: len(expected)], expected), name
            continue
        parts = {"qkv_proj": 3, "kv_proj": 2, "in_proj": 2 if "self_attention" in name else 1}
        n_parts = parts.get(name.split(".")[-2], 1)  # Marian has these in matrices of their own
        for ours, theirs in zip(weight.chunk(n_parts), after[name][: len(weight)].chunk(n_parts), strict=True):
            multiplier = np.float32(127) / ours.abs().max().numpy()
            steps = ours.numpy() * multiplier
            whole = (theirs.numpy() * multiplier).round()
            assert np.array_equal(whole / multiplier, theirs.numpy()), name
            assert np.abs(whole - steps)[np.abs(steps) > 126.9].max() <= 0.5, "the largest value determines the steps"
            assert np.sqrt(np.mean((whole - steps) ** 2)) < 1, name  # 0.29 if each is rounded to the nearest step
    assert len(after["output.bias"]) == size + -size % 8
    assert (after["output.bias"][size:] <= -30_000).all()


def test_the_vocabulary_and_the_shortlist_survive(make_student, tmp_path):
    bundle = make_student(tmp_path / "bundle")
    export_bundle(bundle, tmp_path / "exported", ENGLISH[:4])
    import_model(tmp_path / "exported", tmp_path / "again")
    before, after = (read_spm(folder / "src.spm").pieces for folder in (bundle, tmp_path / "again"))
    assert after[: len(before)] == before
    # the fixture's lists: 4, 5, 6 and 200 for every sentence; 7 and 9 for 5, 40 for 6, 270 and 4 for 280
    first, second = shortlist_of(load_bundle(bundle)), shortlist_of(load_bundle(tmp_path / "again"))
    assert second.always.tolist() == first.always.tolist() == [0, 1, 2, 3, 4, 5, 6, 200]
    assert second.ids_of([5]).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 9, 200]
    # the engine adds the sentence's own tokens
    assert second.ids_of([280, 6]).tolist() == [0, 1, 2, 3, 4, 5, 6, 40, 200, 270, 280]


@pytest.mark.parametrize("tie", ["all", "decoder"])
def test_exporting_an_import_restores_the_file(make_student, tmp_path, tie):
    export_bundle(make_student(tmp_path / "bundle", tie), tmp_path / "first", ENGLISH[:4])
    import_model(tmp_path / "first", tmp_path / "again")
    export_bundle(tmp_path / "again", tmp_path / "second", ENGLISH[:4])
    import_model(tmp_path / "second", tmp_path / "third")
    for name in (MODEL,):
        one, two = (read_marian_binary(tmp_path / folder / name).tensors for folder in ("first", "second"))
        assert one.keys() == two.keys()
        for key in one:
            if not key.endswith("QuantMultA") and key != "decoder_ff_logit_out_b":
                assert np.array_equal(one[key], two[key]), key
    for name in ("model.safetensors", "src.spm", "tgt.spm", SHORTLIST):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "third" / name).read_bytes(), name
    names = {path.name for path in (tmp_path / "first").iterdir()}
    spms = {"vocab.src-tgt.spm"} if tie == "all" else {"srcvocab.src-tgt.spm", "trgvocab.src-tgt.spm"}
    assert names == {MODEL, LEXICON, "config.intgemm8bitalpha.yml", *spms}
    settings = yaml.safe_load((tmp_path / "first" / "config.intgemm8bitalpha.yml").read_text())
    assert {*settings["vocabs"]} == spms
    assert (settings["gemm-precision"], settings["models"]) == ("int8shiftAlphaAll", [MODEL])


def test_multipliers_are_127_over_the_mean_largest_input_and_1_1_deviations(make_student, tmp_path):
    """The first layer reads embeddings, scaled by the root of the width, and Marian's sinusoids."""
    bundle = load_bundle(make_student(tmp_path / "bundle"))
    export_bundle(bundle.folder, tmp_path / "exported", ENGLISH[:3])
    table = bundle.model.src_embedding.weight.detach().numpy()
    rates = 10_000 ** (-np.arange(32) / 31)
    largest = []
    for ids in bundle.src_tokenizer.encode_batch(ENGLISH[:3]):
        angles = np.arange(len(ids) + 1)[:, None] * rates
        inputs = table[[*ids, 3]] * 8 + np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        largest.append(np.abs(inputs).max())
    tensors = read_marian_binary(tmp_path / "exported" / MODEL).tensors
    expected = 127 / (np.mean(largest) + 1.1 * np.std(largest))
    for part in "qkv":
        assert tensors[f"encoder_l1_self_W{part}_QuantMultA"].item() == pytest.approx(expected, rel=1e-5)
    multiplied = {name for name in tensors if "_W" in f"_{name}" and "_ln_" not in name and "Quant" not in name}
    measured = {name.removesuffix("_QuantMultA") for name in tensors if name.endswith("_QuantMultA")}
    # the engine's names of the output matrix: without a lexicon, with vocabularies of its own, and with a lexicon
    assert measured == {*multiplied, "decoder_Wemb", "none"}


def test_the_data_of_each_tensor_is_aligned_for_the_engine(make_student, tmp_path):
    export_bundle(make_student(tmp_path / "bundle"), tmp_path / "exported", ENGLISH[:1])
    data = (tmp_path / "exported" / MODEL).read_bytes()
    version, n_items = struct.unpack_from("<QQ", data)
    headers = [struct.unpack_from("<QQQQ", data, 16 + 32 * index) for index in range(n_items)]
    after = 16 + 32 * n_items + sum(length + 4 * n_axes for length, _, n_axes, _ in headers)
    [gap] = struct.unpack_from("<Q", data, after)
    assert (version, (after + 8 + gap) % 256) == (1, 0)
    assert all(size % 256 == 0 for _, kind, _, size in headers if kind != 0x101)  # the options are the last
    assert {kind for _, kind, _, _ in headers} == {0x101, 0x404, 0x4101}


def test_the_size_of_the_model_file_is_known_from_the_shape(make_student, tmp_path):
    bundle = make_student(tmp_path / "bundle")
    export_bundle(bundle, tmp_path / "exported", ENGLISH[:1])
    model, d, d_ff = load_bundle(bundle).model, 64, 128
    n_rows = -(-model.tgt_embedding.num_embeddings // 8) * 8

    def matrices(n: int, n_bytes: int) -> int:
        return n * (-(-(n_bytes + 4) // 256) * 256 + 256)  # int8 and its multiplier, and that of its input

    vectors = 256  # 64 numbers in float32
    attention = matrices(4, d * d) + 4 * vectors + 2 * vectors  # and its norm
    feed_forward = matrices(2, d * d_ff) + 2 * vectors + vectors + 2 * vectors  # the inner bias is twice as long
    ssru = matrices(2, d * d) + vectors + 2 * vectors
    output_bias = -(-4 * n_rows // 256) * 256
    embedding = -(-(n_rows * d + 4) // 256) * 256 + output_bias + 3 * 256  # its input has three multipliers
    data = attention + feed_forward + ssru + attention + feed_forward + embedding
    size = (tmp_path / "exported" / MODEL).stat().st_size
    assert 0 < size - data < 8192, "the header with names and options"
    torch.nn.init.zeros_(model.output.bias)
    assert model_size(model) == size


def test_the_checksum_combines_the_words_of_a_lexicon():
    # by hand: 0 ^ (5 + c), then that ^ (7 + c + 64 times that + a quarter of that), where c is 0x9E3779B9
    assert checksum(struct.pack("<Q", 5)) == 0x9E3779BE
    assert checksum(struct.pack("<QQ", 5, 7)) == 0x9E3779BE ^ (7 + 0x9E3779B9 + 0x278DDE6F80 + 0x278DDE6F)
    assert checksum(struct.pack("<Q", 5) + b"rest") == 0x9E3779BE  # whole words only


@pytest.mark.parametrize(
    ("model", "facts"),
    [
        ({"positions": "sinusoidal"}, ["model.positions=sinusoidal", "only marian", "mtkit make-student"]),
        ({"norm": "rmsnorm"}, ["model.norm=rmsnorm", "layernorm"]),
        ({"activation": "gelu"}, ["model.activation=gelu", "relu or silu"]),
        ({"d_model": 48, "d_ff": 100}, ["multiple of 64", "model.d_model=48", "model.d_ff=100"]),
        ({"norm_position": "pre"}, ["model.norm_position=pre", "only post"]),
        ({"zero_start": False}, ["<start>", "train.init_from"]),
        ({"shortlist": False}, ["shortlist.npz", "mtkit shortlist"]),
    ],
)
def test_what_the_engine_cannot_run_is_refused(make_student, tmp_path, model, facts):
    bundle = make_student(tmp_path / "bundle", **model)
    with pytest.raises(MtkitError) as error:
        export_bundle(bundle, tmp_path / "exported", ENGLISH[:1])
    assert all(fact in str(error.value) for fact in ["bundle", *facts])
    assert not (tmp_path / "exported").exists()


def test_an_output_of_its_own_is_refused(make_student, tmp_path):
    with pytest.raises(MtkitError, match=r"Bergamot .*model\.tie=none; only all or decoder"):
        export_bundle(make_student(tmp_path / "bundle", "none"), tmp_path / "exported", ENGLISH[:1])


def test_vocabularies_that_do_not_fit_the_embeddings_are_refused(make_student, tmp_path):
    export_bundle(make_student(tmp_path / "bundle", "decoder"), tmp_path / "two", ENGLISH[:1])
    shutil.move(tmp_path / "two" / "srcvocab.src-tgt.spm", tmp_path / "two" / "vocab.src-tgt.spm")
    with pytest.raises(MtkitError, match=r"no vocabulary .*srcvocab"):
        import_model(tmp_path / "two", tmp_path / "again")
    (tmp_path / "two" / "trgvocab.src-tgt.spm").unlink()
    with pytest.raises(MtkitError, match=r"tied-embeddings-all: False .*vocab\.src-tgt\.spm"):
        import_model(tmp_path / "two", tmp_path / "again")


def test_the_command_compares_what_it_wrote(make_student, tmp_path):
    bundle = make_student(tmp_path / "bundle")
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in ENGLISH[:3]))
    options = ["--min-agreement", "0", "--max-score-difference", "9", "--src", tmp_path / "text"]
    arguments = ["export", "--to", "bergamot", "--model", bundle, "--out", tmp_path / "out", *options]
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    assert "tokens agree" in done.stdout
    assert {MODEL, LEXICON, "parity.json"} <= {path.name for path in (tmp_path / "out").iterdir()}


@pytest.mark.parametrize(("change", "warned"), [(-0.6, True), (-0.5, False), (0.6, False), (None, False)])
def test_a_loss_of_half_a_point_of_bleu_in_browsers_is_a_warning(tmp_path, monkeypatch, caplog, change, warned):
    search = SearchParity("greedy", 0.9, 3, 30.0, change, 1.0, 1.0)
    parity = Parity(400, "int8", "int8", 1, 0.01, 0.1, [search, replace(search, search="beam 4", bleu_change=-1.0)])
    monkeypatch.setattr(reimported, "_parity", lambda *_: parity)
    monkeypatch.setattr("mtkit.interop.bergamot.folder.export_bundle", lambda folder, out, sources: out.mkdir())
    text = ComparedText("dev", None, ENGLISH[:1], None)
    files: Any = SimpleNamespace(folder=tmp_path)
    reimported.export_bundle(files, "bergamot", tmp_path / "out", [text], DEFAULT_TOLERANCES["browser"], 1)
    assert ("BLEU is 0.60 lower on 400 lines" in caplog.text and "--src" in caplog.text) == warned
    assert (tmp_path / "out" / "parity.json").exists()


def test_an_export_needs_text_to_measure_activations_on(make_student, tmp_path):
    bundle = make_student(tmp_path / "bundle")
    done = CliRunner().invoke(app, ["export", "--to", "bergamot", "--model", str(bundle), "--out", str(tmp_path / "x")])
    assert done.exit_code == 1
    assert "activations" in done.stderr and "--src" in done.stderr
    assert not (tmp_path / "x").exists()
