"""With train.init_from, commands that take a config show the model that the run starts from."""

import json
from pathlib import Path

import pytest
import yaml
from tiny_models import SENTENCES, tiny_bundle, tiny_config, tiny_tokenizer, write_lines
from typer.testing import CliRunner, Result

from mtkit.cli import app

# Unlike the defaults in what `mtkit config` prints, and Marian and Hugging Face can have it.
SHAPE = {"norm_position": "post", "positions": "marian"}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A config that leaves model and tokenizer to the bundle beside it."""
    folder = tmp_path_factory.mktemp("going-on")
    shape = tiny_config(SHAPE)
    (folder / "model").mkdir()
    tiny_bundle(folder / "model", tiny_tokenizer(folder, shape), shape)
    other_text = [line.lower() for line in SENTENCES]  # tokenizers learnt from it would not be the model's
    files = {"src": str(write_lines(folder / "a.en", other_text)), "tgt": str(write_lines(folder / "a.fr", other_text))}
    train = {"init_from": str(folder / "model"), "max_steps": 1, "warmup_steps": 0, "threads": 1, "batch_tokens": 100}
    sections = {"run_dir": str(folder / "run"), "data": {"train": [files], "dev": files}, "train": train}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(sections))
    return path


def mtkit(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def test_config_prints_the_keys_of_that_model(config):
    printed = yaml.safe_load(mtkit("config", config).stdout)
    assert (printed["model"]["d_model"], printed["model"]["positions"]) == (16, "marian")
    assert printed["tokenizer"]["src"]["vocab_size"] == 300


def test_what_config_prints_is_a_config_that_goes_on_from_that_model(config, tmp_path):
    copy = tmp_path / "copy.yaml"
    copy.write_text(mtkit("config", config).stdout)
    assert mtkit("config", copy).stdout == copy.read_text()


def test_inspect_model_shows_that_model(config):
    shown = json.loads(mtkit("inspect", "model", "--config", config, "--json", "--all").stdout)
    numbers = {layer["name"].split(".")[1] for layer in shown["layers"] if "encoder_layers." in layer["name"]}
    assert numbers == {"0", "1"}


def test_exports_are_those_of_that_model(config):
    plan = mtkit("plan", "--config", config, "--seconds", "1", "--json")
    assert json.loads(plan.stdout)["exports"]["marian"] == []
    trained = mtkit("train", "--config", config)
    assert trained.exit_code == 0
    assert "will not export" not in trained.stderr


def test_train_tokenizer_takes_those_of_that_model(config, tmp_path):
    run_dir = tmp_path / "run"
    result = mtkit("train-tokenizer", "--config", config, "--set", f"run_dir={run_dir}")
    assert result.stdout.splitlines()[0].startswith("dev text")
    assert all(f"normalisation changes, {side}" in result.stdout for side in ("src", "tgt"))
    for side in ("src", "tgt"):
        assert (run_dir / f"{side}.spm").read_bytes() == (config.parent / "model" / f"{side}.spm").read_bytes()
    assert mtkit("train", "--config", config, "--set", f"run_dir={run_dir}").exit_code == 0
