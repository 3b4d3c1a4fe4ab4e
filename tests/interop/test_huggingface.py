"""MarianMT folders of Hugging Face: import, export, refusals; transformers is the oracle if it is installed."""

import json
import pickle
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from mtkit.bundle import load_bundle, read_bundle, save_bundle
from mtkit.cli import app
from mtkit.errors import DataError, MtkitError
from mtkit.interop.huggingface import folder as huggingface
from mtkit.interop.vocabulary import Layout
from mtkit.model.positions import sinusoid_table
from mtkit.training.preparation.warm_start import load_start

SENTENCES = ["I love oranges.", "The cat sleeps under the table.", "It rains: do you see it?"]
LINEAR = {"self_attn.q_proj": (16, 16), "self_attn.k_proj": (16, 16), "self_attn.v_proj": (16, 16)}
LAYER = {**LINEAR, "self_attn.out_proj": (16, 16), "fc1": (32, 16), "fc2": (16, 32)}
CROSS = {name.replace("self_attn", "encoder_attn"): shape for name, shape in LAYER.items() if "attn" in name}


@pytest.fixture(scope="session")
def make_folder(english_spm, french_spm) -> Callable[..., Path]:
    """make_folder(path, ...) writes a random model like OPUS-MT's: one vocabulary, </s> 0, <unk> 1, <pad> last."""

    def make(
        folder: Path, *, separate: bool = False, tied: bool = True, tags: Sequence[str] = ("fra",), **changes: Any
    ) -> Path:
        folder.mkdir(parents=True)
        (folder / "source.spm").write_bytes(english_spm)
        (folder / "target.spm").write_bytes(french_spm)
        src, tgt = (sentencepiece.SentencePieceProcessor(model_proto=spm) for spm in (english_spm, french_spm))
        pieces = [[spm.id_to_piece(n) for n in range(3, spm.get_piece_size())] for spm in (src, tgt)]
        if not separate:
            pieces = [[*sorted({*pieces[0], *pieces[1]} - {"▁rains"}), *(f">>{code}<<" for code in tags)]]
        # two vocabularies must have <pad> at the same id
        vocabularies = [["</s>", "<unk>", *(["<pad>", *some] if separate else [*some, "<pad>"])] for some in pieces]
        for name, names in zip(("vocab.json", "target_vocab.json"), vocabularies, strict=False):
            (folder / name).write_text(json.dumps({piece: row for row, piece in enumerate(names)}))
        sizes, pad_id = [len(vocabularies[0]), len(vocabularies[-1])], vocabularies[-1].index("<pad>")
        tensors = random_tensors(sizes, shared=not separate, tied=tied)
        save_file(tensors, folder / "model.safetensors")
        config = {
            "model_type": "marian",
            "architectures": ["MarianMTModel"],
            "is_encoder_decoder": True,
            "vocab_size": sizes[0],
            "decoder_vocab_size": sizes[1],
            "d_model": 16,
            "encoder_layers": 1,
            "decoder_layers": 2,
            **{f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in SIZES.items()},
            "activation_function": "swish",
            "scale_embedding": True,
            "pad_token_id": pad_id,
            "eos_token_id": 0,
            "decoder_start_token_id": pad_id,
            "share_encoder_decoder_embeddings": not separate,
            "tie_word_embeddings": tied,
            "max_position_embeddings": 64,
            "bad_words_ids": [[pad_id]],
            "num_beams": 6,
            **changes,
        }
        (folder / "config.json").write_text(json.dumps(config))
        tokenizer = {"source_lang": "en", "target_lang": "fr", "separate_vocabs": separate}
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
        return folder

    return make


