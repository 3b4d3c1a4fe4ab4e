"""`mtkit back-translate` and `forward-translate` make corpora from a text and its usable translations.

The translator is real except for its engine, which shifts every letter by 13 places.
"""

import codecs
import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from mtkit.alignment.checks import Checks
from mtkit.augmentation import back_translation
from mtkit.augmentation.back_translation import UsableTranslations, identity_of, noised
from mtkit.bundle import add_to_bundle, read_bundle
from mtkit.cli import app
from mtkit.config.data import TrainCorpus
from mtkit.config.reading.yaml_text import parse_yaml
from mtkit.engines.shortlist import SHORTLIST, Shortlist
from mtkit.quality.faults import Fault
from mtkit.search.hypothesis import Hypothesis
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.translation.translator import Translator

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def shifted(text: str) -> str:
    return codecs.encode(text, "rot13")


class ShiftingEngine:
    """Its candidates: the shifted text, the same with "lrf" at the end, and the first once more."""

    name, arithmetic, max_positions = "shifting", "letters", None

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.texts: list[str] = []
        self.stop_at = "nothing"

    def decode(self, segments, cfg, n_best):
        for number, segment in enumerate(segments):
            text = self.tokenizer.decode(segment.ids)
            if self.stop_at in text:
                raise KeyboardInterrupt
            self.texts.append(text)
            best = "la la la la la la la la la" if "loop" in text else shifted(text)
            candidates = [best, f"{shifted(text)} lrf", best][:n_best]
            yield number, [Hypothesis(self.tokenizer.encode(c), -1.0, -1.0, finished=True) for c in candidates]


@pytest.fixture
def engine(spm, monkeypatch) -> ShiftingEngine:
    engine = ShiftingEngine(Tokenizer.load(spm))
    monkeypatch.setattr("mtkit.translation.translator.choose_engine", lambda *_, **__: engine)
    return engine


@pytest.fixture
def run(shared_bundle, engine):
    def run(command: str, *args: str):
        return CliRunner().invoke(app, [command, "--model", str(shared_bundle), *args])

    return run


LINES = ["I love oranges.", "", "a loop here, my dear", "It\trains.", "so " * 300, "Two cats sleep."]
TEXT = "".join(f"{line}\n" for line in LINES)
GOOD = ["I love oranges.", "It rains.", "Two cats sleep."]


@pytest.fixture(autouse=True)
def text(in_an_empty_folder) -> Path:
    path = Path("mono.txt")
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_back_translation_makes_the_text_the_target_side(run):
    result = run("back-translate", "-i", "mono.txt", "-o", "bt.tsv", "--rejected", "left.tsv")
    assert result.exit_code == 0
    assert Path("bt.tsv").read_text() == "".join(f"{shifted(line)}\t{line}\n" for line in GOOD)
    rejected = [line.split("\t") for line in Path("left.tsv").read_text().splitlines()]
    assert [(number, reason) for number, reason, *_ in rejected] == [("2", "blank"), ("3", "loop"), ("5", "too long")]
    assert rejected[1][2:] == [LINES[2], "la la la la la la la la la"]
    assert sorted(path.name for path in Path().iterdir()) == ["bt.tsv", "left.tsv", "mono.txt"]


def test_a_line_whose_sentences_are_translated_one_by_one_is_not_too_long(shared_bundle, engine):
    translator = Translator.load(shared_bundle, device="cpu")
    translator.reader.by_sentence = True
    first, second = "I love oranges.", "Two cats sleep."
    usable, long = UsableTranslations(translator).translate([f"{first}  {second}", f"{first} {'so ' * 300}"], 1)
    assert usable.translations == [f"{shifted(first)}  {shifted(second)}"]
    assert (long.translations, long.reason) == ([], "too long")
    assert engine.texts == [first, second]


def test_words_that_the_lexicon_does_not_find_make_a_candidate_unusable(shared_bundle, engine):
    class Lexicon(Checks):
        def faults(self, src, text, ids=None, *, finished=True, before=()):
            assert ids == (engine.tokenizer.encode(src), engine.tokenizer.encode(text))
            return () if text.endswith("lrf") else (Fault("omission", "oranges"),)

    translator = Translator.load(shared_bundle, device="cpu", on_suspect="off", beam_size=2)
    translator.checks = Lexicon()
    for n_best, usable, reason in ((2, ["V ybir benatrf. lrf"], ""), (1, [], "omission")):
        [line] = UsableTranslations(translator, n_best=n_best).translate(["I love oranges."], 1)
        assert (line.translations, line.reason) == (usable, reason)


