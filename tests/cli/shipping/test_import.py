"""`mtkit import`: recognise the format, write a bundle that translates, and report what is wrong."""

import struct

import numpy as np
import pytest
from fixtures.npz import read_npz
from typer.testing import CliRunner

from mtkit.cli import app


def run(*arguments: object):
    return CliRunner().invoke(app, ["--quiet", *map(str, arguments)])


def test_an_npz_model_becomes_a_bundle_that_translates_and_goes_back(make_marian, tmp_path):
    path, bundle = make_marian(tmp_path / "marian"), tmp_path / "bundle"
    renamed = path.rename(path.with_name("model"))  # the format is recognised by content
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
    before, after = read_npz(renamed), read_npz(tmp_path / "exported" / "model.npz")
    assert all(np.array_equal(before[name], after[name]) for name in before if "special" not in name)


def test_vocabularies_can_be_named(make_marian, tmp_path):
    path = make_marian(tmp_path / "marian")
    path.with_name("model.npz.decoder.yml").unlink()
    src, tgt = path.with_name("src.spm"), path.with_name("tgt.spm")
    done = run("import", path, "--out", tmp_path / "bundle", "--src-vocab", src, "--tgt-vocab", tgt)
    assert done.exit_code == 0, done.stderr
    without = run("import", path, "--out", tmp_path / "another")
    assert f"{path}: " in without.stderr and "--src-vocab FILE --tgt-vocab FILE" in without.stderr


def test_the_current_folder_is_not_replaced(make_marian, tmp_path, monkeypatch):
    path = make_marian(tmp_path / "marian")
    (tmp_path / "new").mkdir()
    monkeypatch.chdir(tmp_path / "new")
    done = run("import", path, "--out", ".")
    assert done.exit_code == 2
    assert "--out .: " in done.stderr


def test_a_folder_with_content_is_left_alone(make_marian, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "precious").touch()
    done = run("import", make_marian(tmp_path / "marian"), "--out", tmp_path / "models")
    assert done.exit_code == 2
    assert "models: already exists" in done.stderr
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["precious"]


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"\x93NUMPY\x01\x00", "numpy"),
        (b"<html>", "b'<html>'"),
        (b"", ".npz"),
        (b"PK\x03\x04", ".npz"),
        (None, "no such file"),
    ],
)
def test_another_file_is_refused(tmp_path, content, fact):
    path = tmp_path / "model.npz"
    if content is not None:
        path.write_bytes(content)
    done = run("import", path, "--out", tmp_path / "bundle")
    assert done.exit_code == 1
    assert f"{path}: " in done.stderr and fact in done.stderr


def test_a_folder_without_a_model_is_refused(tmp_path):
    done = run("import", tmp_path, "--out", tmp_path / "bundle")
    assert done.exit_code == 1
    assert f"{tmp_path}: " in done.stderr and "config.json" in done.stderr and ".bin" in done.stderr


def test_a_model_of_mtkit_is_not_imported_again(make_native, tmp_path):
    bundle = make_native(tmp_path / "native", "all")
    done = run("import", bundle, "--out", tmp_path / "bundle")
    assert done.exit_code == 1
    assert f"{bundle}: already a model of mtkit" in done.stderr and f"--model {bundle}" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--src-lang", "en"], "--tgt-lang"),
        (["--tgt-vocab", "a.spm"], "--src-vocab"),
        (["--src-spm", "a.spm"], "--src-vocab"),
    ],
)
def test_options_that_do_not_fit_are_refused(make_marian, tmp_path, arguments, message):
    done = run("import", make_marian(tmp_path / "marian"), "--out", tmp_path / "bundle", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_folder_of_ctranslate2_without_its_vocabulary_is_recognised(tmp_path):
    (tmp_path / "config.json").write_text('{"unk_token": "<unk>"}')
    name, weight = b"TransformerSpec\0", b"encoder/layer_norm/gamma\0"
    variable = struct.pack("<H", len(weight)) + weight + struct.pack("<BIBIf", 1, 1, 0, 4, 1.0)
    model = struct.pack("<IH", 6, len(name)) + name + struct.pack("<II", 7, 1) + variable + struct.pack("<I", 0)
    (tmp_path / "model.bin").write_bytes(model)
    (tmp_path / "sentencepiece.model").touch()
    done = run("import", tmp_path, "--out", tmp_path / "bundle")
    assert done.exit_code == 1
    assert f"{tmp_path}: contains neither shared_vocabulary.json nor source_vocabulary.json" in done.stderr


def test_a_hugging_face_folder_brings_its_own_vocabularies(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    done = run("import", tmp_path, "--out", tmp_path / "bundle", "--src-vocab", "a.spm")
    assert done.exit_code == 2
    assert f"{tmp_path}: " in done.stderr and "--src-vocab" in done.stderr
    done = run("import", tmp_path, "--out", tmp_path / "bundle")
    assert done.exit_code == 1
    assert "model.safetensors" in done.stderr and "pytorch_model.bin" in done.stderr
