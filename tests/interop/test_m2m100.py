"""M2M-100 and NLLB folders of Hugging Face: import, languages, export, refusals.

The oracle is the architecture written down again in plain torch, and transformers if it is installed.
"""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from fixtures.m2m100 import CODES, KINDS, D, Reference
from safetensors.torch import load_file, save_file
from torch import Tensor
from typer.testing import CliRunner

from mtkit.adaptation.extension import extend
from mtkit.bundle import load_bundle, read_bundle, save_bundle
from mtkit.cli import app
from mtkit.engines.parallel import NativeInWorker
from mtkit.errors import BundleError, DataError, MtkitError
from mtkit.interop.huggingface import folder as huggingface
from mtkit.interop.imported import Languages
from mtkit.interop.support import Target, export_problems
from mtkit.interop.vocabulary import Layout
from mtkit.model.positions import sinusoid_table
from mtkit.pair_files.pairs import Pair
from mtkit.training.preparation.warm_start import freeze, load_start
from mtkit.translation.translator import Translator

SENTENCES = ["I love oranges.", "The cat sleeps under the table.", "It rains: do you see the Zug?"]


def imported(make_m2m100, tmp_path: Path, kind: str = "nllb", **changes: Any) -> tuple[Path, Path]:
    """Return a folder and its bundle, which translates from English to French."""
    folder = make_m2m100(tmp_path / "hf", kind, **changes)
    huggingface.import_model(folder, tmp_path / "bundle", Languages("en", "fr"))
    return folder, tmp_path / "bundle"


def rows_of(bundle: Path) -> list[int]:
    return Layout.from_json(read_bundle(bundle).manifest["training"]["imported"]["vocabulary"]["tgt"]).rows


def row_of_language(folder: Path, kind: str, code: str) -> int:
    """Languages follow the pieces in the order of the folder's list."""
    n_pieces = len(sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))) + 1
    return n_pieces + CODES[kind].index(code)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_logits_are_those_of_the_architecture_in_each_direction(make_m2m100, tmp_path, kind):
    folder, path = imported(make_m2m100, tmp_path, kind)
    reference, rows = Reference(load_file(folder / "model.safetensors")), rows_of(path)
    spm = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    comparable = [i for i in range(len(rows)) if i not in (0, 2)]  # mtkit never chooses pad, nor the decoder's start
    german, english, french = CODES[kind]
    for src_lang, tgt_lang in ((english, french), (english, german), (german, english)):
        bundle = load_bundle(path, [f"decode.src_lang={src_lang}", f"decode.tgt_lang={tgt_lang}"])
        first, target = (row_of_language(folder, kind, code) for code in (src_lang, tgt_lang))
        src_tokenizer = bundle.src_tokenizer.tagged(bundle.config.decode.tag)
        for text in SENTENCES:
            src = [*src_tokenizer.encode(text), 3]
            pieces = [3 if i == 0 else i + 1 for i in spm.encode(text)]
            assert [rows[i] for i in src] == [first, *pieces, 2]
            tgt = bundle.tgt_tokenizer.encode("Le chat")
            expected = reference.logits([first, *pieces, 2], [2, target, *(rows[i] for i in tgt)])
            logits = bundle.model(torch.tensor([src]), torch.tensor([[2, *tgt]]))[0]
            torch.testing.assert_close(
                logits[:, comparable], expected[1:, [rows[i] for i in comparable]], atol=1e-4, rtol=0
            )


