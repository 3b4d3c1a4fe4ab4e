"""Every command that the README shows, run as it stands there."""

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SMALL = ["--set", "model.d_model=16"]
SHORT = {
    "plan": [*SMALL, "--seconds", "1"],
    "train": [*SMALL, "--set", "train.budget=null", "--set", "train.max_steps=3", "--set", "train.warmup_steps=1"],
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands() -> list[str]:
    """The shell lines of the README without their comments."""
    lines = [re.sub(r"\s+#.*", "", line) for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder with the README's my.yaml and the files that it names."""
    place = tmp_path_factory.mktemp("user")
    (place / "my.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    for part, n_lines in {"train": 200, "dev": 5, "test": 5}.items():
        for language, words in {"en": "I love {} oranges.", "fr": "J'aime {} oranges."}.items():
            lines = "".join(words.format(number) + "\n" for number in range(n_lines))
            (place / f"{part}.{language}").write_text(lines, encoding="utf-8")
    return place


def run(arguments: list[str], folder: Path) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_scripts_that_it_names_can_be_run() -> None:
    named = [command for command in commands() if command.startswith("./")]
    assert named == ["./scripts/quickstart.sh", "./scripts/test.sh"]
    for script in named:
        assert (ROOT / script).stat().st_mode & 0o111
        assert subprocess.run(["bash", "-n", ROOT / script]).returncode == 0


def test_its_commands_work_in_the_order_given(folder: Path) -> None:
    shown = [shlex.split(command) for command in commands() if command.startswith("mtkit ")]
    assert [words[1] for words in shown] == ["train-tokenizer", "plan", "train", "translate", "evaluate"]
    for words in shown:
        out = run(["-m", "mtkit", *words[1:], *SHORT.get(words[1], [])], folder)
        assert out.endswith("\n")


def test_its_python_works_on_the_run_that_the_commands_made(folder: Path) -> None:
    out = run(["-c", blocks("python")[0]], folder)
    translations = ast.literal_eval(out)
    assert len(translations) == 1 and isinstance(translations[0], str)


def test_it_has_no_gap_left_to_fill() -> None:
    assert re.findall(r"@[A-Z_]+@|TODO|TBD|XXX", README) == []


def test_every_command_of_its_table_exists() -> None:
    for command in re.findall(r"`mtkit ([a-z-]+)`", README):
        assert "Usage: mtkit" in run(["-m", "mtkit", command, "--help"], ROOT)


def test_every_file_that_it_links_to_exists() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link
