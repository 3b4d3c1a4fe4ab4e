"""Which model translates what."""

from pathlib import Path
from unittest.mock import patch

import pytest
from tiny_models import save_tiny_bundle

from mtkit.errors import BundleError, UsageError
from mtkit.serving.models import Model, ServedModels, read_models
from mtkit.serving.refusals import BadRequest
from mtkit.serving.workers.work import ModelVersion


def served(*pairs: str) -> ServedModels:
    """Models of pairs such as en-fr."""
    languages = [pair.split("-", 1) for pair in pairs]
    return ServedModels([Model(ModelVersion(Path(f"{src}-{tgt}"), "1"), src, tgt, 4) for src, tgt in languages])


def way(models: ServedModels, src: str, tgt: str) -> list[str]:
    return [f"{model.src}-{model.tgt}" for model in models.path(src, tgt)]


def test_a_direct_model_is_better_than_two():
    models = served("en-fr", "fr-de", "en-de")
    assert way(models, "en", "de") == ["en-de"]


def test_two_models_meet_in_a_common_language():
    models = served("de-en", "en-fr", "en-es")
    assert way(models, "de", "fr") == ["de-en", "en-fr"]


def test_no_more_than_two_models_follow_each_other():
    with pytest.raises(BadRequest, match="fr cannot be translated into pl; the pairs are "):
        way(served("fr-de", "de-en", "en-pl"), "fr", "pl")


def test_a_language_into_itself_needs_no_model():
    assert way(served("en-fr", "fr-en"), "en", "en") == []


def test_the_languages_with_what_each_is_translated_into():
    languages = served("de-en", "en-fr").languages
    assert {language.code: (language.name, set(language.targets)) for language in languages} == {
        "de": ("German", {"en", "fr"}),
        "en": ("English", {"fr"}),
        "fr": ("French", set()),
    }


@pytest.mark.parametrize(
    ("given", "code"),
    [("EN", "en"), ("en-US", "en"), ("eng", "en"), (" en ", "en"), ("pt", "pt-br"), ("pt_BR", "pt-br")],
)
def test_codes_that_mean_a_served_language(given, code):
    assert ServedModels([Model(ModelVersion(Path("x"), "1"), "en", "pt-br", 4)]).code(given) == code


@pytest.mark.parametrize("given", ["xx", "", "zh", "english", "e" * 10_000])
def test_other_codes_are_refused_by_name_but_not_at_length(given):
    with pytest.raises(BadRequest, match=r"is not supported; the languages are en, fr\Z") as refusal:
        served("en-fr").code(given)
    assert len(str(refusal.value)) < 100


def test_one_of_two_scripts_is_not_guessed():
    models = ServedModels(
        [Model(ModelVersion(Path(code), "1"), "en", code, 4) for code in ("zh-hans", "zh-hant")],
    )
    with pytest.raises(BadRequest, match="zh is not supported"):
        models.code("zh")


def test_two_models_of_one_pair_are_refused():
    with pytest.raises(UsageError, match="en-fr and other both translate en-fr; serve one"):
        ServedModels([Model(ModelVersion(Path(name), "1"), "en", "fr", 4) for name in ("en-fr", "other")])


def test_a_model_that_does_not_know_its_languages_is_refused(tmp_path):
    save_tiny_bundle(tmp_path / "model", None)
    with pytest.raises(BundleError, match="does not name its languages"):
        read_models([tmp_path / "model"], {})


def test_a_damaged_bundle_is_refused_by_name(tmp_path):
    save_tiny_bundle(tmp_path / "model", None)
    (tmp_path / "model" / "src.spm").write_bytes(b"broken")
    with pytest.raises(BundleError, match=r"src\.spm has changed"):
        read_models([tmp_path / "model"], {})


def test_a_symbolic_link_is_followed_when_it_is_read(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "current").symlink_to(tmp_path / "old")
    with (
        patch("mtkit.serving.models.find_model", lambda path: path),
        patch("mtkit.serving.models.read_bundle", lambda folder, _: folder),
        patch("mtkit.serving.models._model_of", lambda folder: Model(ModelVersion(folder, "1"), "en", "fr", 4)),
    ):
        [model] = read_models([tmp_path / "current"], {}).models
    assert model.version.folder == (tmp_path / "old").resolve()