@pytest.mark.parametrize("kind", KINDS)
def test_exporting_an_import_restores_every_bit_and_the_files_of_the_tokenizer(make_m2m100, tmp_path, kind):
    folder, bundle = imported(make_m2m100, tmp_path, kind)
    huggingface.export_bundle(bundle, tmp_path / "exported")
    before, after = (load_file(path / "model.safetensors") for path in (folder, tmp_path / "exported"))
    assert set(before) == set(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert sorted(p.name for p in (tmp_path / "exported").iterdir()) == sorted(p.name for p in folder.iterdir())

    def read(name: str) -> list[dict[str, Any]]:
        return [json.loads((path / name).read_text()) for path in (folder, tmp_path / "exported")]

    for name in ("config.json", "tokenizer_config.json", "vocab.json")[: 3 if kind == "m2m_100" else 2]:
        old, new = read(name)
        old |= {"src_lang": CODES[kind][1], "tgt_lang": CODES[kind][2]} if "src_lang" in old else {}
        assert {key: new.get(key) for key in old} == old
    old, new = read("special_tokens_map.json")
    assert new["additional_special_tokens"] == old["additional_special_tokens"]
    spms = [
        sentencepiece.SentencePieceProcessor(str(p / "sentencepiece.bpe.model"))
        for p in (folder, tmp_path / "exported")
    ]
    pieces = [[(spm.id_to_piece(i), spm.get_score(i), spm.is_control(i)) for i in range(len(spm))] for spm in spms]
    assert pieces[0] == pieces[1]
    huggingface.import_model(tmp_path / "exported", tmp_path / "again")  # its languages are those of the bundle
    for name in ("model.safetensors", "src.spm", "tgt.spm", "config.yaml"):
        assert (tmp_path / "again" / name).read_bytes() == (bundle / name).read_bytes(), name


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_transformers_computes_the_same_logits_and_translations(make_m2m100, tmp_path, kind):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    codes = None
    if kind == "m2m_100":  # its tokenizer has a fixed list of languages
        codes = transformers.models.m2m_100.tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]
    folder, path = imported(make_m2m100, tmp_path, kind, codes=codes)
    huggingface.export_bundle(path, tmp_path / "exported")
    rows, (german, english, french) = rows_of(path), CODES[kind]
    for place in (folder, tmp_path / "exported"):
        model = transformers.M2M100ForConditionalGeneration.from_pretrained(place).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, src_lang=english)
        for code in (french, german):
            token = f"__{code}__" if kind == "m2m_100" else code
            target = tokenizer.convert_tokens_to_ids(token)
            for beam_size in (1, 4):
                translator = Translator.load(path, tgt_lang=code, beam_size=beam_size, max_len=12, on_suspect="off")
                for text in SENTENCES:
                    src = tokenizer(text, return_tensors="pt")
                    expected = model.generate(
                        **src,
                        decoder_input_ids=torch.tensor([[2, target]]),
                        num_beams=beam_size,
                        max_new_tokens=13,
                        max_length=None,
                        early_stopping=False,
                    )[0].tolist()
                    [[best]] = translator.search([text])
                    assert [2, target, *(rows[i] for i in best.ids), *[2] * best.finished] == expected, (
                        text,
                        beam_size,
                    )


