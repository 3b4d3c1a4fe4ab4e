"""The report of a corpus: what was planted is found, counted and shown, and samples say how sure they are."""

import json
import random

import pytest
from browsing import check_page
from fuzz.test_pages import HOSTILE, assert_harmless

from mtkit.config.augment import NOTHING
from mtkit.config.tokenizer import TokenizersConfig
from mtkit.corpora import report as reporting
from mtkit.corpora.report import report_corpus
from mtkit.corpora.report_words import as_json, is_unusual, text_table, write_report_page
from mtkit.corpora.streams import DistinctCount, EvenSample, hashes_of, sampled_share
from mtkit.evaluation.metrics.classification import wilson_interval
from mtkit.pair_files.pairs import Pair

ENGLISH = [
    "the",
    "small",
    "house",
    "stands",
    "near",
    "river",
    "and",
    "every",
    "morning",
    "my",
    "old",
    "friend",
    "reads",
    "his",
    "paper",
    "before",
    "work",
]
GERMAN = [
    "das",
    "kleine",
    "haus",
    "steht",
    "am",
    "fluss",
    "und",
    "jeden",
    "morgen",
    "liest",
    "mein",
    "alter",
    "freund",
    "seine",
    "zeitung",
    "vor",
    "der",
    "arbeit",
]


def clean_pairs(n, seed=1):
    rng = random.Random(seed)
    return [(f"Yes, {' '.join(rng.sample(ENGLISH, 8))}.", f"Ja, {' '.join(rng.sample(GERMAN, 8))}.") for _ in range(n)]


PLANTED = {
    "numbers": ("We sold 47 of the old houses near the river.", "Wir haben 52 der alten Häuser am Fluss verkauft."),
    "urls": ("Read more on www.example.org about the old house.", "Mehr über das alte Haus steht in der Zeitung."),
    "tags": ("The <b>old</b> house stands near the river.", "Das alte Haus steht am Fluss in der Stadt."),
    "placeholders": ("The file {name} was not found there.", "Die Datei wurde dort leider nicht gefunden."),
    "encoding": ("The doors of the old house are closed.", "Die T\ufffdren des alten Hauses sind zu."),
    "mojibake": ("The doors of the house are green today.", "Die TÃ¼ren des Hauses sind heute grÃ¼n."),
    "min_script_share": ("My old friend reads every morning.", "Мой старый друг читает каждое утро."),
    "end": ("Does your friend read the paper every day?", "Dein Freund liest die Zeitung jeden Tag."),
    "repairs": ("The  house   stands near the river now.", "Das Haus steht jetzt am Fluss da unten."),
}


def noisy_pairs():
    """400 clean pairs, one of each planted kind, ten repeats, four near repeats, three sources with another target."""
    pairs = clean_pairs(400)
    pairs += PLANTED.values()
    pairs += pairs[100:110]
    pairs += [(src.upper(), tgt.removesuffix(".") + " !") for src, tgt in pairs[20:24]]
    pairs += [
        (src, f"Nein, {other}") for (src, _), (_, other) in zip(pairs[30:33], clean_pairs(3, seed=9), strict=True)
    ]
    return [Pair(src, tgt, "a.en", line) for line, (src, tgt) in enumerate(pairs, start=1)]


@pytest.fixture(scope="module")
def report():
    pairs = noisy_pairs()
    return report_corpus(lambda: iter(pairs), ("en", "de"))


def shares(report):
    return {finding.name: finding for finding in report.findings}


def test_what_was_planted_is_counted_and_shown_with_its_line(report):
    found = shares(report)
    lines = {kind: 401 + i for i, kind in enumerate(PLANTED)}
    for kind, line in lines.items():
        assert f"a.en:{line}" in [example.place for example in found[kind].examples], kind
        assert found[kind].share.n == 1, kind
    assert report.n_pairs == report.n_judged == report.n_compared == 426
    assert (found["repeats"].share.n, found["near repeats"].share.n) == (10, 4)
    assert found["several translations"].share.n == 3
    assert found["repeats"].examples[0].detail == "as a.en:101"


def test_each_example_of_a_near_repeat_shows_the_pair_that_it_repeats(report):
    example = shares(report)["near repeats"].examples[0]
    assert example.detail.startswith("as a.en:21: ") and example.src.casefold() in example.detail.casefold()


def test_what_is_more_than_usual_comes_first_in_the_table(report):
    table = text_table(report)
    first = table.split("\n")[3]
    assert first.startswith("!  repeated pairs") and "2.3 %" in first
    assert not is_unusual(shares(report)["end"]) and is_unusual(shares(report)["numbers"]) is False
    assert is_unusual(shares(report)["urls"])


def test_clean_text_has_nothing_unusual_but_what_its_few_words_cause():
    pairs = [Pair(src, tgt, "a.en", line) for line, (src, tgt) in enumerate(clean_pairs(300), start=1)]
    found = report_corpus(lambda: iter(pairs), ("en", "de"))
    assert [finding.name for finding in found.findings if is_unusual(finding)] == []


@pytest.mark.parametrize(
    ("settings", "n_src", "n_tgt", "shown"),
    [
        ({}, 1, 0, "\uff0c -> ,"),
        ({"tgt": {"normalization": "nmt_nfkc"}}, 1, 2, "\xb2 -> 2"),
        ({"shared": True}, 0, 0, ""),
    ],
)
def test_characters_that_tokenizers_would_change_are_counted(settings, n_src, n_tgt, shown):
    pairs = [*clean_pairs(6), ("Yes\uff0c it is.", "Ja, 3 m\xb2."), ("Yes, so it is.", "Ja, 3 m\xb2 sind es.")]
    pairs = [Pair(src, tgt, "a.en", line) for line, (src, tgt) in enumerate(pairs, start=1)]
    tokenizer = TokenizersConfig.model_validate(settings)
    found = report_corpus(lambda: iter(pairs), ("en", "de"), tokenizer=tokenizer)
    findings = [shares(found)[f"normalized {side}"] for side in ("src", "tgt")]
    assert [finding.share.n for finding in findings] == [n_src, n_tgt]
    assert shown in " ".join(example.detail for finding in findings for example in finding.examples)
    assert shown in text_table(found)


