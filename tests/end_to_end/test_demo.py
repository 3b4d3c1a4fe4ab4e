"""`mtkit demo` as a user runs it, with its training of a few minutes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TRAINS = "million weights"  # what the log says of a model that is about to be trained


def demo(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mtkit", "demo"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_it_learns_to_translate_and_the_second_time_only_translates(tmp_path: Path) -> None:
    first = demo(tmp_path)
    assert TRAINS in first.stderr
    bleu = re.match(r"BLEU (\d+\.\d) on \d+ sentences", first.stdout)
    assert bleu and float(bleu[1]) >= 95
    assert "  I love oranges.\n    J'aime les oranges.\n" in first.stdout
    suite = Path(__file__).parents[2] / "configs" / "sample-suite.yaml"
    checked = subprocess.run(
        [sys.executable, "-m", "mtkit", "check", suite], cwd=tmp_path, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout
    second = demo(tmp_path)
    assert second.stdout == first.stdout
    assert "already finished" in second.stderr
    assert TRAINS not in second.stderr
