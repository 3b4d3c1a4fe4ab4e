"""A forged checkpoint, its checksums right, is refused with an MtkitError, or can be loaded."""

import io
import json
import random
import re
import shutil

import pytest
import torch
from fuzz.mutations import NASTY_VALUES, mutated, seal, with_a_nasty_value
from safetensors.torch import load_file
from torch import nn

from mtkit.errors import CheckpointError, MtkitError
from mtkit.files import parse_json
from mtkit.runs.train import train
from mtkit.training.update.checkpoint import Checkpoints, check_fits
from mtkit.training.update.state import Scored, TrainState


def forge(rng: random.Random, folder) -> None:
    path = folder / rng.choice(["state.json", "state.json", "manifest.json", "optimizer.pt", "model.safetensors"])
    if path.suffix == ".json" and rng.random() < 0.8:
        path.write_text(json.dumps(with_a_nasty_value(rng, parse_json(path.read_bytes()))))
    elif path.suffix == ".pt" and rng.random() < 0.6:
        state = torch.load(path, weights_only=True)
        part = rng.choice([state["param_groups"][0], state["state"], state["state"][0]])
        part[rng.choice([*part])] = rng.choice([*NASTY_VALUES, torch.zeros(3), torch.zeros(4, 3, dtype=torch.int64)])
        buffer = io.BytesIO()
        torch.save(state, buffer)
        path.write_bytes(buffer.getvalue())
    else:
        path.write_bytes(mutated(rng, path.read_bytes()))
    seal(folder)


@pytest.mark.parametrize("n", [50, pytest.param(500, marks=pytest.mark.slow)])
def test_a_forged_checkpoint_is_refused_or_loads(tmp_path, n):
    model = nn.Linear(3, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state = TrainState(step=10, best=[Scored(10, 1.0, 2.0)])
    Checkpoints(tmp_path / "whole").save(state, dict(model.named_parameters()), optimizer.state_dict())
    n_loaded = 0
    for seed in range(n):
        folder = tmp_path / "forged"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(tmp_path / "whole", folder)
        forge(random.Random(seed), folder / "step-10")
        try:
            checkpoint = Checkpoints(folder).newest()
            assert checkpoint is not None
            checkpoint.state.progress()
            optimizer_state, weights = checkpoint.optimizer_state(), checkpoint.weights()
        except MtkitError as error:
            assert "step-10" in str(error) or "forged" in str(error), seed
            assert "weights_only" not in str(error), seed
            continue
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
        try:
            check_fits(optimizer_state, optimizer)
            nn.Linear(3, 4).load_state_dict(weights)
            other = torch.optim.AdamW(nn.Linear(3, 4).parameters())
            other.load_state_dict(optimizer_state)
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError):
            continue  # Trainer.resume turns these into a CheckpointError
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
        n_loaded += 1
    assert 0 < n_loaded < n, "the fuzzer reaches both outcomes"


def forge_optimizer(folder):
    state = torch.load(folder / "optimizer.pt", weights_only=True)
    state["state"][0]["exp_avg"] = torch.zeros(7)
    torch.save(state, folder / "optimizer.pt")
    seal(folder)


def test_a_run_with_a_forged_state_of_the_optimizer_resumes_from_the_checkpoint_before(make_config, caplog):
    settings = {"validate_every": 3, "warmup_steps": 1}
    run_dir = train(make_config(max_steps=9, **settings)).bundle.parent
    unbroken = load_file(run_dir / "checkpoints" / "step-9" / "model.safetensors")
    shutil.rmtree(run_dir)
    train(make_config(max_steps=6, **settings))
    forge_optimizer(run_dir / "checkpoints" / "step-6")
    with caplog.at_level("INFO", "mtkit"):
        train(make_config(max_steps=9, **settings))
    assert re.search(r"step-6: .*exp_avg of weight 0.*another checkpoint", caplog.text)
    assert "resuming after step 3" in caplog.text
    resumed = load_file(run_dir / "checkpoints" / "step-9" / "model.safetensors")
    assert all(torch.equal(resumed[name], weight) for name, weight in unbroken.items())


def test_a_run_whose_checkpoints_are_all_forged_ends_with_the_place(make_config):
    run_dir = train(make_config(max_steps=6, validate_every=3)).bundle.parent
    for step in (3, 6):
        forge_optimizer(run_dir / "checkpoints" / f"step-{step}")
    with pytest.raises(CheckpointError, match=r"step-\d: .*exp_avg of weight 0"):
        train(make_config(max_steps=9, validate_every=3))