def test_keep_suspect_keeps_translations_with_faults(run):
    options = ("-i", "mono.txt", "-o", "bt.tsv", "--rejected", "left.tsv", "--keep-suspect")
    assert run("back-translate", *options).exit_code == 0
    assert Path("bt.tsv").read_text().splitlines()[1] == f"la la la la la la la la la\t{LINES[2]}"
    assert [line.split("\t")[1] for line in Path("left.tsv").read_text().splitlines()] == ["blank", "too long"]


def test_forward_translation_makes_it_the_source_side(run):
    result = run("forward-translate", "-i", "mono.txt", "--out-src", "ft.src.gz", "--out-tgt", "ft.tgt.gz")
    assert result.exit_code == 0
    assert gzip.decompress(Path("ft.src.gz").read_bytes()).decode() == "".join(f"{line}\n" for line in GOOD)
    expected = "".join(f"{shifted(line)}\n" for line in GOOD)
    assert gzip.decompress(Path("ft.tgt.gz").read_bytes()).decode() == expected


@pytest.mark.parametrize(("command", "tag"), [("back-translate", "<bt>"), ("forward-translate", None)])
def test_the_command_prints_an_entry_for_data_train(run, command, tag):
    [entry] = parse_yaml(run(command, "-i", "mono.txt", "-o", "made.tsv").stdout).value
    assert TrainCorpus.model_validate(entry) == TrainCorpus(tsv=Path("made.tsv").absolute(), tag=tag)


def test_several_translations_of_a_line_follow_each_other_and_all_differ(run):
    assert run("forward-translate", "-i", "mono.txt", "-o", "ft.tsv", "--n-best", "3").exit_code == 0
    pairs = [line.split("\t") for line in Path("ft.tsv").read_text().splitlines()]
    both = [(text, made) for text in GOOD for made in (shifted(text), f"{shifted(text)} lrf")]
    broken_at_first = (LINES[2], f"{shifted(LINES[2])} lrf")
    assert [tuple(pair) for pair in pairs] == [*both[:2], broken_at_first, *both[2:]]


def test_an_interrupted_job_goes_on_and_gives_the_same_bytes(run, engine):
    words = ["abcdefghij"[n // 10] + "abcdefghij"[n % 10] for n in range(40)]
    Path("long.txt").write_text("".join(f"I see {word} oranges.\n" for word in words))
    args = ("back-translate", "-i", "long.txt", "-o", "bt.tsv", "--set", "decode.batch_sentences=1", "--noise")
    engine.stop_at = "see df"
    assert run(*args).exit_code == 130
    assert not Path("bt.tsv").exists()
    n_before, engine.stop_at, engine.texts = len(engine.texts), "nothing", []
    assert run(*args).exit_code == 0
    assert n_before >= 32
    assert engine.texts[0] == "I see dc oranges."
    resumed = Path("bt.tsv").read_bytes()
    assert run(*args).exit_code == 0
    assert Path("bt.tsv").read_bytes() == resumed


def test_what_was_translated_is_kept_when_writing_the_corpus_fails(run, engine, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(back_translation, "write_corpus", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "no room")))
        failed = run("back-translate", "-i", "mono.txt", "-o", "bt.tsv.gz")
    assert failed.exit_code == 1
    assert "no room" in failed.stderr
    engine.texts.clear()
    assert run("back-translate", "-i", "mono.txt", "-o", "bt.tsv.gz").exit_code == 0
    assert engine.texts == []
    assert gzip.decompress(Path("bt.tsv.gz").read_bytes()).decode().count("\n") == len(GOOD)


def test_the_summary_includes_what_an_earlier_process_did(run, engine, caplog):
    caplog.set_level("INFO", "mtkit")
    Path("long.txt").write_text("\n" * 20 + "I love oranges.\n" * 20)
    args = ("forward-translate", "-i", "long.txt", "-o", "ft.tsv", "--set", "decode.batch_sentences=1")
    engine.stop_at = "oranges"
    assert run(*args).exit_code == 130
    engine.stop_at = "nothing"
    result = run(*args)
    assert "ft.tsv: 20 pairs from 20 of 40 lines" in result.stderr
    assert "left out: 20 blank" in result.stderr


WORDS = st.lists(st.integers(0, 10**6).map(str), max_size=40, unique=True)


@given(WORDS, st.integers(0, 5))
def test_noise_drops_words_and_moves_each_three_places_at_most(words, seed):
    noisy = noised(" ".join(words), seed).split()
    assert set(noisy) <= set(words)
    assert bool(noisy) == bool(words)
    kept = [word for word in words if word in noisy]  # their order before
    assert all(abs(noisy.index(word) - place) <= 3 for place, word in enumerate(kept))
    assert noised(" ".join(words), seed).split() == noisy


def test_noise_treats_characters_of_text_without_spaces_as_words():
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 1000)))
    noisy = noised(text, 1, "zh-Hans")
    assert 850 < len(noisy) < 950 and set(noisy) < set(text) and noisy != "".join(sorted(noisy))
    assert noised(text, 1, "fr") == text