@pytest.mark.parametrize("separate", [False, True])
def test_swapped_tokenizers_are_refused(make_folder, train_spm, tmp_path, separate):
    folder = make_folder(tmp_path / "hf", separate=separate)
    words = {"source": "vous avec pour dans nous est pas les", "target": "the and with that have they was were"}
    for name, text in words.items():
        (folder / f"{name}.spm").write_bytes(train_spm([text] * 9, model_type="word"))
    with pytest.raises(MtkitError, match=r"source tokenizer .* fr, .* en: swap .*source\.spm"):
        huggingface.import_model(folder, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


SIZES = {"ffn_dim": 32, "attention_heads": 2}


def random_tensors(sizes: list[int], *, shared: bool, tied: bool) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * 0.5

    tensors = {"final_logits_bias": draw(1, sizes[1])}
    if shared:
        tensors["model.shared.weight"] = draw(sizes[0], 16)
    else:
        tensors["model.encoder.embed_tokens.weight"] = draw(sizes[0], 16)
        tensors["model.decoder.embed_tokens.weight"] = draw(sizes[1], 16)
    if not tied:
        tensors["lm_head.weight"] = draw(sizes[1], 16)
    for layer in ("encoder.layers.0", "decoder.layers.0", "decoder.layers.1"):
        linear = LAYER if layer.startswith("encoder") else {**LAYER, **CROSS}
        norms = ["self_attn_layer_norm", "final_layer_norm"] + ["encoder_attn_layer_norm"] * layer.startswith("decoder")
        for name, shape in linear.items():
            tensors[f"model.{layer}.{name}.weight"] = draw(*shape)
            tensors[f"model.{layer}.{name}.bias"] = draw(shape[0])
        for name in norms:
            tensors |= {f"model.{layer}.{name}.{kind}": draw(16) for kind in ("weight", "bias")}
    return tensors


KINDS = [{}, {"separate": True}, {"separate": True, "tied": False}]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_exporting_an_import_restores_every_bit(make_folder, tmp_path, kind):
    folder = make_folder(tmp_path / "hf", **kind)
    huggingface.import_model(folder, tmp_path / "bundle")
    huggingface.export_bundle(tmp_path / "bundle", tmp_path / "exported")
    before, after = (load_file(path / "model.safetensors") for path in (folder, tmp_path / "exported"))
    assert set(before) == set(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    for name in ["vocab.json", "target_vocab.json"][: 1 + kind.get("separate", False)]:
        assert json.loads((tmp_path / "exported" / name).read_text()) == json.loads((folder / name).read_text())
    old, new = (json.loads((path / "config.json").read_text()) for path in (folder, tmp_path / "exported"))
    same = set(old) - {"bad_words_ids", "num_beams", "max_position_embeddings"}
    assert {key: new.get(key) for key in same} == {key: old[key] for key in same}
    generate = json.loads((tmp_path / "exported" / "generation_config.json").read_text())
    assert (generate["bad_words_ids"], generate["num_beams"]) == (old["bad_words_ids"], 6)
    huggingface.import_model(tmp_path / "exported", tmp_path / "again")
    for name in ("model.safetensors", "src.spm", "tgt.spm"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "bundle" / name).read_bytes(), name


@pytest.mark.parametrize(
    ("length_penalty", "normalization"), [(None, "average"), (1.0, "average"), (0.0, "none"), (0.8, "gnmt")]
)
def test_the_length_penalty_survives_import_and_export(make_folder, tmp_path, length_penalty, normalization):
    huggingface.import_model(make_folder(tmp_path / "hf", length_penalty=length_penalty), tmp_path / "bundle")
    assert load_bundle(tmp_path / "bundle").config.decode.length_normalization == normalization
    huggingface.export_bundle(tmp_path / "bundle", tmp_path / "exported")
    generate = json.loads((tmp_path / "exported" / "generation_config.json").read_text())
    assert generate["length_penalty"] == (1.0 if length_penalty is None else length_penalty)


def test_pad_starts_the_decoder_but_is_never_chosen(make_folder, tmp_path):
    folder = make_folder(tmp_path / "hf")
    huggingface.import_model(folder, tmp_path / "bundle")
    bundle, tensors = load_bundle(tmp_path / "bundle"), load_file(folder / "model.safetensors")
    assert torch.equal(bundle.model.tgt_embedding.weight[2], tensors["model.shared.weight"][-1])
    assert (bundle.model.output.bias[[0, 2]] < -20000).all()
    assert torch.equal(bundle.model.output.bias[[1, 3]], tensors["final_logits_bias"][0, [1, 0]])
    assert (bundle.config.data.src_lang, bundle.config.data.tgt_lang) == ("en", "fr")
    assert (bundle.config.decode.beam_size, bundle.config.decode.length_normalization) == (6, "average")


def test_a_tag_is_listed_and_can_be_chosen(make_folder, tmp_path):
    folder = make_folder(tmp_path / "hf")
    huggingface.import_model(folder, tmp_path / "bundle")
    tokenizer = load_bundle(tmp_path / "bundle", ["decode.tag=>>fra<<"]).src_tokenizer
    assert tokenizer.tags() == [">>fra<<"]
    vocabulary = json.loads((folder / "vocab.json").read_text())
    rows = Layout.from_json(read_bundle(tmp_path / "bundle").manifest["training"]["imported"]["vocabulary"]["src"]).rows
    tagged = tokenizer.tagged(">>fra<<")
    for text in SENTENCES:
        first, *rest = tagged.encode(text)
        assert rows[first] == vocabulary[">>fra<<"]
        assert rest == tokenizer.encode(text)
        assert tagged.decode(tagged.encode(text)) == tokenizer.decode(rest)
    with pytest.raises(DataError, match=r"no tag >>deu<<; it has >>fra<<"):
        tokenizer.tagged(">>deu<<")
    done = CliRunner().invoke(app, ["--quiet", "inspect", "model", "--model", str(tmp_path / "bundle")])
    assert done.exit_code == 0, done.output
    assert "decode.tag can name: >>fra<<" in done.stdout


@pytest.mark.parametrize(
    ("named", "language", "tag"),
    [
        (["fra"], "fr", ">>fra<<"),
        (["fra", "spa"], "es", ">>spa<<"),
        (["por", "pt_BR"], "pt", ">>por<<"),
        (["cmn_Hans", "cmn_Hant"], "zh", None),
        (["cmn_Hans", "cmn_Hant"], "zh-Hant", ">>cmn_Hant<<"),
        (["fra", "spa"], "ROMANCE", None),
    ],
)
def test_the_tag_of_the_target_language_comes_before_each_source(make_folder, tmp_path, named, language, tag):
    folder, out = make_folder(tmp_path / "hf", tags=named), tmp_path / "bundle"
    arguments = ["import", folder, "--out", out, "--src-lang", "en", "--tgt-lang", language]
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert (done.exit_code, done.stdout) == (0, f"{out}\n")
    assert read_bundle(out).config.decode.tag == tag
    listed = ", ".join(f">>{code}<<" for code in named)
    assert (f"the target language: {listed}; import" in done.stderr) == (tag is None)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_logits_and_tokens_equal_those_of_transformers(make_folder, tmp_path, kind):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    folder = make_folder(tmp_path / "hf", **kind)
    huggingface.import_model(folder, tmp_path / "bundle")
    bundle = load_bundle(tmp_path / "bundle")
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    layouts = bundle.manifest["training"]["imported"]["vocabulary"]
    src_rows, tgt_rows = (Layout.from_json(layouts[side]).rows for side in ("src", "tgt"))
    # pad is never chosen, there is no bos, and the last rows are pieces outside its vocabulary
    comparable = [i for i in range(len(tgt_rows) - layouts["tgt"]["n_unknown"]) if i not in (0, 2)]
    for text in SENTENCES:
        theirs = tokenizer(text, return_tensors="pt").input_ids
        ours = [*bundle.src_tokenizer.encode(text), 3]
        assert [src_rows[token_id] for token_id in ours] == theirs[0].tolist()
        last = torch.tensor([[model.config.decoder_start_token_id, tgt_rows[9]]])
        with torch.no_grad():
            expected = model(input_ids=theirs, decoder_input_ids=last).logits[0]
            logits = bundle.model(torch.tensor([ours]), torch.tensor([[2, 9]]))[0]
        assert torch.allclose(logits[:, comparable], expected[:, [tgt_rows[i] for i in comparable]], atol=1e-4)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@torch.no_grad()
def test_a_tuned_model_goes_back(make_folder, tmp_path, kind):
    huggingface.import_model(make_folder(tmp_path / "hf", **kind), tmp_path / "base")
    base = load_bundle(tmp_path / "base")
    model = base.model.new_like()
    load_start(tmp_path / "base", model)
    for weight in model.parameters():
        weight.add_(0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(2)))
    spm = tmp_path / "base" / "src.spm", tmp_path / "base" / "tgt.spm"
    save_bundle(tmp_path / "tuned", model.state_dict(), base.config, *spm, training={"step": 9})
    huggingface.export_bundle(tmp_path / "tuned", tmp_path / "exported")
    huggingface.import_model(tmp_path / "exported", tmp_path / "again")
    again = load_bundle(tmp_path / "again")
    for text in SENTENCES:
        ids = [one.src_tokenizer.encode(text) for one in (base, again)]
        assert base.src_tokenizer.pieces(ids[0]) == again.src_tokenizer.pieces(ids[1])
        logits = [
            one(torch.tensor([[*src, 3]]), torch.tensor([[2, 9, 12]]))
            for one, src in zip((model.eval(), again.model), ids, strict=True)
        ]
        torch.testing.assert_close(*logits, atol=1e-4, rtol=0)


NATIVE = [("none", "relu", "sinusoidal"), ("decoder", "gelu", "marian"), ("all", "silu", "sinusoidal")]


@pytest.mark.parametrize(("tie", "activation", "positions"), NATIVE)
def test_importing_an_export_restores_every_bit(make_native, tmp_path, tie, activation, positions):
    bundle = make_native(tmp_path / "bundle", tie, activation=activation, positions=positions)
    huggingface.export_bundle(bundle, tmp_path / "exported")
    huggingface.import_model(tmp_path / "exported", tmp_path / "again")
    for name in ("model.safetensors", "src.spm", "tgt.spm"):
        assert (tmp_path / "again" / name).read_bytes() == (bundle / name).read_bytes(), name
    before, after = load_bundle(bundle).config.model, load_bundle(tmp_path / "again").config.model
    assert after == before


@pytest.mark.parametrize(("tie", "activation", "positions"), NATIVE)
def test_transformers_computes_the_logits_of_an_exported_bundle(make_native, tmp_path, tie, activation, positions):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    folder = make_native(tmp_path / "bundle", tie, activation=activation, positions=positions)
    huggingface.export_bundle(folder, tmp_path / "exported")
    bundle = load_bundle(folder)
    model = transformers.MarianMTModel.from_pretrained(tmp_path / "exported").eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path / "exported")
    src, tgt_in = [*bundle.src_tokenizer.encode(SENTENCES[0]), 3], [2, 270, 275]
    assert tokenizer(SENTENCES[0]).input_ids == src
    assert model.config.decoder_start_token_id == 2
    with torch.no_grad():
        expected = bundle.model(torch.tensor([src]), torch.tensor([tgt_in]))
        logits = model(input_ids=torch.tensor([src]), decoder_input_ids=torch.tensor([tgt_in])).logits
    assert torch.allclose(logits, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("norm_position", "pre"),
        ("norm", "rmsnorm"),
        ("positions", "rotary"),
        ("activation", "swiglu"),
        ("decoder", "ssru"),
    ],
)
def test_a_bundle_that_marianmt_cannot_express_is_refused_by_key(make_native, tmp_path, key, value):
    bundle = make_native(tmp_path / "bundle", "decoder", **{key: value})
    with pytest.raises(MtkitError, match=rf"MarianMT.*model\.{key}={value}"):
        huggingface.export_bundle(bundle, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "bart"}, 'config.json: model_type: "bart"'),
        ({"scale_embedding": False}, "scale_embedding: false"),
        ({"normalize_before": True}, "normalize_before: true"),
        ({"activation_function": "gelu_new"}, 'activation_function: "gelu_new"'),
        ({"decoder_ffn_dim": 64}, "decoder_ffn_dim: 64.*32"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings: false.*share_encoder_decoder_embeddings"),
        ({"eos_token_id": 5}, r"config\.json: eos_token_id: 5, .*vocab\.json .* 0$"),
        ({"decoder_start_token_id": 5000}, "decoder_start_token_id: 5000"),
        ({"d_model": "16"}, "d_model: 16"),
        ({"encoder_layers": 0}, r"config\.json: n_encoder_layers=0: .* 1"),
        ({"num_beams": 0}, r"config\.json: beam_size=0: .* 1"),
        ({"length_penalty": "long"}, r"config\.json: length_penalty: long"),
        ({"dropout": [0.1]}, r"config\.json: dropout: \[0\.1\]"),
        ({"encoder_layers": 2}, r"model\.safetensors: .*model\.encoder\.layers\.1\.self_attn\.q_proj\.weight"),
        ({"decoder_layers": 1}, r"model\.safetensors: .*: model\.decoder\.layers\.1"),
        ({"d_model": 32}, r"src_embedding\.weight is \(\d+, 16\), .*\(\d+, 32\)"),
    ],
)
def test_a_config_that_is_not_supported_is_named(make_folder, tmp_path, changes, message):
    folder = make_folder(tmp_path / "hf", **changes)
    with pytest.raises(MtkitError, match=message):
        huggingface.import_model(folder, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda t: t.pop("model.shared.weight"), r"model\.safetensors: .*model\.shared\.weight"),
        (lambda t: t.update({"model.encoder.layers.0.fc1.bias": torch.zeros(3)}), r"fc1\.bias is \(3,\), .* \(32,\)"),
        (
            lambda t: t.update({"model.encoder.embed_positions.weight": torch.ones(64, 16)}),
            r"model\.safetensors: model\.encoder\.embed_positions\.weight",
        ),
        (lambda t: t.update({"model.encoder.embed_positions.weight": torch.zeros(3)}), "does not hold sinusoids"),
        (lambda t: t.update({"model.encoder.embed_positions.weight": torch.zeros(5, 1)}), "does not hold sinusoids"),
        (lambda t: t.update({"model.shared.weight": torch.ones(9, 16, dtype=torch.int8)}), r"shared\.weight is int8; "),
    ],
)
def test_tensors_that_do_not_fit_are_named(make_folder, tmp_path, damage, message):
    folder = make_folder(tmp_path / "hf")
    tensors = load_file(folder / "model.safetensors")
    damage(tensors)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(MtkitError, match=message):
        huggingface.import_model(folder, tmp_path / "bundle")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_stored_positions_determine_the_kind_of_sinusoids(make_folder, tmp_path, dtype):
    folder = make_folder(tmp_path / "hf")
    tensors = load_file(folder / "model.safetensors")
    for marian, kind in ((True, "marian"), (False, "sinusoidal")):
        table = sinusoid_table(64, 16, marian=marian)
        both = {f"model.{side}.embed_positions.weight": table.to(dtype, copy=True) for side in ("encoder", "decoder")}
        save_file({**tensors, **both}, folder / "model.safetensors")
        huggingface.import_model(folder, tmp_path / "bundle")
        assert load_bundle(tmp_path / "bundle").config.model.positions == kind


