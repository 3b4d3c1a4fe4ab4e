"""A cleaning over shards is that of one window, whatever the executor; what the whole corpus shows is found."""

import gzip
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.config.cleaning import CleanConfig
from mtkit.config.data import CorpusFiles
from mtkit.corpora.cleaning import job as clean_job
from mtkit.corpora.cleaning import translations
from mtkit.corpora.cleaning.outputs import one_output
from mtkit.corpora.cleaning.translations import find_translations, write_sources
from mtkit.errors import DataError, MtkitError
from mtkit.jobs.executors import InProcess, Processes
from mtkit.jobs.job import Job, Stage, run_job
from mtkit.pair_files.lines import read_lines

PAIRS = [
    ("Good morning.", "Guten Morgen."),
    ("I have 12 apples.", "Ich habe 13 Äpfel."),
    ("Good  morning.", "Guten Morgen."),  # the same as line 1 once spaces are repaired
    ("Good morning.", "Morgen!"),
    ("", "Nichts."),
    ("Good night.", "Gute Nacht."),
    ("Good night.", "Schlaf gut."),
    ("Good night.", "Schlaf gut."),
]


@pytest.fixture
def corpus(tmp_path):
    for side, name in enumerate(("a.en", "a.de")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS))
    return CorpusFiles(src=tmp_path / "a.en", tgt=tmp_path / "a.de")


def clean(corpora, folder, keys=None, executor=None, names=("out.en", "out.de")):
    cfg = CleanConfig.model_validate(keys or {})
    output = one_output([folder / name for name in names], None, corpora)
    result = clean_job.run_clean(corpora, ("en", "de"), cfg, [output], executor=executor or InProcess(), restart=True)
    assert result is not None
    return result, output


def rejections(output):
    rows = [line.split("\t") for line in gzip.decompress(output.rejected.read_bytes()).decode().splitlines()]
    assert rows[0] == ["file", "line or unit", "rule", "value", "source", "target"]
    return [(int(row[1]), row[2], row[3]) for row in rows[1:]]


def test_every_pair_is_kept_in_order_or_listed_with_its_line_and_rule(corpus, tmp_path):
    result, output = clean([corpus], tmp_path)
    assert (tmp_path / "out.en").read_text().splitlines() == [*["Good morning."] * 2, *["Good night."] * 2]
    assert (tmp_path / "out.de").read_text().splitlines() == ["Guten Morgen.", "Morgen!", "Gute Nacht.", "Schlaf gut."]
    assert rejections(output) == [
        (2, "numbers", "source only: 12; target only: 13"),
        (3, "duplicates", f"same as {tmp_path}/a.en:1"),
        (5, "empty", "source:"),
        (8, "duplicates", f"same as {tmp_path}/a.en:7"),
    ]
    assert (result.n_pairs, result.n_kept, result.n_changed) == (8, 4, 1)
    assert {rule: n for rule, n in result.dropped.items() if n} == {"empty": 1, "numbers": 1, "duplicates": 2}
    assert not (tmp_path / "out.en.mtkit-job").exists()


