"""M2M-100 and NLLB as CTranslate2 folders and Argos packages: what CTranslate2 computes, languages, and the way back.

The oracle is the architecture written down again in plain torch, and CTranslate2 called as its documentation says.
"""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
from fixtures.ctranslate2_folders import WIDTH, write_folder
from fixtures.interop import ENGLISH, FRENCH
from fixtures.m2m100 import CODES, FIRST, KINDS, Reference
from safetensors.torch import load_file

from mtkit.bundle import load_bundle, read_bundle, save_bundle
from mtkit.engines.choose import choose_engine
from mtkit.engines.ctranslate2 import CTranslate2Engine
from mtkit.engines.native import NativeEngine
from mtkit.errors import MtkitError
from mtkit.interop import argos
from mtkit.interop.ctranslate2 import export
from mtkit.interop.ctranslate2 import folder as ctranslate2
from mtkit.interop.huggingface import folder as huggingface
from mtkit.interop.imported import Languages
from mtkit.interop.parity import ComparedText, Tolerance
from mtkit.tokens.tokenizer import language_piece
from mtkit.translation.translator import Translator

library = pytest.importorskip("ctranslate2", reason="the extra `fast` is not installed")

TOKENS = {"m2m_100": ("__de__", "__en__", "__fr__"), "nllb": ("deu_Latn", "eng_Latn", "fra_Latn")}
TOLERANCE = Tolerance(0.5, 1e-3, 0.1)


def imported(make_m2m100, tmp_path: Path, kind: str = "nllb") -> tuple[Path, Path]:
    """Return a folder of Hugging Face and its bundle, which translates from English to French."""
    folder = make_m2m100(tmp_path / "hf", kind)
    huggingface.import_model(folder, tmp_path / "bundle", Languages("en", "fr"))
    return folder, tmp_path / "bundle"


def tuned(bundle: Path, folder: Path) -> Path:
    """Return a bundle whose weights differ, also that of <start>, which training changes for the target language."""
    files = load_bundle(bundle)
    with torch.no_grad():
        for name, weight in files.model.named_parameters():
            if name != "output.bias":
                weight.add_(0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(2)))
    save_bundle(folder, files.model.state_dict(), files.config, bundle / "src.spm", bundle / "tgt.spm", training={})
    return folder


def exported(bundle: Path, out: Path) -> Path:
    files = read_bundle(bundle)
    parity = export.export_bundle(files, out, "float32", [tagged(files)], TOLERANCE, 1)
    assert parity.score_difference_max < 1e-4
    return out


def tagged(files: Any) -> ComparedText:
    return ComparedText("lines", files.config.decode.tag, ENGLISH[:2], None)


def same_weights(one: Path, other: Path) -> bool:
    before, after = (load_file(path / "model.safetensors") for path in (one, other))
    return before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("kind", KINDS)
def test_ctranslate2_gives_translations_the_probabilities_of_the_architecture(make_m2m100, tmp_path, kind):
    folder, bundle = imported(make_m2m100, tmp_path, kind)
    out = exported(bundle, tmp_path / "out")
    german, english, french = TOKENS[kind]
    spm = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    names = [*FIRST, *(spm.id_to_piece(n) for n in range(3, len(spm)))]
    rows = {name: row for row, name in enumerate([*names, *TOKENS[kind]])}
    reference, translator = Reference(load_file(folder / "model.safetensors")), library.Translator(str(out), "cpu")
    for target in (french, german):
        src, tgt = [english, *spm.encode(ENGLISH[1], out_type=str), "</s>"], spm.encode(FRENCH[1], out_type=str)
        src_ids, tgt_ids = ([rows.get(name, 3) for name in side] for side in (src, [target, *tgt, "</s>"]))
        logits = reference.logits(src_ids, [2, *tgt_ids[:-1]])
        expected = logits.log_softmax(-1)[range(1, len(tgt_ids)), tgt_ids[1:]]
        [scored] = translator.score_batch([src], [[target, *tgt]])
        assert scored.log_probs[1:] == pytest.approx(expected.tolist(), abs=1e-3)
    readme = (out / "README.md").read_text()
    assert f"`{english}`" in readme
    assert f'target_prefix=[["{french}"]]' in readme