def test_noise_splits_no_number_latin_word_or_syllable_with_its_marks():
    text = "在2026年有3.5%的GPU-2是café的ก้กิ่"
    parts = {"2026", "3.5%", "GPU-2", "café", "ก้", "กิ่", *"在年有的是"}
    for seed in range(50):
        noisy = noised(text, seed, "zh")
        for part in sorted(parts, key=len, reverse=True):
            noisy = noisy.replace(part, " ")
        assert not noisy.strip()


@pytest.mark.parametrize(
    ("lang", "words"),
    [
        ("zh", ["cafe\u0301s", "Việt", "２０２６", "don’t", "在"]),
        ("km", ["ស្រី", "ព្រះ", "ខ្មែ", "រ"]),
        ("my", ["သ", "တ္တိ"]),
        ("th", ["น้ำ", "ก้"]),
    ],
)
def test_marks_above_or_below_a_character_move_with_it(lang, words):
    """Between two Latin words stands a character of another script, as their spaces do not count."""
    text = "在".join(words) if lang == "zh" else "".join(words)
    for seed in range(50):
        noisy = noised(text, seed, lang)
        for word in sorted(words, key=len, reverse=True):
            noisy = noisy.replace(word, " ")
        assert not noisy.strip()


def test_noise_drops_a_tenth_and_depends_on_the_text():
    text = " ".join(map(str, range(20_000)))
    noisy = noised(text, 1).split()
    assert 17_800 < len(noisy) < 18_200  # 18,000, with a standard deviation of 42
    assert noisy != sorted(noisy, key=int)
    assert noised(text, 2).split() != noisy
    other = noised(" ".join(map(str, range(1, 20_001))), 1).split()
    assert [str(int(word) - 1) for word in other] != noisy, "as long, but other words: disturbed in other places"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("-i", "mono.txt"), "either --output, or both --out-src and --out-tgt"),
        (("-i", "mono.txt", "--out-src", "a"), "either --output, or both --out-src and --out-tgt"),
        (("-i", "none.txt", "-o", "a"), "--input none.txt: no such file"),
        (("-i", "mono.txt", "-o", "mono.txt"), "mono.txt: the same file as the input mono.txt"),
        (("-i", "mono.txt", "-o", "a", "--rejected", "a"), "--rejected a: the same file as --output"),
        (
            ("-i", "mono.txt", "-o", "t.tsv", "--set", "decode.terminology=t.tsv"),
            "t.tsv: the same file as the input",
        ),
        (("-i", "mono.txt", "-o", "."), "--output .: this is a folder"),
        (("-i", "mono.txt", "-o", "a", "--tag", "bt"), "--tag: bt must be a name without spaces in angle"),
        (
            ("-i", "mono.txt", "-o", "a", "--n-best", "9"),
            "9 translations per line are more than decode.beam_size=3",
        ),
    ],
)
def test_arguments_that_cannot_work_are_refused(run, args, message):
    Path("t.tsv").write_text("source\ttarget\nred\trouge\n")
    result = run("back-translate", *args)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_text_that_gives_no_pair_at_all_is_an_error(run):
    Path("blank.txt").write_text("\n\n")
    result = run("back-translate", "-i", "blank.txt", "-o", "bt.tsv")
    assert result.exit_code == 1
    assert "blank.txt: " in result.stderr and "--rejected" in result.stderr


def test_another_shortlist_is_another_job(bundle):
    identities = []
    for first in (280, 281):
        files = read_bundle(bundle)
        size = Tokenizer.load(bundle / "src.spm").vocab_size
        add_to_bundle(bundle, SHORTLIST, Shortlist.from_lexicon([[]] * size, range(first, 290), size).save)
        files, cfg = read_bundle(bundle), files.config.decode
        identities.append([identity_of([files], cfg.model_copy(update={"shortlist": use})) for use in (False, True)])
    assert identities[0][0] == identities[1][0]
    assert identities[0][1] != identities[1][1]


def test_another_n_best_is_another_job(run, engine):
    engine.stop_at = "cats"
    args = ("back-translate", "-i", "mono.txt", "-o", "bt.tsv", "--set", "decode.batch_sentences=1")
    Path("mono.txt").write_text("I love oranges.\n" * 16 + "Two cats\n")
    assert run(*args).exit_code == 130
    result = run(*args, "--n-best", "2")
    assert result.exit_code == 1
    assert "n_best was 1, now 2" in result.stderr
    engine.stop_at = "nothing"
    assert run(*args).exit_code == 0, "the former job was left alone"