@torch.no_grad()
def export_tuned(path: Path, tmp_path: Path) -> None:
    """Write the model with other weights, as training changes them, as a bundle and as a folder."""
    base = load_bundle(path)
    model = base.model.new_like()
    load_start(path, model, tgt_lang=base.config.data.tgt_lang)
    freeze(model, [])
    for weight in model.parameters():
        if weight.requires_grad:
            weight.add_(0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(2)))
    spm = path / "src.spm", path / "tgt.spm"
    save_bundle(tmp_path / "tuned", model.state_dict(), base.config, *spm, training={"step": 9})
    huggingface.export_bundle(tmp_path / "tuned", tmp_path / "exported")


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_transformers_computes_the_logits_of_a_tuned_model(make_m2m100, tmp_path, kind):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    folder, path = imported(make_m2m100, tmp_path, kind)
    export_tuned(path, tmp_path)
    rows, tuned = rows_of(path), load_bundle(tmp_path / "tuned")
    src = [*tuned.src_tokenizer.tagged(tuned.config.decode.tag).encode(SENTENCES[1]), 3]
    tgt = tuned.tgt_tokenizer.encode("Le chat")
    inputs = [rows[i] for i in src], [2, row_of_language(folder, kind, CODES[kind][2]), *(rows[i] for i in tgt)]
    model = transformers.M2M100ForConditionalGeneration.from_pretrained(tmp_path / "exported").eval()
    expected = model(torch.tensor([inputs[0]]), decoder_input_ids=torch.tensor([inputs[1]])).logits[0, 1:]
    logits = tuned.model(torch.tensor([src]), torch.tensor([[2, *tgt]]))[0]
    comparable = [i for i in range(len(rows)) if i not in (0, 2)]  # mtkit never chooses pad and <start>
    torch.testing.assert_close(logits[:, comparable], expected[:, [rows[i] for i in comparable]], atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_tuned_model_goes_back_with_its_languages_and_without_a_bias(make_m2m100, tmp_path, kind):
    folder, path = imported(make_m2m100, tmp_path, kind)
    _, english, french = CODES[kind]
    export_tuned(path, tmp_path)
    names = sorted(p.name for p in folder.iterdir())
    assert names == sorted(p.name for p in (tmp_path / "exported").iterdir())
    rows, tuned = rows_of(path), load_bundle(tmp_path / "tuned")
    src = [*tuned.src_tokenizer.tagged(tuned.config.decode.tag).encode(SENTENCES[1]), 3]
    tgt = tuned.tgt_tokenizer.encode("Le chat")
    language = row_of_language(folder, kind, french)
    assert rows[src[0]] == row_of_language(folder, kind, english)
    reference = Reference(load_file(tmp_path / "exported" / "model.safetensors"))
    expected = reference.logits([rows[i] for i in src], [2, language, *(rows[i] for i in tgt)])[1:]
    logits = tuned.model(torch.tensor([src]), torch.tensor([[2, *tgt]]))[0]
    comparable = [i for i in range(len(rows)) if i not in (0, 2)]  # mtkit never chooses pad and <start>
    torch.testing.assert_close(logits[:, comparable], expected[:, [rows[i] for i in comparable]], atol=1e-4, rtol=0)
    huggingface.import_model(tmp_path / "exported", tmp_path / "again")
    before, again = (load_file(tmp_path / name / "model.safetensors") for name in ("tuned", "again"))
    assert before.keys() == again.keys()
    kept = [i for i, row in enumerate(rows) if i == 2 or (row >= 0 and rows.index(row) == i)]  # others share a row
    for name, old in before.items():
        new = again[name].clamp(min=-30)  # the lowest bias in training: an import bans with less
        assert torch.equal(old[kept], new[kept]) if len(old) == len(rows) else torch.equal(old, new), name
    with pytest.raises(MtkitError, match=r"config\.json: tie_word_embeddings: false .*--tgt-lang"):
        huggingface.import_model(tmp_path / "exported", tmp_path / "german", Languages("en", "de"))


def test_languages_are_listed_and_chosen_by_any_code_that_means_them(make_m2m100, tmp_path):
    _, bundle = imported(make_m2m100, tmp_path, codes=["deu_Latn", "eng_Latn", "fra_Latn", "zho_Hans", "zho_Hant"])
    config = read_bundle(bundle).config
    assert (config.data.src_lang, config.data.tgt_lang) == ("eng_Latn", "fra_Latn")
    assert config.decode.tag == "<lang:eng_Latn>"
    other = read_bundle(bundle, ["decode.src_lang=fr", "decode.tgt_lang=de"]).config
    assert (other.data.src_lang, other.data.tgt_lang, other.decode.tag) == ("fra_Latn", "deu_Latn", "<lang:fra_Latn>")
    with pytest.raises(BundleError, match=r"decode\.tgt_lang \(--tgt-lang\): .*no language es; it has deu_Latn, "):
        read_bundle(bundle, ["decode.tgt_lang=es"])
    with pytest.raises(BundleError, match="zh can mean zho_Hans or zho_Hant"):
        read_bundle(bundle, ["decode.tgt_lang=zh"])
    done = CliRunner().invoke(app, ["--quiet", "inspect", "model", "--model", str(bundle)])
    assert done.exit_code == 0, done.output
    assert "--tgt-lang: deu_Latn eng_Latn fra_Latn zho_Hans zho_Hant" in done.stdout


def test_translate_takes_the_languages_and_text_cannot_name_them(make_m2m100, tmp_path):
    _, bundle = imported(make_m2m100, tmp_path)
    command = ["--quiet", "translate", "--model", str(bundle), "--engine", "native", "I love it."]
    choices = [[], ["--tgt-lang", "de"], ["--src-lang", "de", "--tgt-lang", "de"]]
    texts = [CliRunner().invoke(app, [*command, *choice]) for choice in choices]
    assert [done.exit_code for done in texts] == [0, 0, 0], [done.output for done in texts]
    assert len({done.stdout for done in texts}) == 3
    tokenizer = read_bundle(bundle).src_tokenizer
    language = tokenizer.piece_ids(["<lang:deu_Latn>"])
    assert not {*language} & {*tokenizer.encode("<lang:deu_Latn> I love oranges.")}
    assert tokenizer.decode(language) == ""


def test_another_process_decodes_in_the_chosen_language(make_m2m100, tmp_path):
    _, bundle = imported(make_m2m100, tmp_path)
    decode = read_bundle(bundle, ["decode.tgt_lang=de"]).config.decode
    engine: Any = NativeInWorker((bundle,), decode)()
    expected = load_bundle(bundle, ["decode.tgt_lang=de"]).model.tgt_embedding.weight
    assert torch.equal(engine.models[0].tgt_embedding.weight, expected)
    assert not torch.equal(load_bundle(bundle).model.tgt_embedding.weight, expected)


def test_training_starts_from_the_token_of_its_own_target_language(make_m2m100, tmp_path):
    folder, path = imported(make_m2m100, tmp_path)
    model = load_bundle(path).model.new_like()
    load_start(path, model, tgt_lang="de")
    table = load_file(folder / "model.safetensors")["model.shared.weight"]
    assert torch.equal(model.tgt_embedding.weight[2], table[row_of_language(folder, "nllb", "deu_Latn")])


def test_a_model_of_one_direction_refuses_other_languages(make_native, tmp_path):
    bundle = make_native(tmp_path / "bundle", "decoder")
    data = read_bundle(bundle).config.data
    assert read_bundle(bundle, [f"decode.src_lang={data.src_lang}"]).config.data == data
    with pytest.raises(
        BundleError, match=rf"decode\.tgt_lang \(--tgt-lang\): zu, .*from {data.src_lang} to {data.tgt_lang}"
    ):
        read_bundle(bundle, ["decode.tgt_lang=zu"])


def test_the_usual_direction_must_be_given_once(make_m2m100, tmp_path):
    folder = make_m2m100(tmp_path / "hf")
    with pytest.raises(MtkitError, match=r"3 languages; .*--src-lang and --tgt-lang .*deu_Latn, eng_Latn, fra_Latn"):
        huggingface.import_model(folder, tmp_path / "bundle")
    with pytest.raises(MtkitError, match="no language it"):
        huggingface.import_model(folder, tmp_path / "bundle", Languages("en", "it"))
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize("names", ["tokenizer.json", "special_tokens_map.json", "as objects"])
def test_the_tokens_of_languages_are_found_where_the_published_folders_have_them(make_m2m100, tmp_path, names):
    folder = make_m2m100(tmp_path / "hf")
    path = folder / "tokenizer_config.json"
    options = json.loads(path.read_text())
    added = options.pop("added_tokens_decoder")
    if names == "tokenizer.json":
        entries = [{"id": int(row), **token} for row, token in added.items()]
        (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": entries}))
        options["additional_special_tokens"] = [*reversed(CODES["nllb"])]  # the ids count, not the order
    elif names == "as objects":
        lists = {"additional_special_tokens": [{"content": code} for code in CODES["nllb"]]}
        (folder / "special_tokens_map.json").write_text(json.dumps(lists))
    path.write_text(json.dumps(options))
    huggingface.import_model(folder, tmp_path / "bundle", Languages("en", "fr"))
    [row] = read_bundle(tmp_path / "bundle").tgt_tokenizer.piece_ids(["<lang:fra_Latn>"])
    assert rows_of(tmp_path / "bundle")[row] == row_of_language(folder, "nllb", "fra_Latn")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"activation_function": "gelu_new"}, 'activation_function: "gelu_new"'),
        ({"scale_embedding": False}, "scale_embedding: false"),
        ({"decoder_start_token_id": 0}, "decoder_start_token_id: 0 .*only 2"),
        ({"eos_token_id": 5}, "eos_token_id: 5"),
        ({"model_type": "nllb-moe"}, 'model_type: "nllb-moe"'),
        ({"encoder_layers": 3}, r"model\.encoder\.layers\.2"),
        ({"codes": []}, r"tokenizer_config\.json, .* languages"),
    ],
)
def test_a_config_that_is_not_supported_is_named(make_m2m100, tmp_path, changes, message):
    with pytest.raises(MtkitError, match=message):
        imported(make_m2m100, tmp_path, "m2m_100", **changes)
    assert not (tmp_path / "bundle").exists()