@pytest.mark.parametrize("kind", KINDS)
def test_the_engine_searches_like_the_native_one_in_each_language(make_m2m100, tmp_path, kind):
    _, bundle = imported(make_m2m100, tmp_path, kind)
    export.export_bundle(read_bundle(bundle), None, "float32", [tagged(read_bundle(bundle))], TOLERANCE, 1)
    found = set()
    for code in (CODES[kind][2], CODES[kind][0]):
        for options in (["beam_size=1", "min_len=4"], ["beam_size=4"]):
            options += ["max_len=12", "on_suspect=off", "engine=ctranslate2"]
            files = read_bundle(bundle, [f"decode.{option}" for option in (*options, f"tgt_lang={code}")])
            exact = load_bundle(bundle, [f"decode.tgt_lang={code}"])
            decode = files.config.decode
            engines = choose_engine([files], "cpu", 1), NativeEngine([exact.model])
            assert isinstance(engines[0], CTranslate2Engine)
            tokenizers = files.src_tokenizer, files.tgt_tokenizer
            each = [[n[0] for n in Translator(one, *tokenizers, decode).search(ENGLISH[:3])] for one in engines]
            assert [one.text for one in each[0]] == [one.text for one in each[1]]
            assert [one.log_prob for one in each[0]] == pytest.approx([one.log_prob for one in each[1]], abs=1e-3)
            found.add(tuple(round(one.log_prob, 1) for one in each[0]))
    assert len(found) > 1  # the language matters


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_comes_back_bit_for_bit_and_in_other_languages(make_m2m100, tmp_path, kind):
    _, bundle = imported(make_m2m100, tmp_path, kind)
    out = exported(bundle, tmp_path / "out")
    with pytest.raises(MtkitError, match=f"--tgt-lang .*{CODES[kind][0]}"):
        ctranslate2.import_model(out, tmp_path / "again")
    ctranslate2.import_model(out, tmp_path / "again", Languages("en", "fr"))
    assert same_weights(bundle, tmp_path / "again")
    assert read_bundle(tmp_path / "again").src_tokenizer.fingerprint == read_bundle(bundle).src_tokenizer.fingerprint
    ctranslate2.import_model(out, tmp_path / "german", Languages("en", "de"))
    expected = load_bundle(bundle, ["decode.tgt_lang=de"]).model.tgt_embedding.weight
    assert torch.equal(load_bundle(tmp_path / "german").model.tgt_embedding.weight, expected)