def test_pytorch_model_bin_with_tensors_is_read(make_folder, tmp_path):
    folder = make_folder(tmp_path / "hf")
    huggingface.import_model(folder, tmp_path / "a")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    huggingface.import_model(folder, tmp_path / "b")
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_weights_in_several_files_are_read(make_folder, tmp_path, name):
    folder = make_folder(tmp_path / "hf")
    huggingface.import_model(folder, tmp_path / "a")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    stem, kind = name.split(".")
    parts = {f"{stem}-0000{n}-of-00002.{kind}": names[n - 1 :: 2] for n in (1, 2)}
    for file, some in parts.items():
        save = save_file if kind == "safetensors" else torch.save
        save({one: tensors[one] for one in some}, folder / file)
    index = folder / f"{name}.index.json"
    index.write_text(json.dumps({"weight_map": {one: file for file, some in parts.items() for one in some}}))
    huggingface.import_model(folder, tmp_path / "b")
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()
    (folder / file).unlink()
    with pytest.raises(MtkitError, match=f"{file}: missing, though {index.name} names it"):
        huggingface.import_model(folder, tmp_path / "c")
    for broken in ("{}", '{"weight_map": {"a": "../a"}}', '{"weight_map": {"a": 1}}'):
        index.write_text(broken)
        with pytest.raises(MtkitError, match=f"{index.name}: .*weight_map"):
            huggingface.import_model(folder, tmp_path / "c")


