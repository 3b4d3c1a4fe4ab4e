"""A config of any content is loaded, and survives writing, or is refused with a ConfigError that names the file."""

import random

import pytest
from fuzz.mutations import NASTY_VALUES, mutated, with_a_nasty_value

from mtkit.config.reading.loading import dump_config, load_config
from mtkit.config.reading.yaml_text import format_yaml, parse_yaml
from mtkit.errors import ConfigError

OVERRIDDEN = ["decode.beam_size", "data.train.0.src", "train", "data.train.7", "x.y"]
WHOLE = """\
run_dir: runs/x
seed: 3
data:
  src_lang: en
  tgt_lang: fr
  train:
    - {src: a.en, tgt: a.fr, weight: 2, tag: <2fr>}
    - tsv: b.tsv
  dev: &dev {src: d.en, tgt: d.fr}
  test: *dev
tokenizer:
  src: {type: bpe, vocab_size: 500, sampling: 0.1}
model: {d_model: 64, n_heads: 4, positions: rotary, tie: none}
train:
  batch_tokens: auto
  max_steps: 5000
  warmup_steps: 1e2
  adam_betas: [0.9, 0.98]
  freeze: [encoder]
decode:
  beam_size: 4
  terminology: terms.tsv
distill: {teachers: [runs/a, runs/b], n_best: 2}
"""


@pytest.mark.parametrize("n", [100, pytest.param(2000, marks=pytest.mark.slow)])
def test_any_config_is_loaded_or_refused_with_its_name(tmp_path, n):
    path, values = tmp_path / "any.yaml", parse_yaml(WHOLE).value
    n_loaded = 0
    for seed in range(n):
        rng = random.Random(seed)
        if (chosen := rng.random()) < 0.2:
            path.write_text(WHOLE.replace(str(rng.choice([64, 500, 5000, 4])), str(rng.choice([8, 264, 10**4, 32]))))
        elif chosen < 0.6:
            path.write_bytes(mutated(rng, WHOLE.encode()))
        else:
            try:
                path.write_text(format_yaml(with_a_nasty_value(rng, values)), encoding="utf-8")
            except UnicodeEncodeError:
                continue
        keys = [rng.choice(OVERRIDDEN)] if rng.random() < 0.3 else []
        overrides = [f"{key}={rng.choice(NASTY_VALUES)}" for key in keys]
        try:
            config = load_config(path, overrides)
        except ConfigError as error:
            assert str(path) in str(error), seed
            continue
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
        n_loaded += 1
        copy = tmp_path / "copy.yaml"
        copy.write_text(dump_config(config), encoding="utf-8")
        assert load_config(copy) == config, seed
    assert n / 20 < n_loaded < n * 0.9, "the fuzzer reaches both outcomes"