def shortened(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.shared.weight"] = tensors["model.shared.weight"][:50].clone()
    save_file(tensors, folder / "model.safetensors")


def without_pieces(folder: Path, every: int) -> None:
    """Take every n-th piece out of vocab.json; the rows then belong to fewer names, as in a mixed-up folder."""
    names = [*json.loads((folder / "vocab.json").read_text())]
    kept = [name for row, name in enumerate(names) if row < 4 or row % every]
    (folder / "vocab.json").write_text(json.dumps({name: row for row, name in enumerate(kept)}))
    tensors = load_file(folder / "model.safetensors")
    tensors["model.shared.weight"] = tensors["model.shared.weight"][len(names) - len(kept) :].clone()
    save_file(tensors, folder / "model.safetensors")


def with_positions(folder: Path, table: Tensor) -> None:
    both = {f"model.{side}.embed_positions.weights": table.clone() for side in ("encoder", "decoder")}
    save_file({**load_file(folder / "model.safetensors"), **both}, folder / "model.safetensors")


def as_pickle(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Path("code"), protocol=4))  # torch warns of the protocol


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (as_pickle, r"pytorch_model\.bin: refused.*UnpicklingError"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\xff" * 99), r"model\.safetensors: .*damaged"),
        (shortened, r"vocab\.json: \d+ pieces and added tokens, .* 50 rows"),
        (lambda folder: without_pieces(folder, 5), r"vocab\.json: .*\(\d+\.\d%\) have no row"),
        (lambda folder: with_positions(folder, sinusoid_table(40, D)), r"embed_positions\.weights"),
        (
            lambda folder: (folder / "sentencepiece.bpe.model").unlink(),
            r"sentencepiece\.bpe\.model: No such file; copy",
        ),
        (lambda folder: (folder / "vocab.json").write_text('{"<s>": "0"}'), r"vocab\.json: "),
    ],
)
def test_files_that_cannot_be_used_are_named(make_m2m100, tmp_path, damage, message):
    folder = make_m2m100(tmp_path / "hf", "m2m_100")
    damage(folder)
    with pytest.raises(MtkitError, match=message):
        huggingface.import_model(folder, tmp_path / "bundle", Languages("en", "fr"))
    assert not (tmp_path / "bundle").exists()