def test_tokens_added_to_the_tokenizer_are_named(make_folder, tmp_path):
    folder = make_folder(tmp_path / "hf")
    names = json.loads((folder / "vocab.json").read_text())
    del names["<pad>"]
    (folder / "vocab.json").write_text(json.dumps(names))
    (folder / "added_tokens.json").write_text(json.dumps({"<pad>": len(names)}))
    with pytest.raises(MtkitError, match=r"src embedding has .* rows; .*tokens that were added to the tokenizer"):
        huggingface.import_model(folder, tmp_path / "bundle")


def test_a_tuned_model_whose_vocabulary_is_new_keeps_its_ids(make_folder, tmp_path):
    huggingface.import_model(make_folder(tmp_path / "hf", separate=True), tmp_path / "base")
    base = load_bundle(tmp_path / "base")  # tuned with new pieces, it does not have the layout of the folder anymore
    spms = [tmp_path / "base" / f"{side}.spm" for side in ("src", "tgt")]
    save_bundle(tmp_path / "tuned", base.model.state_dict(), base.config, *spms, training={})
    huggingface.export_bundle(tmp_path / "tuned", tmp_path / "exported")
    huggingface.import_model(tmp_path / "exported", tmp_path / "again")
    again = load_bundle(tmp_path / "again")
    for text in SENTENCES:
        assert again.src_tokenizer.encode(text) == base.src_tokenizer.encode(text)
    assert torch.equal(again.model.src_embedding.weight, base.model.src_embedding.weight)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_weights_that_may_not_be_read_are_called_so(make_folder, tmp_path, monkeypatch, name):
    folder = make_folder(tmp_path / "hf")
    (folder / "model.safetensors").rename(folder / name)
    read = Path.open

    def refuse(self, *args, **options):
        if self.name == name:
            raise PermissionError(13, "Permission denied", str(self))
        return read(self, *args, **options)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(MtkitError, match=rf"{name}: cannot be read \(Permission denied\)"):
        huggingface.import_model(folder, tmp_path / "bundle")


