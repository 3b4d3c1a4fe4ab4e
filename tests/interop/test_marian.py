"""Marian's .npz models: import, export, refusals. The oracle is a Transformer in numpy."""

import contextlib
import io
import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
import yaml
from fixtures.npz import read_npz

from mtkit.bundle import load_bundle
from mtkit.config.model import ModelConfig
from mtkit.errors import MtkitError
from mtkit.interop import marian, marian_options
from mtkit.interop.marian_options import DESCRIPTION
from mtkit.interop.marian_vocabulary import Sources, read_yml
from mtkit.model.positions import sinusoid_table
from mtkit.runs.train import train
from mtkit.translation.translator import Translator

TIED = ["none", "tied-embeddings", "tied-embeddings-src", "tied-embeddings-all"]
SENTENCE = "I love the big cat."


def marian_logits(path: Path, src: list[int], tgt: list[int]) -> np.ndarray:
    """Logits (T, V) after zeros and each of tgt, by Marian's definitions; all ids are Marian's."""
    p = {name: array.astype(np.float64) for name, array in read_npz(path).items() if name != "special:model.yml"}
    pre = "encoder_top_ln_scale" in p
    src_table, tgt_table = (p[f"{side}_Wemb" if f"{side}_Wemb" in p else "Wemb"] for side in ("encoder", "decoder"))

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        suffix = "_pre" if f"{name}_ln_scale_pre" in p else ""
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
        return scaled * p[f"{name}_ln_scale{suffix}"] + p[f"{name}_ln_bias{suffix}"]

    def linear(x, name, part):
        return x @ p[f"{name}_W{part}"] + p[f"{name}_b{part}"]

    def attention(x, y, name, mask):
        q, k, v = linear(x, name, "q"), linear(y, name, "k"), linear(y, name, "v")
        heads = []
        for head in (slice(0, 8), slice(8, 16)):
            scores = np.exp(q[:, head] @ k[:, head].T / math.sqrt(8)) * mask
            heads.append(scores / scores.sum(-1, keepdims=True) @ v[:, head])
        return linear(np.concatenate(heads, -1), name, "o")

    def feed_forward(x, name):
        x = linear(x, name, "1")
        return linear(x / (1 + np.exp(-x)), name, "2")  # swish

    def residual(x, name, sublayer):
        return x + sublayer(norm(x, name)) if pre else norm(x + sublayer(x), name)

    def with_positions(x):
        angles = np.arange(len(x))[:, None] * 10000.0 ** (-np.arange(8) / 7)
        return 4 * x + np.concatenate([np.sin(angles), np.cos(angles)], -1)  # 4 = sqrt(16)

    memory = with_positions(src_table[src])
    memory = residual(memory, "encoder_l1_self_Wo", lambda x: attention(x, x, "encoder_l1_self", 1.0))
    memory = residual(memory, "encoder_l1_ffn_ffn", lambda x: feed_forward(x, "encoder_l1_ffn"))
    memory = norm(memory, "encoder_top") if pre else memory
    causal = np.tril(np.ones((len(tgt) + 1, len(tgt) + 1)))
    x = with_positions(np.concatenate([np.zeros((1, 16)), tgt_table[tgt]]))
    for name in ("decoder_l1", "decoder_l2"):
        x = residual(x, f"{name}_self_Wo", lambda y, n=name: attention(y, y, f"{n}_self", causal))
        x = residual(x, f"{name}_context_Wo", lambda y, n=name: attention(y, memory, f"{n}_context", 1.0))
        x = residual(x, f"{name}_ffn_ffn", lambda y, n=name: feed_forward(y, f"{n}_ffn"))
    x = norm(x, "decoder_top") if pre else x
    return x @ p.get("decoder_ff_logit_out_Wt", tgt_table).T + p["decoder_ff_logit_out_b"]


