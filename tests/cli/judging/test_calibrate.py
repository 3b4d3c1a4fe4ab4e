"""`mtkit calibrate`: what it prints, and what it adds to the bundle."""

import re
import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from mtkit.bundle import bundle_file, load_bundle, read_bundle, save_bundle
from mtkit.cli import app
from mtkit.tokens.special_ids import EOS_ID
from mtkit.translation import confidence
from mtkit.translation.confidence import CONFIDENCE_FILE, Calibration
from mtkit.translation.translator import Translator

TEXT = "I love oranges The cat sleeps under the table Do you see the big house It rains"
WORDS = TEXT.split()
SOURCES = [" ".join(WORDS[start : start + n]) for start in range(len(WORDS)) for n in (1, 2, 3, 4)][:48]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def ending_bundle(shared_bundle, tmp_path_factory) -> Path:
    """A bundle whose model comes to an end."""
    bundle = load_bundle(shared_bundle)
    with torch.no_grad():
        bundle.model.output.bias[EOS_ID] += 6
    folder = tmp_path_factory.mktemp("ending") / "model"
    spm = shared_bundle / "src.spm", shared_bundle / "tgt.spm"
    save_bundle(folder, bundle.model.state_dict(), bundle.config, *spm, training={})
    return folder


@pytest.fixture(scope="module")
def references(ending_bundle) -> list[str]:
    """The likelier half of the translations themselves, and nonsense for the others."""
    translator = Translator.load(ending_bundle, engine="native", min_len=3, threads=1)
    candidates = [translation.n_best[0] for translation in translator.stream(SOURCES)]
    means = [candidate.log_prob / (len(candidate.ids) + 1) for candidate in candidates]
    middle = sorted(means)[len(means) // 2]
    return [c.text if mean > middle else "ZZZ" for c, mean in zip(candidates, means, strict=True)]


@pytest.fixture
def run(ending_bundle, tmp_path, references):
    shutil.copytree(ending_bundle, tmp_path / "model")
    Path("src.txt").write_text("".join(f"{line}\n" for line in SOURCES))
    Path("ref.txt").write_text("".join(f"{line}\n" for line in references))

    def run(*args: str):
        return CliRunner().invoke(app, ["calibrate", "--model", "model", "--set", "decode.min_len=3", *args])

    return run


def test_a_model_that_replaces_another_one_does_not_get_its_calibration(run, shared_bundle, monkeypatch):
    def calibrate_translations(*args, **options):
        shutil.rmtree("model")
        shutil.copytree(shared_bundle, "model")  # as a training writes it that ends meanwhile
        return made(*args, **options)

    made = confidence.calibrate_translations
    monkeypatch.setattr(confidence, "calibrate_translations", calibrate_translations)
    result = run("--src", "src.txt", "--ref", "ref.txt")
    assert result.exit_code == 1
    assert "model: contains another model" in result.stderr
    assert bundle_file(read_bundle(Path("model")), CONFIDENCE_FILE) is None


def test_the_bundle_gets_a_calibration_that_is_verified(run):
    result = run("--src", "src.txt", "--ref", "ref.txt", "--threshold", "50")
    assert result.exit_code == 0, result.stderr
    path = bundle_file(read_bundle(Path("model")), CONFIDENCE_FILE)
    assert path is not None
    calibration = Calibration.load(path)
    assert calibration.threshold == 50
    assert calibration.slope > 0
    assert calibration.decode["min_len"] == 3
    lines = result.stdout.splitlines()
    assert (
        lines[0] == f"{path}: fitted on {calibration.n_fitted} sentences, measured on {calibration.held_out.n} others"
    )
    assert f"expected calibration error {calibration.held_out.calibration_error:.3f}" in lines[2]
    assert len(lines) == 4 + sum(entry.n > 0 for entry in calibration.held_out.bins)


def test_an_ensemble_does_not_use_the_calibration_of_its_first_model(run):
    assert run("--src", "src.txt", "--ref", "ref.txt").exit_code == 0
    one = read_bundle(Path("model"))
    assert Translator.from_bundles([one], threads=1).calibration is not None
    assert Translator.from_bundles([one, one], threads=1).calibration is None


def test_no_more_sentences_than_asked_for(run):
    assert run("--src", "src.txt", "--ref", "ref.txt", "--max-sentences", "30").exit_code == 0
    calibration = Calibration.load(Path("model") / CONFIDENCE_FILE)
    assert calibration.n_fitted + calibration.held_out.n <= 30


@pytest.mark.parametrize(
    ("args", "exit_code", "message"),
    [
        (["--src", "src.txt"], 2, "both --src and --ref"),
        ([], 1, r"/nowhere/dev\.tsv: .*model/config\.yaml .*data\.dev.*--src and --ref"),
        (["--src", "src.txt", "--ref", "few.txt"], 1, "src.txt has 48 lines, few.txt has 1"),
        (["--src", "few.txt", "--ref", "few.txt"], 1, "1 translation: 0 of the 1 to fit on"),
    ],
)
def test_mistakes_are_explained_and_leave_the_bundle_as_it_was(run, args, exit_code, message):
    Path("few.txt").write_text("cat\n")
    shutil.copytree("model", "before")
    result = run(*args)
    assert result.exit_code == exit_code
    assert re.search(message, result.stderr)
    for path in Path("before").iterdir():
        assert path.read_bytes() == (Path("model") / path.name).read_bytes()
    assert not (Path("model") / CONFIDENCE_FILE).exists()
