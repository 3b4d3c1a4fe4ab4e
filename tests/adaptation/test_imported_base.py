"""An adaptation of a model of another system, which is imported first."""

import math
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_models import SRC, save_tiny_bundle, write_lines
from typer.testing import CliRunner

from mtkit.adaptation import adapt as adapting
from mtkit.bundle import read_bundle
from mtkit.cli import app
from mtkit.errors import DataError, MtkitError
from mtkit.interop import marian_vocabulary
from mtkit.interop.ctranslate2 import export as ctranslate2
from mtkit.interop.ctranslate2.folder import Tokenizers
from mtkit.interop.huggingface import folder as huggingface
from mtkit.interop.parity import ComparedText, Tolerance

pytestmark = pytest.mark.usefixtures("few_draws")


def mtkit(*args):
    return CliRunner().invoke(app, ["adapt", *map(str, args)])


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("opus/config.json", b"{}"),
        ("marian/model.npz", b"PK\x03\x04"),
        ("marian/any.name", b"PK\x03\x04"),
        ("marian/model.bin", (1).to_bytes(8, "little")),
        ("en_fr.argosmodel", b""),
    ],
)
def test_a_model_of_another_system_is_imported_first(tmp_path, monkeypatch, name, start):
    imported: list[Path] = []

    def import_model(path, out, src_lang, tgt_lang):
        imported.append(out)
        save_tiny_bundle(out, None)
        print(out)

    def adapt(folder, *_):
        raise DataError(f"adapting {folder}")

    monkeypatch.setattr("mtkit.cli.shipping.import_model.import_model", import_model)
    monkeypatch.setattr(adapting, "adapt", adapt)
    model = tmp_path / name
    model.parent.mkdir(exist_ok=True)
    model.write_bytes(start)
    memory = write_lines(tmp_path / "memory.tsv", ["a\tb"])
    for _ in range(2):
        result = mtkit(model.parent if name == "opus/config.json" else model, memory, "--out", tmp_path / "out")
        [base] = imported
        assert base.parent == tmp_path / "out"
        assert f"adapting {base}" in result.stderr and result.stdout == ""
    model.write_bytes(start + b"another model")
    mtkit(model.parent if name == "opus/config.json" else model, memory, "--out", tmp_path / "out")
    assert len({*imported}) == 2


def test_a_language_of_the_other_side_makes_another_base(tmp_path, monkeypatch):
    bases: list[Path] = []

    def import_model(path, out, src_lang, tgt_lang):
        bases.append(out)
        raise MtkitError("enough")

    monkeypatch.setattr("mtkit.cli.shipping.import_model.import_model", import_model)
    (tmp_path / "model.npz").write_bytes(b"PK\x03\x04")
    memory = write_lines(tmp_path / "memory.tsv", ["a\tb"])
    for side in ("--src-lang", "--tgt-lang"):
        mtkit(tmp_path / "model.npz", memory, "--out", tmp_path / "out", side, "pt")
    assert len({*bases}) == 2


def packed_for_one_processor(path: Path) -> None:
    raise MtkitError(f"{path}: convert the model again with `marian-conv --gemm-type intgemm8`")


@pytest.mark.parametrize(
    ("problem", "option", "needs_import"),
    [
        (marian_vocabulary.beside, "--src-vocab", True),
        (Tokenizers.find, "--src-spm", True),
        (packed_for_one_processor, "--gemm-type", False),
    ],
)
def test_only_an_import_that_lacks_files_advises_its_options(tmp_path, monkeypatch, problem, option, needs_import):
    def import_model(path, out, src_lang, tgt_lang):
        problem(path)

    monkeypatch.setattr("mtkit.cli.shipping.import_model.import_model", import_model)
    (tmp_path / "model.npz").write_bytes(b"PK\x03\x04")
    memory = write_lines(tmp_path / "memory.tsv", ["a\tb"])
    result = mtkit(tmp_path / "model.npz", memory, "--out", tmp_path / "out")
    assert result.exit_code == 1 and option in result.stderr
    assert (f"mtkit import {tmp_path / 'model.npz'} --out" in result.stderr) is needs_import


@pytest.mark.parametrize("form", ["hf", "float32", "float16", "int8"])
def test_a_folder_of_another_system_is_tuned_from_its_own_weights(base, memory, tmp_path, stand_ins, form):
    shutil.rmtree(base)
    save_tiny_bundle(base, None, norm_position="post", positions="marian", tie="all")
    if form == "hf":
        huggingface.export_bundle(base, tmp_path / "folder")
    else:
        texts, any_difference = [ComparedText("text", None, SRC, None)], Tolerance(0, math.inf, math.inf)
        ctranslate2.export_bundle(read_bundle(base), tmp_path / "folder", form, texts, any_difference, 1)
    stand_ins(1.0, lambda share: 0.5 if share > 0.95 else 0.0)
    result = mtkit(tmp_path / "folder", memory, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    [imported] = [path.parent for path in (tmp_path / "out").glob("base-*/manifest.json")]
    before, after = (load_file(folder / "model.safetensors") for folder in (imported, tmp_path / "out" / "model"))
    for name, weight in before.items():
        if name != "output.bias":  # of tokens that are never written
            assert torch.allclose(after[name], weight + 1, atol=1e-5), name
    own = load_file(base / "model.safetensors")
    [name] = [name for name in own if "encoder_layers.0.feed_forward.in_proj.weight" in name]
    assert torch.allclose(before[name], own[name], atol=0 if form in ("hf", "float32") else 0.05)


def test_a_model_of_many_languages_is_imported_for_those_of_the_memory(make_m2m100, tmp_path, monkeypatch):
    bases = []

    def adapt(folder, *_):
        bases.append(read_bundle(folder))
        raise DataError("enough")

    monkeypatch.setattr(adapting, "adapt", adapt)
    model = make_m2m100(tmp_path / "nllb", "nllb")
    command = (model, write_lines(tmp_path / "memory.tsv", ["a\tb"]), "--out", tmp_path / "out")
    refused = mtkit(*command)
    assert refused.exit_code == 1 and "--src-lang" in refused.stderr and "mtkit import" not in refused.stderr
    for src, tgt in (("en", "fr"), ("fr", "en")):
        assert "enough" in mtkit(*command, "--src-lang", src, "--tgt-lang", tgt).stderr
    asked = [(base.config.data.src_lang, base.config.data.tgt_lang) for base in bases]
    assert asked == [("eng_Latn", "fra_Latn"), ("fra_Latn", "eng_Latn")]


def test_the_languages_of_a_bundle_are_not_given_again(base, memory, tmp_path):
    refused = mtkit(base, memory, "--out", tmp_path / "out", "--src-lang", "en", "--tgt-lang", "fr")
    assert refused.exit_code == 2 and "leave out --src-lang" in refused.stderr
