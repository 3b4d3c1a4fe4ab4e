"""`mtkit data align` as a user runs it."""

import random
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mtkit.cli import app
from mtkit.corpora.alignment.document_pairs import read_sentences
from mtkit.data.sample import read_sample
from mtkit.text.sentences import sentences


@pytest.fixture
def documents(tmp_path: Path) -> tuple[Path, Path]:
    """Two documents in paragraphs of four sentences, of which the second lacks a paragraph."""
    pairs = random.Random(4).sample(
        [p for p in read_sample()["train"] if [len(sentences(t)) for t in p] == [1, 1]], 320
    )
    src, tgt = tmp_path / "doc.en", tmp_path / "doc.fr"
    for side, path in enumerate((src, tgt)):
        texts = [pair[side] for pair in (pairs if side == 0 else pairs[:40] + pairs[44:])]
        paragraphs = [" ".join(texts[i : i + 4]) for i in range(0, len(texts), 4)]
        path.write_text("\n\n".join(paragraphs) + "\n", encoding="utf-8")
    return src, tgt


def run(*args: object) -> Result:
    return CliRunner().invoke(app, ["data", "align", *map(str, args)])


def test_two_documents_become_pairs(documents: tuple[Path, Path], tmp_path: Path) -> None:
    out, rest = tmp_path / "pairs.tsv", tmp_path / "rest.tsv"
    result = run(*documents, "-o", out, "--details", "--aside", rest)
    assert result.exit_code == 0, result.output
    rows = [line.split("\t") for line in out.read_text(encoding="utf-8").splitlines()]
    assert len(rows) in range(312, 317)
    assert {len(row) for row in rows} == {4}
    truth = set(read_sample()["train"])
    assert sum((row[0], row[1]) in truth for row in rows) >= 0.98 * 316
    left = [line.split("\t") for line in rest.read_text(encoding="utf-8").splitlines()]
    assert len(left) in range(4, 10)
    assert all(read_sentences(Path(path))[int(number) - 1] == text for path, number, text in left)
    assert "316 pairs" in result.stderr and "of 320 sentences" in result.stderr


def test_two_text_files_and_tmx_are_written(documents: tuple[Path, Path], tmp_path: Path) -> None:
    assert run(*documents, "-o", tmp_path / "o.en", "-o", tmp_path / "o.fr").exit_code == 0
    sides = [(tmp_path / name).read_text(encoding="utf-8").splitlines() for name in ("o.en", "o.fr")]
    assert len(sides[0]) == len(sides[1]) > 300
    assert run(*documents, "-o", tmp_path / "o.tmx").exit_code == 0
    assert 'xml:lang="fr"' in (tmp_path / "o.tmx").read_text(encoding="utf-8")


def test_wrong_use_and_bad_files_are_named(documents: tuple[Path, Path], tmp_path: Path) -> None:
    empty, binary = tmp_path / "empty.fr", tmp_path / "binary.fr"
    empty.touch()
    binary.write_bytes(bytes(range(256)) * 20)
    out = tmp_path / "o.tsv"
    cases = [
        (1, "empty.fr: no text", (documents[0], empty, "-o", out)),
        (1, "binary.fr", (documents[0], binary, "-o", out)),
        (1, "missing.fr", (documents[0], tmp_path / "missing.fr", "-o", out)),
        (2, "--output", (*documents, "-o", documents[0], "-o", tmp_path / "y.fr")),
        (2, "--aside", (*documents, "-o", tmp_path / "y.tsv", "--aside", documents[1])),
        (2, "--aside", (*documents, "-o", tmp_path / "y.tsv", "--aside", tmp_path / "y.tsv")),
        (2, "give one file", (*documents, "-o", tmp_path / "o.txt")),
        (2, "--details", (*documents, "-o", tmp_path / "o.en", "-o", tmp_path / "o.fr", "--details")),
    ]
    for code, message, args in cases:
        result = run(*args)
        assert (result.exit_code, message in result.stderr) == (code, True), result.output
    assert not out.exists()


@pytest.mark.parametrize(
    "names", [("m.tmx", "a.de"), ("a.en", "a.tsv.gz"), ("a.zip", "b.zip"), ("m.tmx",), ("a.en", "a.en")]
)
def test_what_is_not_two_files_of_plain_text_is_refused(tmp_path, names):
    paths = [str(tmp_path / name) for name in names]
    for path in paths:
        Path(path).write_text("one\n")
    result = CliRunner().invoke(app, ["data", "align", *paths, "-o", str(tmp_path / "out.tsv")])
    assert result.exit_code == 2
    assert "mtkit data convert" in result.stderr or "a.en: named twice" in result.stderr
