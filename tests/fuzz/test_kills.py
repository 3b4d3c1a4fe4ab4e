"""A run that is killed, or stopped and continued, at any moment ends with the weights of one that nothing disturbed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mtkit.config.reading.loading import dump_config

TESTS = Path(__file__).parents[1]


@pytest.mark.slow
def test_a_disturbed_run_ends_with_the_same_weights(config_of, tmp_path):
    n = 50
    config = tmp_path / "config.yaml"
    config.write_text(dump_config(config_of(tmp_path / "run", max_steps=12, validate_every=3, batch_tokens=150)))
    script = [sys.executable, TESTS / "fuzz" / "killed_runs.py", config, tmp_path, "1", str(n)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}  # a child of a fork has no further threads
    done = subprocess.run(script, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    trials = [json.loads(line) for line in done.stdout.splitlines()]
    assert {name for name, _, _ in trials} == {"undisturbed", "stopped", "killed"}
    assert sum(times for name, times, _ in trials if name == "killed") >= n / 2
    assert len({checksum for _, _, checksum in trials}) == 1, trials
