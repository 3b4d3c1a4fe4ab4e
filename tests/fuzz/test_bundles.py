"""A forged bundle, its checksums right, is refused with an MtkitError or translates N lines into N lines."""

import random
import shutil

import pytest
from fuzz.mutations import mutated, seal, with_a_nasty_value

from mtkit.config.reading.yaml_text import format_yaml, parse_yaml
from mtkit.errors import MtkitError
from mtkit.files import parse_json
from mtkit.translation.translator import Translator

LINES = ["I love oranges.", "", "The cat sleeps under the table."]


def forge(rng: random.Random, folder) -> str:
    """Change one file of the bundle; return its name."""
    name = rng.choice(["manifest.json", "config.yaml", "config.yaml", "src.spm", "tgt.spm", "model.safetensors"])
    path = folder / name
    if name == "config.yaml" and rng.random() < 0.7:
        text = format_yaml(with_a_nasty_value(rng, parse_yaml(path.read_text(encoding="utf-8")).value))
        path.write_bytes(text.encode("utf-8", "replace"))
    elif name == "manifest.json" and rng.random() < 0.7:
        import json

        path.write_text(json.dumps(with_a_nasty_value(rng, parse_json(path.read_bytes()))))
    else:
        path.write_bytes(mutated(rng, path.read_bytes()))
    seal(folder)
    return name


@pytest.mark.parametrize("n", [30, pytest.param(500, marks=pytest.mark.slow)])
def test_a_forged_bundle_is_refused_or_translates_every_line(shared_bundle, tmp_path, n):
    n_used = 0
    for seed in range(n):
        folder = tmp_path / "forged"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(shared_bundle, folder)
        name = forge(random.Random(seed), folder)
        try:
            # Limits of the test's own: a forged length is slow, not wrong.
            translator = Translator.load(folder, max_len=5, beam_size=2, beam_groups=1, mbr_samples=0, workers=1)
            translations = translator.translate(LINES)
        except MtkitError as error:
            assert "weights_only" not in str(error), seed
            continue
        except Exception as error:
            raise AssertionError(f"seed {seed}, {name}: {error!r}") from error
        assert len(translations) == len(LINES), seed
        assert all("\n" not in line for line in translations), seed
        n_used += 1
    assert 0 < n_used < n, "the fuzzer reaches both outcomes"
