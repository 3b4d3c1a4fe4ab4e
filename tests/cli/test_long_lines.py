"""Every command that reads text refuses a line beyond the limit, and names it."""

import pytest
from typer.testing import CliRunner

from mtkit.cli import app

SUITE = "src_lang: en\ntgt_lang: fr\nchecks:\n  - {check: numbers, file: long}\n"
CONFIG = """
data: {train: [{src: long, tgt: long}], dev: {src: long, tgt: long}}
train: {max_steps: 9, warmup_steps: 2}
"""


@pytest.mark.parametrize(
    "command",
    [
        "translate --input long",
        "translate --input long --output out",
        "translate --input short --terminology terms.tsv",
        "translate --live",
        "translate",
        "back-translate --input long --output out",
        "tokenize",
        "tokenize --input long",
        "detokenize --input long",
        "score",
        "score --src short --tgt long",
        "evaluate --src long --ref short",
        "evaluate --src short --ref long",
        "check suite.yaml",
        "shortlist --src short --tgt long",
        "calibrate --src long --ref long",
        "doctor decode --src long",
        "evaluate --hyp short --ref long",
        "evaluate --hyp long --ref short",
        "train --config config.yaml",
        "train-tokenizer --config config.yaml",
    ],
)
def test_a_line_beyond_the_limit_is_refused_by_its_number(shared_bundle, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MTKIT_MAX_LINE_BYTES", "100")
    long = f"cat\tcat\n{'cat ' * 26}\n"
    for name, content in {
        "long": long,
        "short": "cat\ncat\n",
        "terms.tsv": f"source\ttarget\n{long[8:]}",
        "suite.yaml": SUITE,
        "config.yaml": CONFIG,
    }.items():
        (tmp_path / name).write_text(content)
    has_model = not command.startswith("train") and "--hyp" not in command
    args = [*command.split(), *(["--model", str(shared_bundle)] if has_model else [])]
    result = CliRunner().invoke(app, args, input=long)
    assert result.exit_code == 1
    assert "line 2 has more than 100 bytes" in result.output
