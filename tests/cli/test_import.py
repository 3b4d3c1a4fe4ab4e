"""`mtkit import`: it sees what a model is, makes a bundle that translates, and says what is wrong."""

import numpy as np
import pytest
from typer.testing import CliRunner

from mtkit.cli import app


def run(*arguments: object):
    return CliRunner().invoke(app, ["--quiet", *map(str, arguments)])


def test_an_npz_model_becomes_a_bundle_that_translates_and_goes_back(make_marian, tmp_path):
    path, bundle = make_marian(tmp_path / "marian"), tmp_path / "bundle"
    renamed = path.rename(path.with_name("model"))  # its content tells what it is
    path.with_name("model.npz.decoder.yml").rename(path.with_name("model.decoder.yml"))
    done = run("import", renamed, "--out", bundle, "--src-lang", "en", "--tgt-lang", "fr")
    assert (done.exit_code, done.stdout) == (0, f"{bundle}\n"), done.stderr
    text = (bundle / "config.yaml").read_text()
    assert "src_lang: en" in text
    assert "tgt_lang: fr" in text
    settings = ["--set", "decode.on_suspect=off", "--set", "decode.max_len=8"]
    translated = run("translate", "I love oranges.", "", "--model", bundle, "--device", "cpu", *settings)
    assert translated.exit_code == 0, translated.stderr
    assert translated.stdout.count("\n") == 2
    exported = run("export", "--to", "marian", "--model", bundle, "--out", tmp_path / "exported")
    assert exported.exit_code == 0, exported.stderr
    before, after = np.load(renamed), np.load(tmp_path / "exported" / "model.npz")
    assert all(np.array_equal(before[name], after[name]) for name in before.files if "special" not in name)


def test_vocabularies_can_be_named(make_marian, tmp_path):
    path = make_marian(tmp_path / "marian")
    path.with_name("model.npz.decoder.yml").unlink()
    src, tgt = path.with_name("src.spm"), path.with_name("tgt.spm")
    done = run("import", path, "--out", tmp_path / "bundle", "--src-vocab", src, "--tgt-vocab", tgt)
    assert done.exit_code == 0, done.stderr
    without = run("import", path, "--out", tmp_path / "another")
    assert "give the model's vocabularies: --src-vocab FILE --tgt-vocab FILE" in without.stderr


def test_the_folder_one_is_in_is_not_replaced(make_marian, tmp_path, monkeypatch):
    path = make_marian(tmp_path / "marian")
    (tmp_path / "new").mkdir()
    monkeypatch.chdir(tmp_path / "new")
    done = run("import", path, "--out", ".")
    assert done.exit_code == 2
    assert "--out .: the folder that you are in; give a new one" in done.stderr


def test_a_folder_that_holds_something_is_left_alone(make_marian, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "precious").touch()
    done = run("import", make_marian(tmp_path / "marian"), "--out", tmp_path / "models")
    assert done.exit_code == 2
    assert "models: exists and is not empty; give a new folder, or remove it first" in done.stderr
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["precious"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x93NUMPY\x01\x00", "neither an .npz nor a .bin model of Marian (a single numpy array)"),
        (b"<html>", "neither an .npz nor a .bin model of Marian (it starts with b'<html>')"),
        (b"", "neither an .npz nor a .bin model of Marian"),
        (b"PK\x03\x04", "not an .npz file, or a damaged one"),
        (None, "no such file or folder"),
    ],
)
def test_what_is_no_model_is_refused(tmp_path, content, message):
    path = tmp_path / "model.npz"
    if content is not None:
        path.write_bytes(content)
    done = run("import", path, "--out", tmp_path / "bundle")
    assert done.exit_code == 1
    assert f"{path}: {message}" in done.stderr


def test_a_folder_without_a_model_is_refused(tmp_path):
    done = run("import", tmp_path, "--out", tmp_path / "bundle")
    assert done.exit_code == 1
    assert "no model in it: neither Hugging Face's config.json nor a .bin of Marian" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--src-lang", "en"], "give both --src-lang and --tgt-lang, or neither"),
        (["--tgt-vocab", "a.spm"], "need --src-vocab, too"),
    ],
)
def test_options_that_do_not_fit_are_refused(make_marian, tmp_path, arguments, message):
    done = run("import", make_marian(tmp_path / "marian"), "--out", tmp_path / "bundle", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_hugging_face_folder_brings_its_own_vocabularies(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    done = run("import", tmp_path, "--out", tmp_path / "bundle", "--src-vocab", "a.spm")
    assert done.exit_code == 2
    assert "its vocabularies are those beside it: leave --src-vocab out" in done.stderr
    done = run("import", tmp_path, "--out", tmp_path / "bundle")
    assert done.exit_code == 1
    assert "neither model.safetensors nor pytorch_model.bin in it" in done.stderr
