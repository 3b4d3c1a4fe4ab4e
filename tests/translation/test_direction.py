"""Text that is not in a model's source language: a warning when translating, an error for training text."""

import shutil

import numpy as np
import pytest
from tiny_corpus import WORDS
from typer.testing import CliRunner

from mtkit.bundle import add_to_bundle, read_bundle, save_bundle
from mtkit.cli import app
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.data.sides import FILE, Resemblance, save_counts
from mtkit.errors import DataError
from mtkit.model.transformer import Transformer
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer
from mtkit.translation.direction import check_source_text, sides_of
from mtkit.translation.translator import Translator

ENGLISH, FRENCH = [" ".join(WORDS)], [" ".join(WORDS.values())]


@pytest.fixture(scope="module")
def files(shared_bundle, tmp_path_factory):
    """A bundle whose source tokenizer has learned English words, and its target tokenizer French ones."""
    folder = tmp_path_factory.mktemp("direction")
    for name, text in (("src", ENGLISH), ("tgt", FRENCH)):
        train_tokenizer(text * 50, TokenizerConfig(vocab_size=290), folder / f"{name}.spm")
    cfg = read_bundle(shared_bundle).config
    cfg = cfg.model_copy(update={"data": cfg.data.model_copy(update={"src_lang": "en", "tgt_lang": "fr"})})
    sizes = [Tokenizer.load(folder / f"{side}.spm").vocab_size for side in ("src", "tgt")]
    weights = Transformer(cfg.model, *sizes).state_dict()
    save_bundle(folder / "model", weights, cfg, folder / "src.spm", folder / "tgt.spm", training={})
    return read_bundle(folder / "model", ["decode.beam_size=1", "decode.max_len=3", "decode.on_suspect=off"])


def test_translating_target_text_warns_once_with_numbers(files, caplog):
    translator = Translator.from_bundles([files])
    translator.translate(FRENCH * 3)
    [warning] = [message for message in caplog.messages if "looks like" in message]
    assert "target language (fr), not its source language (en)" in warning
    assert "15 of 15 words" in warning
    assert str(files.folder) in warning


def test_a_typed_sentence_in_a_third_language_is_noticed_but_refuses_no_job(with_counts, caplog):
    Translator.from_bundles([with_counts]).translate(["жили были дед и"])
    assert "hard to predict" not in caplog.text
    Translator.from_bundles([with_counts]).translate(["жили были дед и баба"])
    assert "times as hard to predict" in caplog.text
    check_source_text("short.txt", ["жили были дед и баба"], with_counts)


def test_text_on_another_subject_is_noticed_once_but_refuses_no_job(files, caplog, monkeypatch):
    monkeypatch.setattr(Resemblance, "foreignness", 2.0)  # below what another language has
    text = ENGLISH * 6
    assert len(" ".join(text).split()) >= 30
    translator = Translator.from_bundles([files])
    session = translator.session()
    session.translate(text)
    session.translate(text)
    [warning] = [message for message in caplog.messages if "unlike the training text" in message]
    assert "2.0 times as hard" in warning and "en-fr" in warning and str(files.folder) in warning
    check_source_text("other.txt", text, files)


def test_a_translator_reads_the_sides_of_its_model_once(files, caplog, monkeypatch):
    read = []
    monkeypatch.setattr("mtkit.translation.reading.sides_of", lambda of: read.append(of) or sides_of(of))
    translator = Translator.from_bundles([files])
    translator.translate(ENGLISH)
    translator.translate(FRENCH * 3)
    translator.translate(FRENCH * 3)
    assert read == [files]
    assert len([message for message in caplog.messages if "15 of 15 words" in message]) == 2  # each text by itself


def test_an_ensemble_looks_at_its_first_model(files, caplog):
    Translator.from_bundles([files, files]).translate(FRENCH * 3)
    assert len([message for message in caplog.messages if "looks like" in message]) == 1


def test_live_translation_warns_too(files, caplog, monkeypatch):
    monkeypatch.setattr("mtkit.console.set_up_logging", lambda quiet: None)  # or caplog sees nothing
    result = CliRunner().invoke(app, ["translate", "--model", str(files.folder), "--live", *FRENCH * 2])
    assert result.exit_code == 0, result.output
    assert len([message for message in caplog.messages if "looks like" in message]) == 1


@pytest.mark.parametrize("text", [ENGLISH, ["un chat"], ["12"], [""]])
def test_other_text_does_not(files, caplog, text):
    Translator.from_bundles([files]).translate(text)
    assert not [message for message in caplog.messages if "looks like" in message]


def test_training_text_of_the_target_language_is_refused(files):
    check_source_text("mono.en", ENGLISH * 10, files)
    check_source_text("short.txt", FRENCH, files)  # a few words are too few to refuse a job
    with pytest.raises(DataError, match=r"mono\.fr: .*\(fr\).*50 of 50 words"):
        check_source_text("mono.fr", FRENCH * 10, files)


@pytest.fixture
def with_counts(shared_bundle, tmp_path):
    """A bundle whose counts know one source sentence."""
    folder = tmp_path / "with-counts"
    shutil.copytree(shared_bundle, folder)
    tokenizer = read_bundle(folder).src_tokenizer
    counts = np.ones(tokenizer.vocab_size, np.int64)
    counts[tokenizer.encode("a dog sees")] = 1000
    add_to_bundle(folder, FILE, lambda path: save_counts(path, counts, counts))
    return read_bundle(folder, ["decode.beam_size=1", "decode.on_suspect=off", "decode.max_len=40"])


def test_counts_in_the_bundle_tell_the_sides_of_a_shared_tokenizer(shared_bundle, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(shared_bundle, folder)
    tokenizer = read_bundle(folder).src_tokenizer
    check_source_text("unknown.txt", ["a dog sees"] * 50, read_bundle(folder))  # without counts: no verdict
    counts = [[1] * tokenizer.vocab_size for _ in range(2)]
    for token_id in tokenizer.encode("a dog sees"):
        counts[1][token_id] = 1000
    arrays = [np.array(side, np.int64) for side in counts]
    add_to_bundle(folder, FILE, lambda path: save_counts(path, *arrays))
    with pytest.raises(DataError, match=r"dogs\.txt: .*target language"):
        check_source_text("dogs.txt", ["a dog sees"] * 50, read_bundle(folder))
    add_to_bundle(folder, FILE, lambda path: save_counts(path, arrays[1], arrays[1]))
    with pytest.raises(DataError, match=r"mono\.ru: .*times as hard to predict"):
        check_source_text("mono.ru", ["жили были дед и баба"] * 10, read_bundle(folder))
