"""Any N lines of text become N lines; bytes that are not text are refused with their line. Memory stays bounded."""

import random
import resource

import pytest
from fuzz.mutations import NASTY_WORDS, mutated
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.translation.translator import Translator

WORDS = ["The", "cat", "sleeps", "under", "table", "It", "rains", ",", ".", "I", "love", "oranges"]
MOST_GROWTH_KIB = 300 * 1024


def any_line(rng: random.Random) -> str:
    """Return a line of words and nasty ones, without a line feed; now and then one of 100 kB."""
    words = [rng.choice(NASTY_WORDS if rng.random() < 0.3 else WORDS) for _ in range(rng.choice([0, 1, 3, 8]))]
    if rng.random() < 0.0005:
        words *= 100_000 // max(1, len(" ".join(words)))
    return rng.choice([" ", " ", "", "\t"]).join(words).replace("\n", " ")


@pytest.mark.parametrize("n", [80, pytest.param(10_000, marks=pytest.mark.slow)])
def test_any_lines_become_as_many_lines(shared_bundle, n):
    rng = random.Random(7)
    translator = Translator.load(shared_bundle, beam_size=2, max_len=6, on_suspect="warn")
    lines = [any_line(rng) for _ in range(n)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    translations = translator.translate(lines)
    assert len(translations) == n
    assert all("\n" not in line and "\r" not in line for line in translations)
    assert not any(new for old, new in zip(lines, translations, strict=True) if not old.strip()), "blank stays blank"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_GROWTH_KIB


@pytest.mark.parametrize("n", [20, pytest.param(400, marks=pytest.mark.slow)])
def test_any_file_is_translated_line_by_line_or_refused_with_its_line(shared_bundle, tmp_path, n):
    text = "\n".join(["The cat sleeps.", "", "It rains, it rains.", "I love oranges.\r"] * 3).encode()
    path, n_refused = tmp_path / "any.txt", 0
    for seed in range(n):
        content = mutated(random.Random(seed), text)
        path.write_bytes(content)
        command = ["translate", "--model", shared_bundle, "--input", path, "--set", "decode.max_len=4", "--quiet"]
        done = CliRunner().invoke(app, [*map(str, command), "--beam-size", "1"])
        assert done.exception is None or isinstance(done.exception, SystemExit), (seed, done.exception)
        if done.exit_code:
            n_refused += 1
            bad_line = "any.txt: line" in done.stderr and "UTF-8" in done.stderr
            bad_file = "any.txt: CR ends its lines" in done.stderr and b"\n" not in content
            assert bad_line or bad_file, (seed, done.stderr)
        else:
            n_lines = content.count(b"\n") + (not content.endswith(b"\n") and content != b"")
            assert done.stdout.count("\n") == n_lines, seed
    assert 0 < n_refused < n, "the fuzzer reaches both outcomes"


def test_a_line_of_100_kilobytes_becomes_one_line(shared_bundle):
    translator = Translator.load(shared_bundle, beam_size=1, max_len=2, on_suspect="off")
    for line in ("The cat sleeps. " * 6_500, "a" * 30_000, "\u4e2d" * 10_000):
        [translation] = translator.translate([line])
        assert "\n" not in translation