def test_stored_positions_are_compared_from_the_second_row_on(make_m2m100, tmp_path):
    folder = make_m2m100(tmp_path / "hf")
    table = sinusoid_table(3000, D, marian=True)  # longer than the texts that the model was trained on
    table[1] = 0.0  # the row of padding
    with_positions(folder, table)
    huggingface.import_model(folder, tmp_path / "bundle", Languages("en", "fr"))
    assert read_bundle(tmp_path / "bundle").config.model.positions == "fairseq"


def test_text_longer_than_the_model_was_trained_on_is_split(make_m2m100, tmp_path):
    _, bundle = imported(make_m2m100, tmp_path, max_position_embeddings=64)
    decode = read_bundle(bundle).config.decode
    assert (decode.max_src_tokens, decode.max_len) == (63, 63)


def test_a_gap_between_added_tokens_is_refused(make_m2m100, tmp_path):
    folder = make_m2m100(tmp_path / "hf")
    path = folder / "tokenizer_config.json"
    options = json.loads(path.read_text())
    options["added_tokens_decoder"].pop(str(row_of_language(folder, "nllb", "eng_Latn")))
    path.write_text(json.dumps(options))
    with pytest.raises(DataError, match="fra_Latn has the id"):
        huggingface.import_model(folder, tmp_path / "bundle", Languages("de", "fr"))


def test_formats_that_cannot_hold_the_model_refuse_it(make_m2m100, tmp_path):
    _, path = imported(make_m2m100, tmp_path)
    bundle = load_bundle(path)
    targets: tuple[Target, ...] = ("marian", "bergamot", "page")
    for target in targets:
        [problem] = export_problems(bundle.config.model, target)
        assert "end_first" in problem
        assert "--to hf, --to ctranslate2, --to argos" in problem
    larger = extend(bundle, [Pair("The kubernetes.", "Le kubernetes.", "a.tmx", 1)] * 9, 20, tmp_path / "larger")
    with pytest.raises(MtkitError, match="--new-pieces"):
        huggingface.export_bundle(larger.folder, tmp_path / "exported")