def test_near_duplicates_are_dropped_if_asked_for_and_name_the_earlier_line(tmp_path):
    pairs = [
        ("We will meet again at 7 in the morning.", "Wir treffen uns um 7 am Morgen wieder."),
        ("Nobody knows where the old man has gone.", "Niemand weiß, wohin der alte Mann gegangen ist."),
        ("WE WILL MEET AGAIN AT 9 IN THE MORNING!", "Wir treffen uns um 9 am Morgen wieder!"),
        ("Nobody knows where the old man has gone.", "Niemand weiß, wohin der alte Mann gegangen ist."),
    ]
    for side, name in enumerate(("a.en", "a.de")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    corpora = [CorpusFiles(src=tmp_path / "a.en", tgt=tmp_path / "a.de")]
    result, output = clean(corpora, tmp_path, {"near_duplicates": True})
    assert rejections(output) == [
        (3, "near_duplicates", f"nearly the same as {tmp_path}/a.en:1"),
        (4, "duplicates", f"same as {tmp_path}/a.en:2"),
    ]
    assert (result.n_kept, result.dropped["near_duplicates"]) == (2, 1)
    assert clean(corpora, tmp_path)[0].n_kept == 3


def test_the_first_or_the_most_frequent_translation_of_a_source_stays(corpus, tmp_path):
    _, output = clean([corpus], tmp_path, {"translations": "first"})
    assert {(line, rule) for line, rule, _ in rejections(output)} >= {(4, "translations"), (7, "translations")}
    assert (tmp_path / "out.de").read_text().splitlines() == ["Guten Morgen.", "Gute Nacht."]
    clean([corpus], tmp_path, {"translations": "most_frequent"})
    assert (tmp_path / "out.de").read_text().splitlines() == ["Guten Morgen.", "Schlaf gut."]
    clean([corpus], tmp_path, {"translations": "most_frequent", "duplicates": False})
    assert (tmp_path / "out.de").read_text().splitlines() == ["Guten Morgen."] * 2 + ["Schlaf gut."] * 2


def test_windows_and_processes_change_no_byte(corpus, tmp_path, monkeypatch):
    names = ("out.tsv.gz",)
    result, output = clean([corpus, corpus], tmp_path, names=names)
    before = gzip.decompress(output.kept[0].read_bytes()), rejections(output), result
    monkeypatch.setattr(clean_job, "WINDOW_PAIRS", 3)
    with_shards, output = clean([corpus, corpus], tmp_path, executor=Processes(2), names=names)
    assert (gzip.decompress(output.kept[0].read_bytes()), rejections(output), with_shards) == before


def test_scores_are_those_of_the_pairs_of_all_corpora_in_order(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(clean_job, "WINDOW_PAIRS", 3)
    scores = tmp_path / "scores.tsv"
    scores.write_text("".join(f"{i}\tmore\n" for i in range(16)))
    keys = {"score": scores, "min_score": 13, "duplicates": False}
    result, _ = clean([corpus, corpus], tmp_path, keys)
    assert result.alone["min_score"] == 13
    assert (tmp_path / "out.de").read_text().splitlines() == ["Gute Nacht.", *["Schlaf gut."] * 2]
    scores.write_text("1\n" * 15)
    with pytest.raises(DataError, match=r"15 lines for 16 pairs"):
        clean([corpus, corpus], tmp_path, keys)
    scores.write_text("1\nx\n" * 8)
    with pytest.raises(DataError, match=r"line 2: 'x'"):
        clean([corpus, corpus], tmp_path, keys)


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_an_empty_corpus_gives_files_that_can_be_read(tmp_path, ending):
    for name in ("a.en", "a.de"):
        (tmp_path / name).touch()
    corpora = [CorpusFiles(src=tmp_path / "a.en", tgt=tmp_path / "a.de")]
    _, output = clean(corpora, tmp_path, names=(f"out.en{ending}", f"out.de{ending}"))
    assert [path.stat().st_size > 0 for path in output.kept] == [True, True]
    assert [list(read_lines(path)) for path in output.kept] == [[], []]


def test_an_interrupted_cleaning_of_other_languages_of_a_file_is_refused(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    path = tmp_path / "a.csv"
    path.write_text("en,de,fr\nHouse,Haus,maison\n")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(clean_job, "_join", interrupt)
        clean([CorpusFiles(file=path, langs=("en", "fr"))], tmp_path)
    corpora = [CorpusFiles(file=path, langs=("en", "de"))]
    output = one_output([tmp_path / "out.en", tmp_path / "out.de"], None, corpora)
    with pytest.raises(MtkitError, match=r"differs: settings\.read.*fr.*de"):
        clean_job.run_clean(corpora, ("en", "de"), CleanConfig(), [output], executor=InProcess())


@dataclass(frozen=True)
class WriteSources:
    shards: list[list[tuple[str, str]]]

    def __call__(self, index: int, folder: Path) -> dict[str, int]:
        pairs = self.shards[index]
        write_sources(folder, [src for src, _ in pairs], [tgt for _, tgt in pairs], range(len(pairs)))
        return {}


SHARDS = st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), max_size=6), max_size=4)


@given(SHARDS, st.sampled_from(["first", "most_frequent"]), st.sampled_from([1, 3, 100]))
def test_translations_are_chosen_as_one_counter_would(shards, choose, partition_pairs):
    def make(job: Job) -> list[set[int]]:
        job.run(Stage("rules", WriteSources(shards), len(shards)))
        chosen = find_translations(job, "rules", len(shards), sum(map(len, shards)), choose)
        dropped = [{*chosen.of_shard(shard)} for shard in range(len(shards))]
        job.finish(lambda: None)
        return dropped

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(translations, "_PARTITION_PAIRS", partition_pairs)
        dropped = run_job(Path(folder) / "out", make, inputs=(), settings={}, executor=InProcess())
    counts: dict[str, Counter[str]] = {}  # a Counter keeps the order of first occurrences
    for src, tgt in (pair for shard in shards for pair in shard):
        counts.setdefault(src, Counter())[tgt] += 1
    best = {src: next(iter(c)) if choose == "first" else c.most_common(1)[0][0] for src, c in counts.items()}
    assert dropped == [{i for i, (src, tgt) in enumerate(shard) if tgt != best[src]} for shard in shards]
