"""`mtkit demo` with the training left out; tests/end_to_end/test_demo.py, which is slow, runs the whole of it."""

import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.cli.training.demo import config_file
from mtkit.data.sample import DEMO_PAIRS
from mtkit.translation.translator import Translator

EN, FR = (
    ["I sleep .", "you sing well today .", "we eat ."],
    ["je dors .", "tu chantes bien aujourd'hui .", "nous mangeons ."],
)


class Perfect:
    """Knows the test sentences by heart; counts the lines that it was given."""

    n_lines = 0

    def stream(self, lines):
        for line in lines:
            self.n_lines += 1
            yield SimpleNamespace(text=FR[EN.index(line)])

    def translate(self, lines):
        return ["J'aime les oranges." if line == "I love oranges." else "?" for line in lines]


@pytest.fixture
def world(tmp_path, monkeypatch):
    """An empty folder, a corpus and a training that take no time, and what they were asked."""
    seen = SimpleNamespace(configs=[], corpora=[], translator=Perfect())

    def write_corpus(folder):
        seen.corpora.append(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for part in ("train", "dev", "test"):
            (folder / f"{part}.en").write_text("\n".join(EN) + "\n")
            (folder / f"{part}.fr").write_text("\n".join(FR) + "\n")

    def train(config):
        seen.configs.append(config)
        bundle = config.run_dir / "model"
        if not bundle.exists():
            bundle.mkdir(parents=True)
            (bundle / "manifest.json").write_text('{"format_version": 1, "sha256": {"model.safetensors": "a"}}')
            (config.run_dir / "metrics.jsonl").touch()
        return SimpleNamespace(bundle=bundle)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mtkit.data.sample.write_sample", write_corpus)
    monkeypatch.setattr("mtkit.runs.train.train", train)
    monkeypatch.setattr(Translator, "load", lambda bundle: seen.translator)
    return seen


def test_it_makes_corpus_and_run_in_the_current_folder_and_shows_score_and_translations(world, tmp_path):
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 0, result.output
    [config] = world.configs
    assert config.run_dir == tmp_path / "runs/sample-en-fr"
    assert config.data.train[0].src == tmp_path / "data/sample/train.en"
    assert config.data.test.tgt == tmp_path / "data/sample/test.fr"
    assert world.corpora == [Path("data/sample")]
    score, *translations = result.stdout.splitlines()
    assert re.match(r"BLEU 100\.0 on 3 sentences .*\(nrefs:1\|", score)
    assert translations[:2] == ["  I love oranges.", "    J'aime les oranges."]
    assert translations[3] == f"    ?    (right: {DEMO_PAIRS[1][1]})"
    assert len(translations) == 2 * len(DEMO_PAIRS) + 1


def test_a_key_of_its_config_can_be_changed(world):
    assert CliRunner().invoke(app, ["demo", "--set", "train.max_steps=300"]).exit_code == 0
    assert [config.train.max_steps for config in world.configs] == [300]


def test_the_second_time_it_goes_straight_to_translating(world):
    first = CliRunner().invoke(app, ["demo"])
    second = CliRunner().invoke(app, ["demo"])
    assert second.stdout == first.stdout
    assert world.translator.n_lines == len(EN)  # measured once
    assert len(world.corpora) == 1
    assert "data/sample: " in second.stderr


def test_a_corpus_that_is_not_all_there_is_written_again(world, tmp_path):
    CliRunner().invoke(app, ["demo"])
    (tmp_path / "data/sample/test.fr").unlink()
    CliRunner().invoke(app, ["demo"])
    assert len(world.corpora) == 2


def test_a_new_model_is_measured_again(world, tmp_path):
    CliRunner().invoke(app, ["demo"])
    manifest = tmp_path / "runs/sample-en-fr/model/manifest.json"
    manifest.write_text('{"format_version": 1, "sha256": {"model.safetensors": "b"}}')
    os.utime(manifest, (0, 0))  # copied with its time, as by cp -p or rsync
    assert CliRunner().invoke(app, ["demo"]).stdout.startswith("BLEU 100.0")
    assert world.translator.n_lines == 2 * len(EN)


def test_the_config_is_the_one_that_users_read():
    assert config_file() == Path(__file__).parents[3] / "configs" / "sample-en-fr.yaml"
