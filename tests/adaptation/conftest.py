"""What tests of a whole adaptation share."""

import random
from functools import partial

import pytest
from safetensors.torch import load_file
from tiny_models import save_tiny_bundle, write_lines

from mtkit.adaptation import adapt as adapting
from mtkit.bundle import load_model, read_bundle, save_bundle
from mtkit.evaluation.metrics.significance import Chance, compare
from mtkit.runs.finish import TrainResult


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw a tenth of the test sets for intervals, because an adaptation makes dozens of them."""
    monkeypatch.setattr("mtkit.adaptation.judgement.compare", partial(compare, chance=Chance(100, 1000)))
    monkeypatch.setattr("mtkit.adaptation.curve.N_BOOTSTRAP", 100)


@pytest.fixture
def base(tmp_path):
    save_tiny_bundle(tmp_path / "base", None)
    return tmp_path / "base"


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """200 different pairs; the rules of cleaning let them pass."""
    monkeypatch.setattr("mtkit.corpora.cleaning.clean.active_rules", lambda cfg: ["empty", "max_letters"])
    draw = random.Random(1)
    lines = [
        "\t".join(" ".join("".join(draw.choices(letters, k=5)) for _ in range(6)) for letters in ("abcdefg", "lmnopqr"))
        for _ in range(200)
    ]
    return write_lines(tmp_path / "memory.tsv", lines)


@pytest.fixture
def general(tmp_path):
    """Text without translations."""
    return write_lines(tmp_path / "general.txt", [f"word{i} and word{i + 1}" for i in range(100)])


@pytest.fixture
def stand_ins(base, monkeypatch):
    """stand_ins(step, quality): training adds `step` to the weights, and a model's translations are `quality` of it.

    quality: from the share of the tuned weights to the share of sentences that are translated as the reference.
    Returns the configs that were trained.
    """
    weights = load_file(base / "model.safetensors")
    name = next(name for name, weight in weights.items() if weight.ndim == 2 and "layers" in name)
    trained = []

    def make(step, quality):
        def train(cfg):
            trained.append(cfg)
            files, folder = read_bundle(cfg.train.init_from), cfg.run_dir / "model"
            stored = load_file(files.folder / "model.safetensors")
            tuned = load_model(files).state_dict() | {key: weight + step for key, weight in stored.items()}
            facts = {"averaged_steps": [8 if step else 0], "dev": {"bleu": 1.0}, "dev_metrics": []}
            spm = files.folder / "src.spm", files.folder / "tgt.spm"
            save_bundle(folder, tuned, files.config, *spm, training=facts)
            return TrainResult(folder, 8, "budget", {}, (8,))

        def translate(self, model, text, what, files=None):
            moved = float((model.state_dict()[name] - weights[name]).mean())
            n_right = round(quality(moved / step if step else 0.0) * len(text.sources))
            return [*text.references[:n_right], *["ce ne sont que des mots"] * (len(text.sources) - n_right)]

        monkeypatch.setattr(adapting, "train", train)
        monkeypatch.setattr(adapting._Adaptation, "_translate", translate)
        return trained

    return make