@pytest.mark.parametrize("pre", [True, False])
@pytest.mark.parametrize("tied", TIED)
def test_an_imported_model_computes_what_marian_computes(make_marian, tmp_path, tied, pre):
    path = make_marian(tmp_path / "marian", tied=tied, pre=pre)
    marian.import_model(path, tmp_path / "bundle")
    bundle = load_bundle(tmp_path / "bundle")
    src_spm, tgt_spm = (
        sentencepiece.SentencePieceProcessor(model_file=str(path.with_name(f"{side}.spm"))) for side in ("src", "tgt")
    )
    theirs = marian_logits(path, [*src_spm.encode(SENTENCE), 0], tgt_spm.encode("Le chat dort."))
    src = [*bundle.src_tokenizer.encode(SENTENCE), 3]
    tgt = bundle.tgt_tokenizer.encode("Le chat dort.")
    with torch.no_grad():
        ours = bundle.model(torch.tensor([src]), torch.tensor([[2, *tgt]]))[0].double().numpy()
    # Marian's ids are </s> 0, <unk> 1, others; ours are pad, <unk> 1, bos, </s> 3, others
    assert np.abs(ours[:, [3, *range(4, ours.shape[1])]] - theirs[:, [0, *range(2, theirs.shape[1])]]).max() < 2e-3
    assert (ours[:, [0, 1, 2]] < -20000).all()  # missing in Marian, or never chosen


def test_settings_of_the_decoder_config_and_the_origin_are_kept(make_marian, tmp_path):
    path = make_marian(tmp_path / "marian", tied="tied-embeddings-all")
    marian.import_model(path, tmp_path / "bundle")
    bundle = load_bundle(tmp_path / "bundle")
    assert (bundle.config.decode.beam_size, bundle.config.decode.length_normalization) == (5, "average")
    assert (bundle.config.model.tie, bundle.config.model.activation) == ("all", "silu")
    assert bundle.manifest["training"]["imported"]["file"] == "model.npz"
    assert (
        Translator.load(tmp_path / "bundle", device="cpu", max_len=8, on_suspect="off").translate([SENTENCE, ""])[1]
        == ""
    )


@pytest.mark.parametrize(("norm_position", "name"), [("pre", "rnn_ln_scale_pre"), ("post", "rnn_ffn_ln_scale")])
def test_an_ssru_decoder_has_marians_names(norm_position, name):
    """The names are from files of Marian 1.12.42 with --dec-cell ssru and either position of the norms."""
    cfg = ModelConfig(decoder="ssru", norm_position=norm_position, positions="marian", n_decoder_layers=1)
    names = {
        theirs for entry in marian._entries(cfg) for theirs in entry.theirs if "rnn" in theirs and "scale" in theirs
    }
    assert names == {f"decoder_l1_{name}"}