class Executed:
    """Unpickling this ends the program."""

    def __reduce__(self):
        return exec, ("raise SystemExit",)


def test_a_weights_file_with_code_in_it_is_refused(make_folder, tmp_path):
    folder = make_folder(tmp_path / "hf")
    (folder / "model.safetensors").unlink()
    old = folder / "pytorch_model.bin"
    torch.save({"model.shared.weight": Executed()}, old)
    torch.save([1, 2], tmp_path / "legacy", _use_new_zipfile_serialization=False)
    damaged = (tmp_path / "legacy").read_bytes()[:-20] + b"." * 20
    for content in (old.read_bytes(), pickle.dumps(Executed(), protocol=2), b"nothing", damaged):
        old.write_bytes(content)
        with pytest.raises(MtkitError, match=r"pytorch_model\.bin: refused"):
            huggingface.import_model(folder, tmp_path / "bundle")
    torch.save([1, 2], old)
    with pytest.raises(MtkitError, match=r"pytorch_model\.bin: refused"):
        huggingface.import_model(folder, tmp_path / "bundle")
    old.unlink()
    with pytest.raises(MtkitError, match=r"model\.safetensors .*pytorch_model\.bin"):
        huggingface.import_model(folder, tmp_path / "bundle")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.json", '{"</s>": 0, "<unk>": 1, "a": 3}', r"vocab\.json: 'a' has the id 3 "),
        ("vocab.json", '{"</s>": 0, "a": 1}', r"vocab\.json: .*<unk>"),
        ("vocab.json", '{"</s>": 0, "<unk>": 1}', r"vocab\.json: 2 entries.* src .*\d+ rows"),
        ("vocab.json", '{"</s>": "0"}', r"vocab\.json: "),
        ("vocab.json", "[", r"vocab\.json: .*JSON"),
        ("vocab.json", r'{"</s>": 0, "<unk>": 1, "\ud800": 2}', r"vocab\.json: the piece '.ud800' of row 2"),
        ("config.json", "[]", r"config\.json: .*JSON"),
        ("source.spm", "", r"source\.spm: "),
        ("model.safetensors", "nothing", r"model\.safetensors: "),
        ("tokenizer_config.json", '{"separate_vocabs": true}', r"tokenizer_config\.json: separate_vocabs: true"),
        ("tokenizer_config.json", '{"eos_token": ["</s>"]}', r"vocab\.json: the vocabulary has no \['</s>'\]"),
    ],
)
def test_files_that_cannot_be_used_are_named(make_folder, tmp_path, name, content, message):
    folder = make_folder(tmp_path / "hf")
    (folder / name).write_text(content)
    with pytest.raises(MtkitError, match=message):
        huggingface.import_model(folder, tmp_path / "bundle")


def test_missing_files_are_named(make_folder, tmp_path):
    whole = make_folder(tmp_path / "hf")
    for name in ("config.json", "vocab.json", "target.spm"):
        folder = Path(shutil.copytree(whole, tmp_path / name.replace(".", "-")))
        (folder / name).unlink()
        with pytest.raises(MtkitError, match=rf"{name}: .*No such file"):
            huggingface.import_model(folder, tmp_path / "bundle")
