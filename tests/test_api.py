"""What `import mtkit` offers: names that load when they are read, and results that show themselves."""

import inspect
import subprocess
import sys

import pytest

import mtkit
from mtkit.config.schema import Config
from mtkit.evaluation.evaluate import evaluate


@pytest.fixture
def texts(tmp_path):
    """A source text, its reference and two systems' translations."""
    lines = {
        "src.en": ["I sleep .", "We eat bread .", "You sing .", "They run ."],
        "ref.fr": ["je dors .", "nous mangeons du pain .", "tu chantes .", "ils courent ."],
        "same.fr": ["je dors .", "nous mangeons du pain .", "tu chantes .", "ils courent ."],
        "worse.fr": ["je dors .", "nous mangeons le pain .", "tu chante .", "ils court ."],
    }
    for name, text in lines.items():
        (tmp_path / name).write_text("\n".join(text) + "\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", mtkit.__all__)
def test_every_public_name_is_there_with_types_and_a_docstring(name):
    assert name in dir(mtkit)
    thing = getattr(mtkit, name)
    if name != "__version__":
        assert inspect.getdoc(thing)
    if inspect.isfunction(thing):
        signature = inspect.signature(thing)
        assert signature.return_annotation is not signature.empty
        assert all(parameter.annotation is not signature.empty for parameter in signature.parameters.values())


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError) as caught:
        mtkit.Transl  # noqa: B018
    assert "Transl" in str(caught.value)


def test_import_loads_no_torch_until_a_name_needs_it():
    code = "import sys; sys.modules['torch'] = None; import mtkit; print('imported'); mtkit.train"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "imported\n")
    error = done.stderr.splitlines()[-1]  # its words depend on what is imported from torch first
    assert error.startswith("ModuleNotFoundError: ") and "torch" in error


def test_what_a_sentence_on_the_command_line_needs_loads_neither_torch_nor_the_settings_of_the_service():
    modules = "mtkit.translation.translator, mtkit.engines.ctranslate2, mtkit.cli.translating.translate"
    code = f"import sys, {modules}; assert not {{'torch', 'mtkit.config.serving'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_evaluate_scores_files_of_translations(texts):
    result = mtkit.evaluate(texts / "worse.fr", src=texts / "src.en", ref=texts / "ref.fr", metrics=["BLEU", "chrF2"])
    assert 0 < result.score("BLEU").score < 100
    assert result.score("chrF2").name == "chrF2"
    assert f"{result.score('chrF2').score:.2f}" in repr(result)
    assert repr(result).startswith("Evaluation(4 sentences; ")
    with pytest.raises(KeyError):
        result.score("TER")
    with pytest.raises(KeyError):
        result.score(system="another")


def test_evaluate_compares_several_with_the_baseline(texts):
    files = [f"same={texts / 'same.fr'}", f"worse={texts / 'worse.fr'}"]
    result = evaluate(files, ref=texts / "ref.fr", baseline="worse")
    assert result.score(system="same").score == pytest.approx(100)
    assert [scores.name for scores in result.scores if not scores.differences] == ["worse"]
    assert "same: BLEU 100.00" in repr(result)


def test_a_config_shows_the_keys_that_differ_from_their_defaults():
    corpus = {"tsv": "a.tsv"}
    config = Config.model_validate({"data": {"train": [corpus], "dev": corpus}, "train": {"max_steps": 7000}})
    shown = repr(config)
    assert "max_steps=7000" in shown
    assert "d_model" not in shown and "warmup" not in shown


def test_arguments_that_evaluate_does_not_know_or_cannot_use_are_refused(tmp_path):
    text = tmp_path / "text.fr"
    text.write_text("Bonjour.\n")
    with pytest.raises(TypeError, match="beam_sice"):
        mtkit.evaluate(text, ref=text, beam_sice=7)
    with pytest.raises(mtkit.MtkitError, match=r"beam_size.* model"):
        mtkit.evaluate(text, ref=text, beam_size=7)
