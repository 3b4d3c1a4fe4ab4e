"""Which engine and precision `auto` chooses, from what the bundle contains, what the CPU can do and what is asked."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mtkit.bundle import BundleFiles, add_to_bundle, read_bundle
from mtkit.engines import choose
from mtkit.engines.choose import choose_engine
from mtkit.engines.ctranslate2 import CTranslate2Engine
from mtkit.engines.int8_scores import INT8_SCORES, save_int8_scores
from mtkit.engines.native import NativeEngine
from mtkit.errors import BundleError
from mtkit.model import ops

EQUAL, WORSE = {"fp32": 30.0, "int8": 29.91}, {"fp32": 30.0, "int8": 29.89}


@pytest.fixture
def loops(monkeypatch):
    """Let a test say for which precisions the native engine has compiled loops."""

    def set_loops(*precisions: str) -> None:
        monkeypatch.setattr(choose, "_has_loops", lambda files, precision, device: precision in precisions)

    set_loops("fp32", "int8")
    return set_loops


def with_scores(folder: Path, tmp_path: Path, *bleu: dict[str, float], rises: Sequence[float] = ()) -> BundleFiles:
    """A copy of the bundle with scores in int8, if bleu has any.

    bleu: in fp32 and int8, of each dev set. rises: what int8 adds to the loss, of each dev set.
    """
    files = read_bundle(Path(shutil.copytree(folder, tmp_path / "scored")))
    if bleu:
        losses = {f"dev {n}": {"fp32": 2.0, "int8": 2.0 + rise} for n, rise in enumerate(rises)}
        save_int8_scores(files, {f"dev {n}": one for n, one in enumerate(bleu)}, losses)
    return read_bundle(files.folder)


def changed(files: BundleFiles, **decode: object) -> BundleFiles:
    config = files.config.model_copy(update={"decode": files.config.decode.model_copy(update=decode)})
    return replace(files, config=config)


def chosen(files: BundleFiles, *others: BundleFiles, starts_soon: bool = False, **decode: object) -> str:
    """The engine's name and, of the native one, its precision."""
    engine = choose_engine([changed(files, **decode), *others], "cpu", 1, starts_soon=starts_soon)
    if isinstance(engine, CTranslate2Engine):
        return "ctranslate2"
    assert isinstance(engine, NativeEngine)
    return f"native {engine.precision}"


@pytest.fixture(autouse=True)
def int8_everywhere(monkeypatch):
    """The CPU of a test may lack the instructions; here only the choice counts."""
    monkeypatch.setattr("mtkit.engines.native.supported_precision", lambda precision, device: precision)
    monkeypatch.setattr(ops, "decoder", lambda model, precision: None)


@pytest.mark.parametrize(
    ("bleu", "rises", "precision"),
    [
        ([EQUAL, WORSE], [], "fp32"),  # in a bundle of an earlier version BLEU decides
        ([EQUAL, WORSE], [0.001, 0.0049], "int8"),
        ([EQUAL, EQUAL], [0.001, 0.0051], "fp32"),
        ([{"fp32": 30.0, "int8": 29.4}], [-0.001], "fp32"),  # not by chance alone
    ],
)
def test_a_model_that_int8_makes_worse_is_decoded_in_fp32(exported_bundle, tmp_path, loops, bleu, rises, precision):
    assert chosen(with_scores(exported_bundle, tmp_path, *bleu, rises=rises)) == f"native {precision}"


def test_a_model_that_keeps_its_bleu_is_decoded_in_int8(exported_bundle, tmp_path, loops):
    files = with_scores(exported_bundle, tmp_path, EQUAL, {"fp32": 20.0, "int8": 20.3})
    assert chosen(files) == "native int8"
    assert chosen(files, starts_soon=True) == "ctranslate2"
    loops("fp32")
    assert chosen(files) == "native fp32"


def test_without_scores_nothing_but_fp32_is_exact_enough(exported_bundle, tmp_path, loops):
    files = with_scores(exported_bundle, tmp_path)
    assert chosen(files) == "native fp32"
    assert chosen(files, precision="int8") == "native int8"


def test_a_precision_that_the_config_names_holds(exported_bundle, tmp_path, loops):
    files = with_scores(exported_bundle, tmp_path, EQUAL)
    assert chosen(files, precision="fp32") == "native fp32"
    assert chosen(files, engine="native") == "native fp32"
    assert chosen(files, engine="ctranslate2") == "ctranslate2"


def test_without_loops_ctranslate2_is_faster(exported_bundle, shared_bundle, tmp_path, loops):
    loops()
    assert chosen(with_scores(exported_bundle, tmp_path, EQUAL)) == "ctranslate2"
    assert chosen(read_bundle(shared_bundle)) == "native fp32"


def test_a_quantised_export_is_faster_than_loops_in_fp32(exported_bundle, tmp_path, loops, monkeypatch):
    monkeypatch.setattr(choose, "quantization_of", lambda folder: "int8")
    assert chosen(with_scores(exported_bundle, tmp_path)) == "ctranslate2"
    assert chosen(with_scores(exported_bundle, tmp_path / "other", EQUAL)) == "native int8"


def test_a_sentence_starts_soonest_in_ctranslate2_if_it_can_decode_it(exported_bundle, shared_bundle, tmp_path, loops):
    files = read_bundle(exported_bundle)
    assert chosen(files, starts_soon=True) == "ctranslate2"
    assert chosen(files, starts_soon=True, coverage_penalty=0.2) == "native fp32"
    assert chosen(read_bundle(shared_bundle), starts_soon=True) == "native fp32"


def test_an_ensemble_was_not_measured_in_int8(exported_bundle, tmp_path, loops):
    files = with_scores(exported_bundle, tmp_path, EQUAL)
    assert chosen(files, files) == "native fp32"


@pytest.mark.parametrize("text", ["[]", '{"bleu": {"dev": {}}}', '{"bleu": {"dev": {"fp32": 1, "int8": "x"}}}', "{"])
def test_scores_that_cannot_be_read_are_an_error(shared_bundle, tmp_path, loops, text):
    files = with_scores(shared_bundle, tmp_path)
    add_to_bundle(files.folder, INT8_SCORES, lambda path: path.write_text(text))
    with pytest.raises(BundleError, match=INT8_SCORES):
        chosen(read_bundle(files.folder))


def test_a_gpu_has_no_compiled_loops(shared_bundle):
    assert not choose._has_loops(read_bundle(shared_bundle), "fp32", "cuda")
