#!/usr/bin/env python3
"""Find phrases that a native speaker would not write, in documentation, comments, docstrings and messages.

    scripts/check_words.py [FILE ...]       default: all tracked *.md files, and the *.py files of scripts

Prints file:line, the phrase and what to write instead, and exits with 1 if there is any. The phrases are in words.txt.
"""

import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHECKED = ("*.md", "mtkit/*.py", "scripts/*.py")
WORD_LISTS = (":!mtkit/quality/negation.py", ":!scripts/sample_grammar")  # English as data
_TEXT = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def read_phrases(path: Path) -> list[tuple[re.Pattern[str], str]]:
    """Read the patterns, each with its better form."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return [(re.compile(pattern), better) for pattern, better in (line.split("\t") for line in lines)]


def text_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a Markdown file, or of the comments and strings of a Python file, with their numbers."""
    if path.suffix != ".py":
        yield from enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        return
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type in _TEXT:
                yield from enumerate(token.string.splitlines(), start=token.start[0])


def main(names: Sequence[str]) -> int:
    """Check the files and return the exit status."""
    tracked = ["git", "ls-files", "--", *CHECKED, *WORD_LISTS]
    names = names or subprocess.run(tracked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    phrases = read_phrases(Path(__file__).with_name("words.txt"))
    n_found = 0
    for name in names:
        for line, text in text_of(ROOT / name):
            for pattern, better in phrases:
                if match := pattern.search(text):
                    print(f"{name}:{line}: {match[0]!r}: write {better}")
                    n_found += 1
    return min(n_found, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
