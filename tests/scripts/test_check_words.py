"""scripts/check_words.py finds bad phrases in documentation and in the text of Python files."""

import importlib

import pytest


@pytest.fixture
def check(monkeypatch, tmp_path, capsys):
    """A function that checks a file with this name and text; returns the exit status and what it printed."""
    words = importlib.import_module("check_words")

    def run(name, text):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return words.main([str(path)]), capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    "text",
    [
        "unknown format; say --format",
        "The ending of the name tells the format.",
        '"6 minutes" is no duration',
        "the models' folders are looked at again",
        "the oldest of who has most go first",
        "waits for the end of a head for ever",
        "if the languages are told",
        "nobody knows",
    ],
)
def test_a_bad_phrase_is_shown_with_its_line(check, text):
    status, printed = check("page.md", f"# A page\n\n{text}\n")
    assert status == 1
    assert "page.md:3: " in printed
    assert "write " in printed


@pytest.mark.parametrize(
    "text", ["There is no tag.", "It is no longer needed.", "where there is no model", "the end of a line", "--tellers"]
)
def test_plain_english_passes(check, text):
    assert check("page.md", text) == (0, "")


def test_of_a_python_file_only_comments_and_strings_are_read(check):
    text = 'nobody = 1  # fine\n\n\ndef ending():\n    """Return x.\n\n    Nobody asks.\n    """\n    return nobody\n'
    status, printed = check("module.py", text)
    assert status == 1
    assert [line.split(": ")[0].rpartition(":")[2] for line in printed.splitlines()] == ["7"]