def test_a_report_shows_what_training_changes():
    pairs = [Pair(src, tgt, "a.en", line) for line, (src, tgt) in enumerate(clean_pairs(6), start=1)]
    augment = NOTHING.model_copy(update={"capitals": 0.05})
    found = report_corpus(lambda: iter(pairs), ("en", "de"), augment=augment)
    [example] = found.changes
    assert (example.src, example.tgt) == (pairs[0].src.upper(), pairs[0].tgt.upper())
    lines = text_table(found).splitlines()
    assert f"Training changes 5 % capitals: {example.src} | {example.tgt}" in lines, "with no other mark at its end"
    assert as_json(found)["changes"][0]["src"] == example.src


def test_words_and_vocabulary_are_counted(report):
    src, tgt = report.sides
    texts = [pair.src for pair in noisy_pairs()]
    assert src.n_words == sum(len(text.split()) for text in texts)
    assert src.n_characters == sum(map(len, texts))
    assert src.growth[-1][1] >= len({*ENGLISH, "yes"}) and src.growth[0] == (0, 0)
    assert tgt.scripts["Cyrillic"] > 0 and sum(tgt.scripts.values()) == pytest.approx(1)
    assert len(src.longest[0].src) == max(map(len, texts))


def test_a_large_corpus_is_sampled_evenly_and_says_so(monkeypatch):
    monkeypatch.setattr(reporting, "_MOST_BLOCKS", 32)
    texts = clean_pairs(4000)
    texts[::5] = [(src, src) for src, _ in texts[::5]]
    pairs = [Pair(src, tgt, "a.en", line) for line, (src, tgt) in enumerate(texts, start=1)]
    found = report_corpus(lambda: iter(pairs), ("en", "de"))
    share = shares(found)["copies"].share
    assert 16 * 16 <= found.n_judged <= 32 * 16 < found.n_pairs == 4000
    assert share.low < 0.2 < share.high and share.high - share.low < 0.15
    assert "of 4,000 pairs, evenly spaced" in text_table(found)


def test_dev_that_is_in_the_corpus_is_found():
    pairs = noisy_pairs()
    found = shares(report_corpus(lambda: iter(pairs), ("en", "de"), {"dev": pairs[:3]}))
    assert found["dev: pair"].share == (3, 3, None, None)
    assert found["dev: pair"].examples[0].detail == "as a.en:1"


def test_an_even_sample_is_every_nth_item():
    for n in (1, 7, 8, 9, 100, 1000):
        sample: EvenSample[int] = EvenSample(8)
        for index in range(n):
            if sample.wants(index):
                sample.items.append(index)
        assert sample.items == list(range(0, n, sample.every)) and len(sample.items) <= 8
        assert len(sample.items) >= min(n, 4)


def test_the_interval_is_wilsons_and_wider_where_neighbours_are_alike():
    assert wilson_interval(0.1, 100) == pytest.approx(
        (0.0552, 0.1744), abs=1e-4
    )  # R: prop.test(10, 100, correct = FALSE)
    assert wilson_interval(0.0, 0.0) == (0.0, 1.0)
    spread = sampled_share([1] * 64, [16] * 64)
    clustered = sampled_share([16] * 4 + [0] * 60, [16] * 64)
    assert spread.value == clustered.value == 1 / 16
    assert spread.low and spread.high and clustered.low and clustered.high
    assert clustered.low < spread.low < 1 / 16 < spread.high < clustered.high


def test_distinct_texts_are_counted_exactly_or_estimated():
    texts = [str(n % 5000) for n in range(20_000)]
    for most, error in ((10_000, 0), (1000, 500)):
        count = DistinctCount(most)
        for start in range(0, len(texts), 300):
            count.add(hashes_of(texts[start : start + 300]))
        assert abs(count.count() - 5000) <= error and count.is_exact == (not error)


def test_the_json_has_the_figures(report):
    values = json.loads(json.dumps(as_json(report)))
    assert values["n_pairs"] == 426 and values["sides"][0]["words_per_line"]["50"] == 9
    repeats = next(finding for finding in values["findings"] if finding["name"] == "repeats")
    assert repeats["share"] == {"n": 10, "of": 426, "value": 10 / 426, "low": None, "high": None}
    assert repeats["is_unusual"]


def test_the_page_reads_well_in_a_browser(browser, report, tmp_path):
    path = tmp_path / "report.html"
    write_report_page(path, report, "a.en a.de", "a.en a.de")
    check_page(browser, path, tmp_path)
    assert "mtkit data clean a.en a.de --output clean.tsv" in path.read_text(encoding="utf-8")


def test_hostile_text_is_shown_and_not_executed(browser, tmp_path):
    pairs = [Pair(text, other, "<b>.en", 1) for text in HOSTILE for other in (*HOSTILE[:3], "Ein Haus.")] * 2
    path = tmp_path / "report.html"
    write_report_page(path, report_corpus(lambda: iter(pairs), ("<i>", "de")), f"{HOSTILE[0]}", HOSTILE[1])
    assert_harmless(browser, path)
    assert "&lt;script&gt;" in path.read_text(encoding="utf-8")