def sinusoids(n_positions: int, width: int) -> np.ndarray:
    """fairseq's encodings of the tokens of a line, whose first position is 2."""
    rates = [1 / 10000 ** (i / (width / 2 - 1)) for i in range(width // 2)]
    angles = np.outer(np.arange(2, n_positions + 2), rates)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def as_the_converter(spec: Any) -> None:
    """Tie all embeddings, as the converter of transformers' models does for M2M-100."""
    spec.decoder.embeddings.weight = spec.decoder.projection.weight = spec.encoder.embeddings[0].weight
    for side in (spec.encoder, spec.decoder):
        side.position_encodings.encodings = sinusoids(64, WIDTH)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_ctranslate2s_converter_keeps_its_probabilities_in_each_language(train_spm, tmp_path, kind):
    german, english, french = TOKENS[kind]
    spm = train_spm(ENGLISH + FRENCH)
    tokenizer = sentencepiece.SentencePieceProcessor(model_proto=spm)
    names = [*FIRST, *(tokenizer.id_to_piece(n) for n in range(3, len(tokenizer))), *TOKENS[kind], "madeupword0"]
    config = {"bos_token": "<s>", "decoder_start_token": "</s>"}
    folder = write_folder(tmp_path / "folder", spm, change=as_the_converter, names=names, config=config)
    ctranslate2.import_model(folder, tmp_path / "bundle", Languages("en", "fr"))
    translator = library.Translator(str(folder), "cpu")
    for target, code in ((french, "fr"), (german, "de")):
        loaded = load_bundle(tmp_path / "bundle", [f"decode.tgt_lang={code}"])
        assert (loaded.config.model.positions, loaded.config.model.end_first) == ("fairseq", True)
        src_tokenizer = loaded.src_tokenizer.tagged(loaded.config.decode.tag)
        for src, tgt in zip(ENGLISH[:4], FRENCH[:4], strict=True):
            ids = [*loaded.tgt_tokenizer.encode(tgt), 3]
            with torch.no_grad():
                logits = loaded.model(torch.tensor([[*src_tokenizer.encode(src), 3]]), torch.tensor([[2, *ids[:-1]]]))
            own = float(logits[0].log_softmax(-1)[range(len(ids)), ids].sum())
            pieces = [english, *tokenizer.encode(src, out_type=str), "</s>"]
            [scored] = translator.score_batch([pieces], [[target, *tokenizer.encode(tgt, out_type=str)]])
            assert own == pytest.approx(sum(scored.log_probs[1:]), abs=1e-3)


def test_the_token_of_the_target_language_has_what_training_gave_the_start(make_m2m100, tmp_path):
    _, bundle = imported(make_m2m100, tmp_path)
    model = tuned(bundle, tmp_path / "tuned")
    out = exported(model, tmp_path / "out")
    assert json.loads((out / "shared_vocabulary.json").read_text())[2] == "fra_Latn"
    weight = load_bundle(model).model.tgt_embedding.weight
    [language] = read_bundle(model).tgt_tokenizer.piece_ids([language_piece("fra_Latn")])
    assert not torch.equal(weight[language], weight[2])
    ctranslate2.import_model(out, tmp_path / "again", Languages("en", "fr"))
    assert same_weights(model, tmp_path / "again")
    assert read_bundle(tmp_path / "again").src_tokenizer.fingerprint == read_bundle(model).src_tokenizer.fingerprint


def test_argos_translate_gets_the_translations_without_knowing_of_languages(make_m2m100, tmp_path):
    _, path = imported(make_m2m100, tmp_path)
    bundle, out = load_bundle(path), tmp_path / "en_fr.argosmodel"
    argos.export_bundle(bundle, out, "float32", [tagged(bundle)], TOLERANCE, 1)
    with zipfile.ZipFile(out) as archive:
        [root] = {name.split("/")[0] for name in archive.namelist()}
        archive.extractall(tmp_path)
    package = tmp_path / root
    metadata = json.loads((package / "metadata.json").read_text())
    assert (metadata["from_code"], metadata["to_code"], metadata["from_name"]) == ("en", "fr", "English")
    # what argostranslate 1.11 does with a sentence, but greedily
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(package / "sentencepiece.model"))
    engine = library.Translator(str(package / "model"), "cpu")
    pieces = [tokenizer.encode(line, out_type=str) for line in ENGLISH[:4]]
    prefix = [[metadata["target_prefix"]]] * len(pieces)
    found = engine.translate_batch(
        pieces, target_prefix=prefix, replace_unknowns=True, beam_size=1, max_decoding_length=18
    )
    texts = [tokenizer.decode_pieces(one.hypotheses[0]) for one in found]
    decode = bundle.config.decode.model_copy(update={"beam_size": 1, "max_len": 16, "on_suspect": "off"})
    translator = Translator(NativeEngine([bundle.model]), bundle.src_tokenizer, bundle.tgt_tokenizer, decode)
    assert texts == [n_best[0].text for n_best in translator.search(ENGLISH[:4])]

    argos.import_model(out, tmp_path / "again")
    assert same_weights(path, tmp_path / "again")
    data = read_bundle(tmp_path / "again").config.data
    assert (data.src_lang, data.tgt_lang) == ("eng_Latn", "fra_Latn")


@pytest.mark.parametrize("direction", [("eng_Latn", "zho_Hans"), ("zho_Hant", "eng_Latn")])
def test_a_package_names_the_kind_of_chinese_by_its_tokens(make_m2m100, tmp_path, direction):
    folder = make_m2m100(tmp_path / "hf", codes=["deu_Latn", "eng_Latn", "fra_Latn", "zho_Hans", "zho_Hant"])
    huggingface.import_model(folder, tmp_path / "bundle", Languages(*direction))
    bundle, out = load_bundle(tmp_path / "bundle"), tmp_path / "package.argosmodel"
    argos.export_bundle(bundle, out, "float32", [tagged(bundle)], TOLERANCE, 1)
    argos.import_model(out, tmp_path / "again")
    data = read_bundle(tmp_path / "again").config.data
    assert (data.src_lang, data.tgt_lang) == direction


def test_another_model_of_many_languages_is_refused(train_spm, tmp_path):
    spm = train_spm(ENGLISH + FRENCH)
    tokenizer = sentencepiece.SentencePieceProcessor(model_proto=spm)
    many = [f"__{code}__" for code in ("aa", "ab", "af", "am", "ar", "az", "be", "bg", "bn", "bs", "ca")]
    names = ["<unk>", "<blank>", "<s>", "</s>", *(tokenizer.id_to_piece(n) for n in range(3, len(tokenizer))), *many]
    folder = write_folder(tmp_path / "folder", spm, names=names)
    with pytest.raises(MtkitError, match="many languages whose decoder starts from <s>"):
        ctranslate2.import_model(folder, tmp_path / "bundle")
    few = write_folder(tmp_path / "few", spm)
    with pytest.raises(MtkitError, match=r"many languages \(target_prefix: __fr__\) whose decoder starts from <s>"):
        ctranslate2.import_model(few, tmp_path / "bundle", target_prefix="__fr__")
    assert not (tmp_path / "bundle").exists()