@pytest.mark.parametrize(("version", "warned"), [("v1.10.0 5a1b", True), ("v1.12.42", False), ("mtkit", False)])
def test_an_old_version_that_may_compute_otherwise_gives_a_warning(version, warned, caplog):
    options = {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"}
    assert marian_options._norm_position({**options, "version": version}, "model.npz") == "pre"
    assert ("model.npz: Marian v1.10" in caplog.text) == warned


@pytest.mark.parametrize("pre", [True, False])
@pytest.mark.parametrize("tied", TIED)
def test_exporting_an_import_restores_every_bit(make_marian, tmp_path, tied, pre):
    path = make_marian(tmp_path / "marian", tied=tied, pre=pre)
    marian.import_model(path, tmp_path / "bundle")
    marian.export_bundle(tmp_path / "bundle", tmp_path / "exported")
    before, after = read_npz(path), read_npz(tmp_path / "exported" / "model.npz")
    assert set(before) == set(after)
    for name in set(before) - {DESCRIPTION}:
        assert np.array_equal(before[name], after[name]), name
    for side in ("src", "tgt"):
        spms = [folder / f"{side}.spm" for folder in (path.parent, tmp_path / "exported")]
        pieces = [sentencepiece.SentencePieceProcessor(model_file=str(spm)).encode(SENTENCE) for spm in spms]
        assert pieces[0] == pieces[1]
    marian.import_model(tmp_path / "exported" / "model.npz", tmp_path / "again")
    for name in ("model.safetensors", "src.spm", "tgt.spm", "config.yaml"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "bundle" / name).read_bytes(), name


def test_the_decoder_starts_from_zeros_and_not_from_the_vocabularys_bos(make_marian, tmp_path):
    """Marian trained with mtkit's tokenizers has <s> as a row of the output only."""
    path = make_marian(tmp_path / "marian", as_mtkit=True)
    marian.import_model(path, tmp_path / "bundle")
    bundle, before = load_bundle(tmp_path / "bundle"), read_npz(path)
    assert bundle.tgt_tokenizer.pieces([0, 1, 2, 3, 4]) == ["<pad>", "<unk>", "<start>", "</s>", "<s>"]
    table = bundle.model.tgt_embedding.weight.detach().numpy()
    assert not table[2].any()
    assert np.array_equal(table[[0, 1, 4, 3, 5]], before["decoder_Wemb"][:5])
    marian.export_bundle(tmp_path / "bundle", tmp_path / "exported")
    after = read_npz(tmp_path / "exported" / "model.npz")
    assert all(np.array_equal(before[name], after[name]) for name in before if "special" not in name)


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
@pytest.mark.parametrize("norm_position", ["pre", "post"])
def test_importing_an_export_restores_every_bit(make_native, tmp_path, tie, norm_position):
    shape = {"positions": "marian", "norm_position": norm_position}
    no_dropout = {"embedding_dropout": 0.0, "residual_dropout": 0.0}  # which such a file does not record
    bundle = make_native(tmp_path / "bundle", tie, zero_start=True, **shape, **no_dropout)
    marian.export_bundle(bundle, tmp_path / "exported")
    marian.import_model(tmp_path / "exported" / "model.npz", tmp_path / "again")
    for name in ("model.safetensors", "src.spm", "tgt.spm"):
        assert (tmp_path / "again" / name).read_bytes() == (bundle / name).read_bytes(), name
    assert load_bundle(tmp_path / "again").config.model == load_bundle(bundle).config.model


@pytest.mark.parametrize(
    ("key", "value"),
    [("positions", "sinusoidal"), ("positions", "rotary"), ("norm", "rmsnorm"), ("activation", "gelu")],
)
def test_a_bundle_that_marian_cannot_express_is_refused_by_key(make_native, tmp_path, key, value):
    bundle = make_native(tmp_path / "bundle", "decoder", zero_start=True, **{"positions": "marian", key: value})
    with pytest.raises(MtkitError, match=rf"Marian .*model\.{key}={value}"):
        marian.export_bundle(bundle, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_a_bundle_that_starts_from_a_learned_embedding_is_refused(make_native, tmp_path):
    bundle = make_native(tmp_path / "bundle", "decoder", positions="marian")
    with pytest.raises(MtkitError, match=r"bundle: .*<start>"):
        marian.export_bundle(bundle, tmp_path / "exported")


@pytest.mark.parametrize(("n_layers", "layer"), [(1, "last"), (2, "last"), (3, "2"), (6, "5")])
def test_the_description_names_the_layer_that_aligns_words(n_layers, layer):
    """The last but one, or of one or two the last; Marian counts from 1."""
    options = marian_options.model_options(ModelConfig(positions="marian", n_decoder_layers=n_layers), (9, 9))
    assert options["transformer-guided-alignment-layer"] == layer


def test_the_description_ends_with_one_nul_and_names_the_shape(make_marian, tmp_path):
    marian.import_model(make_marian(tmp_path / "marian"), tmp_path / "bundle")
    marian.export_bundle(tmp_path / "bundle", tmp_path / "exported")
    text = read_npz(tmp_path / "exported" / "model.npz")["special:model.yml"].tobytes()
    assert text.endswith(b"\n\0")
    options = yaml.safe_load(text[:-1])
    sizes = read_npz(tmp_path / "marian" / "model.npz")
    assert options["dim-vocabs"] == [len(sizes["encoder_Wemb"]), len(sizes["decoder_Wemb"])]
    assert (options["transformer-heads"], options["dec-depth"], options["transformer-preprocess"]) == (2, 2, "n")


class TestVocabulariesAsLists:
    """A .yml of pieces beside SentencePiece models, as OPUS-MT publishes its models."""

    @pytest.fixture
    def path(self, make_marian, tmp_path) -> Path:
        path = make_marian(tmp_path / "marian", tied="tied-embeddings-all")
        (path.parent / "src.spm").rename(path.parent / "source.spm")
        (path.parent / "tgt.spm").rename(path.parent / "target.spm")
        spm = sentencepiece.SentencePieceProcessor(model_file=str(path.parent / "source.spm"))
        names = [spm.id_to_piece(i) for i in range(spm.get_piece_size())]
        names[10], names[11] = ">>fra<<", 'odd: "\\'  # two pieces that the list does not have
        self.missing = [spm.id_to_piece(10), spm.id_to_piece(11)]
        lines = [f"{json.dumps(name)}: {row}\n" for row, name in enumerate(names)]
        (path.parent / "vocab.yml").write_text("".join(reversed(lines)))
        return path

    def test_an_export_restores_both_sides(self, path, tmp_path):
        vocabulary = path.parent / "vocab.yml"
        marian.import_model(path, tmp_path / "bundle", Sources(vocabulary, vocabulary))
        marian.export_bundle(tmp_path / "bundle", tmp_path / "exported")
        for side in ("src", "tgt"):
            assert read_yml(tmp_path / "exported" / f"{side}.yml") == read_yml(vocabulary)
        before, after = read_npz(path), read_npz(tmp_path / "exported" / "model.npz")
        assert all(np.array_equal(before[name], after[name]) for name in before if "special" not in name)
        marian.import_model(tmp_path / "exported" / "model.npz", tmp_path / "again")
        for name in ("model.safetensors", "src.spm", "tgt.spm"):
            assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "bundle" / name).read_bytes(), name

    def test_pieces_that_the_list_lacks_are_embedded_as_unknown(self, path, tmp_path):
        vocabulary = path.parent / "vocab.yml"
        marian.import_model(path, tmp_path / "bundle", Sources(vocabulary, vocabulary))
        bundle = load_bundle(tmp_path / "bundle")
        table = bundle.model.src_embedding.weight
        for token_id, piece in enumerate(self.missing, start=bundle.src_tokenizer.vocab_size - 2):
            assert bundle.src_tokenizer.pieces([token_id]) == [piece]
            assert torch.equal(table[token_id], table[1])
            assert bundle.model.output.bias[token_id] < -20000

    def test_a_list_without_a_tokenizer_is_refused(self, path, tmp_path):
        (path.parent / "source.spm").unlink()
        vocabulary = path.parent / "vocab.yml"
        with pytest.raises(MtkitError, match=r"vocab\.yml: .*source\.spm.*--src-spm"):
            marian.import_model(path, tmp_path / "bundle", Sources(vocabulary, vocabulary))


def test_a_yml_vocabulary_is_read_as_marian_writes_it(tmp_path):
    path = tmp_path / "vocab.yml"
    path.write_text('"</s>": 0\n<unk>: 1\nyes: 2\n"\\x85": 3\n\'it\'\'s\': 4\n? long key\n: 5\n"a:b": 6\n', "utf-8")
    assert read_yml(path) == ["</s>", "<unk>", "yes", "\x85", "it's", "long key", "a:b"]
    path.write_text("a: 0\nb: 2\n")
    with pytest.raises(MtkitError, match=r"vocab\.yml: 'b' has the id 2 "):
        read_yml(path)
    path.write_text("a: 0\nb\n")
    with pytest.raises(MtkitError, match=r"vocab\.yml: line 2: 'b'"):
        read_yml(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"type": "s2s"}, "type: s2s .*transformer"),
        ({"transformer-decoder-autoreg": "average-attention"}, "autoreg: average-attention"),
        ({"transformer-decoder-autoreg": "rnn", "dec-cell": "gru"}, "dec-cell: gru .*ssru"),
        ({"transformer-ffn-activation": "gelu"}, "transformer-ffn-activation: gelu"),
        ({"transformer-train-position-embeddings": True}, "train-position-embeddings: True"),
        ({"transformer-tied-layers": [1, 1]}, r"transformer-tied-layers: \[1, 1\]"),
        ({"transformer-preprocess": "nd"}, None),
        ({"transformer-preprocess": "a"}, 'transformer-preprocess: "a", transformer-postprocess: "da"'),
        ({"transformer-postprocess-top": ""}, 'transformer-postprocess-top: "" .*"n", "da", "n"'),
        ({"transformer-postprocess-emb": "nd"}, "transformer-postprocess-emb: nd"),
        ({"transformer-decoder-dim-ffn": 64}, "transformer-decoder-dim-ffn: 64 .*32"),
        ({"lemma-dim-emb": 8}, "lemma-dim-emb: 8 .*0"),
        ({"dim-emb": None}, "dim-emb: None"),
        ({"transformer-depth-scaling": True}, None),
        ({"transformer-heads": 3}, "d_model=16 .*n_heads=3"),
        ({"enc-depth": 0}, "n_encoder_layers=0: .* 1"),
        ({"transformer-ffn-activation": ["swish"]}, r"transformer-ffn-activation: \['swish'\]"),
        ({"enc-depth": 2}, "encoder_l2_self_Wq"),
        ({"dec-depth": 1}, ": decoder_l2_context_Wk"),
        ({"transformer-dim-ffn": 64}, "encoder_l1_ffn_W1 is 16 x 32, .*16 x 64"),
    ],
)
def test_an_architecture_that_is_not_supported_is_named(make_marian, tmp_path, changes, message):
    path = make_marian(tmp_path / "marian", **changes)
    if message is None:  # without effect on the computation
        marian.import_model(path, tmp_path / "bundle")
        return
    with pytest.raises(MtkitError, match=rf"model\.npz: .*{message}"):
        marian.import_model(path, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_vocabularies_that_do_not_fit_are_refused(make_marian, train_spm, tmp_path):
    path = make_marian(tmp_path / "marian")
    (path.parent / "tgt.spm").write_bytes(
        train_spm(["un deux trois"] * 3, eos_id=0, unk_id=1, bos_id=-1, vocab_size=15)
    )
    with pytest.raises(MtkitError, match=r"tgt\.spm: 14 entries, .*model\.npz has \d+"):
        marian.import_model(path, tmp_path / "bundle")
    (path.parent / "tgt.spm").unlink()
    with pytest.raises(MtkitError, match=r"model\.npz: .*tgt\.spm.*--tgt-vocab"):
        marian.import_model(path, tmp_path / "bundle")
    path.with_name("model.npz.decoder.yml").unlink()
    with pytest.raises(MtkitError, match=r"model\.npz: no model\.npz\.decoder\.yml"):
        marian.import_model(path, tmp_path / "bundle")
    for name in ("vocab.fsv", "vocab.txt"):
        with pytest.raises(MtkitError, match=rf"{name}: .*\.spm, or \.yml"):
            marian.import_model(path, tmp_path / "bundle", Sources(tmp_path / name, tmp_path / name))


def test_two_vocabularies_for_one_matrix_are_refused(make_marian, tmp_path):
    path = make_marian(tmp_path / "marian", tied="tied-embeddings-all")
    other = make_marian(tmp_path / "other")
    with pytest.raises(MtkitError, match=r"src\.spm and .*tgt\.spm"):
        marian.import_model(path, tmp_path / "bundle", Sources(path.with_name("src.spm"), other.with_name("tgt.spm")))


def described(text: bytes) -> dict[str, Any]:
    """Return the parameter in which a file holds its options."""
    return {DESCRIPTION: np.frombuffer(text, dtype=np.int8)}


class Executed:
    """Unpickling this ends the program."""

    def __reduce__(self):
        return exec, ("raise SystemExit",)


def claim(file, n_numbers):
    """An .npz whose array says that it has so many numbers."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (n_numbers,)})
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.npy", header.getvalue())


def test_other_files_are_refused_and_nothing_is_unpickled(make_marian, tmp_path):
    path = make_marian(tmp_path / "marian")
    arrays = read_npz(path)
    cases = {
        "not an .npz file": lambda file: file.write(b"nothing"),
        "not an .npz file of plain arrays.*allow_pickle": lambda file: np.savez(
            file, **{**arrays, "decoder_Wemb": np.array([Executed()], dtype=object)}
        ),
        "not an .npz file of plain arrays, or damaged": lambda file: np.save(file, np.zeros(3)),
        "not an .npz file of plain arrays": lambda file: claim(file, 10**13),
        "unpacked": lambda file: np.savez_compressed(file, a=np.zeros(10**6)),
        "special:model.yml is": lambda file: np.savez(file, a=np.zeros(3)),
        "its special:model.yml cannot be read": lambda file: np.savez(file, **described(b"a: [")),
        "its special:model.yml cannot be read: line 2: aliases repeat": lambda file: np.savez(
            file, **described(b"a: &a " + b"x" * 2000 + b"\nb: [" + b"*a, " * 1000 + b"]")
        ),
        "special:model.yml contains no options": lambda file: np.savez(file, **described(b"text\0\0")),
        "decoder_Wemb .*int64": lambda file: np.savez(
            file, **{**arrays, "decoder_Wemb": arrays["decoder_Wemb"].astype(np.int64)}
        ),
    }
    for message, write in cases.items():
        with path.open("wb") as file:
            write(file)
        with pytest.raises(MtkitError, match=message):
            marian.import_model(path, tmp_path / "bundle")


def test_a_cut_off_file_is_refused(make_marian, tmp_path):
    path = make_marian(tmp_path / "marian")
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(MtkitError, match=r"model\.npz: not an \.npz file"):
        marian.import_model(path, tmp_path / "bundle")


def test_a_wrong_byte_anywhere_is_refused_or_has_no_effect(tmp_path):
    path = tmp_path / "model.npz"
    np.savez_compressed(path, a=np.ones((2, 3), dtype=np.float32), **described(b"type: transformer\0"))
    whole = path.read_bytes()
    for offset in range(len(whole)):
        for wrong in (1, 0xFF):
            path.write_bytes(whole[:offset] + bytes([whole[offset] ^ wrong]) + whole[offset + 1 :])
            with contextlib.suppress(MtkitError):
                parameters, description = marian.read_npz(path)
                assert all((array == 1).all() for array in parameters.values())  # the names are not protected
                assert description == {"type": "transformer"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("normalize: -1", r"length_penalty=-1\.0: .* 0"),
        ("normalize: [1]", r"normalize: \[1\]"),
        ("beam-size: many", 'beam_size="many": must be a whole number'),
        (f"a: &a {'x' * 2000}\nb: [{'*a, ' * 1000}]", "cannot be read: line 4: aliases repeat"),
    ],
)
def test_an_invalid_decoder_config_is_named(make_marian, tmp_path, settings, message):
    path = make_marian(tmp_path / "marian")
    path.with_name("model.npz.decoder.yml").write_text(
        f"relative-paths: true\nvocabs: [src.spm, tgt.spm]\n{settings}\n"
    )
    with pytest.raises(MtkitError, match=rf"model\.npz\.decoder\.yml: {message}"):
        marian.import_model(path, tmp_path / "bundle")


def test_a_failed_export_leaves_the_folder_as_it_was(make_marian, tmp_path, monkeypatch):
    marian.import_model(make_marian(tmp_path / "marian"), tmp_path / "bundle")
    (tmp_path / "exported").mkdir()
    (tmp_path / "exported" / "precious").touch()

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(marian, "write_npz", full_disk)
    with pytest.raises(OSError, match="No space left"):
        marian.export_bundle(tmp_path / "bundle", tmp_path / "exported")
    assert [path.name for path in (tmp_path / "exported").iterdir()] == ["precious"]


def converted(exported: Path, folder: Path) -> tuple[Any, sentencepiece.SentencePieceProcessor]:
    """CTranslate2's own conversion of an exported model with SentencePiece vocabularies, and the source's tokenizer."""
    ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra `fast` is not installed")
    from ctranslate2.converters import MarianConverter

    path = exported / "model.npz"
    # CTranslate2's own sinusoids have other rates than Marian's
    np.savez(path, **read_npz(path), Wpos=sinusoid_table(64, 16, marian=True).numpy())
    processors = []
    for side in ("src", "tgt"):
        spm = sentencepiece.SentencePieceProcessor(model_file=str(exported / f"{side}.spm"))
        names = [spm.id_to_piece(i) for i in range(spm.get_piece_size())]
        lines = [f"{json.dumps(name, ensure_ascii=False)}: {row}\n" for row, name in enumerate(names)]
        (folder / f"{side}.yml").write_text("".join(lines), encoding="utf-8")
        processors.append(spm)
    MarianConverter(str(path), [str(folder / "src.yml"), str(folder / "tgt.yml")]).convert(str(folder / "ct2"))
    return ctranslate2.Translator(str(folder / "ct2"), compute_type="float32", intra_threads=1), processors[0]


@pytest.mark.parametrize("pre", [True, False])
@pytest.mark.parametrize("tied", TIED)
def test_ctranslate2_converts_an_exported_model_and_translates_alike(make_marian, tmp_path, tied, pre):
    marian.import_model(make_marian(tmp_path / "marian", tied=tied, pre=pre), tmp_path / "bundle")
    marian.export_bundle(tmp_path / "bundle", tmp_path / "exported")
    peer, spm = converted(tmp_path / "exported", tmp_path)
    pieces = spm.encode(SENTENCE, out_type=str)
    [result] = peer.translate_batch([pieces], beam_size=1, max_decoding_length=12, disable_unk=True)
    translator = Translator.load(tmp_path / "bundle", device="cpu", beam_size=1, max_len=11, on_suspect="off")
    [[ours]] = translator.search([SENTENCE])
    assert translator.tgt_tokenizer.pieces(ours.ids) == result.hypotheses[0]
    assert len(ours.ids) > 3


@pytest.fixture(scope="module")
def trained(config_of, tmp_path_factory) -> Path:
    """A folder with a run and its export to Marian: trained with all that could move the zeros of <start>."""
    folder = tmp_path_factory.mktemp("trained")
    model = {"positions": "marian", "activation": "silu", "n_decoder_layers": 2}
    train(config_of(folder / "run", model=model, ema=0.9, weight_decay=0.1, max_steps=40))
    marian.export_bundle(folder / "run" / "model", folder / "exported")
    return folder


def test_a_model_trained_here_computes_what_marian_computes(trained):
    bundle = load_bundle(trained / "run" / "model")
    src, tgt = bundle.src_tokenizer.encode("two red dog"), bundle.tgt_tokenizer.encode("deux rouge chien")
    theirs = marian_logits(trained / "exported" / "model.npz", [*src, 3], tgt)
    with torch.no_grad():
        ours = bundle.model(torch.tensor([[*src, 3]]), torch.tensor([[2, *tgt]]))[0]
    assert np.abs(ours.double().numpy() - theirs).max() < 2e-3


def test_ctranslate2_converts_a_model_trained_here_and_translates_alike(trained, tmp_path):
    peer, spm = converted(trained / "exported", tmp_path)
    bundle = trained / "run" / "model"
    translator = Translator.load(bundle, device="cpu", beam_size=1, max_len=20, max_len_factor=9.0, on_suspect="off")
    sources = ["two red dog", "one cat sees", "blue blue cat sees two dog"]
    results = peer.translate_batch(spm.encode(sources, out_type=str), beam_size=1, max_decoding_length=21)
    for [ours], theirs in zip(translator.search(sources), results, strict=True):
        assert translator.tgt_tokenizer.pieces(ours.ids) == theirs.hypotheses[0]
        assert len(ours.ids) > 3
