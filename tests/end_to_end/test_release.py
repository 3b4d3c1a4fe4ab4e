"""The wheel and the Dockerfile give a working mtkit outside the clone; pip installs both, so these tests are slow."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def environment(**changes: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | changes


@pytest.mark.slow
def test_the_release_check_passes() -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "release_check.sh", "quick"],
        env=environment(PYTHON=sys.executable),
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    assert "BLEU" in done.stdout
    assert "report.html" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "arguments", "shown"), [("mtkit", [], "demo"), ("serve", ["--help"], "SIGHUP")])
def test_the_steps_of_the_dockerfile_give_a_working_mtkit(
    stage: str, arguments: list[str], shown: str, tmp_path: Path
) -> None:
    """Run its COPY and RUN lines in a fresh environment; no container engine is needed."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    env = environment(PATH=f"{tmp_path / 'env' / 'bin'}:{os.environ['PATH']}")
    place = tmp_path / "image"
    place.mkdir()
    command: list[str] = []
    for instruction, rest in steps(stage):
        if instruction == "COPY":
            *sources, target = rest.split()
            for source in sources:
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, place / target, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / source, place / target)
        elif instruction == "RUN" and not rest.startswith("useradd "):
            subprocess.run(rest, shell=True, cwd=place, env=env, check=True)
        elif instruction == "ENTRYPOINT" or (instruction == "CMD" and not arguments):
            command += json.loads(rest)
    shutil.rmtree(place)  # an image that needed it would not be an installed package
    done = subprocess.run([*command, *arguments], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


def steps(stage: str) -> list[tuple[str, str]]:
    """The instructions that make a stage: its own, after those of the stage that it begins with."""
    stages: dict[str, list[tuple[str, str]]] = {}
    for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines():
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            before, _, name = rest.split()
            stages[name] = list(stages.get(before, []))
        elif instruction.isupper():
            stages[name].append((instruction, rest))
    return stages[stage]
