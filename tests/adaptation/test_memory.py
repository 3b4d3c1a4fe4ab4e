"""A memory becomes train, dev and test text, or a message says why it does not suit the model."""

import random
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tiny_corpus import WORDS
from tiny_models import write_lines

from mtkit.adaptation import general as general_text
from mtkit.adaptation.base_translations import BaseTranslations
from mtkit.adaptation.general import prepare_general
from mtkit.adaptation.memory import add_shortlist, prepare_memory
from mtkit.bundle import add_to_bundle, read_bundle, save_bundle
from mtkit.config.data import CorpusFiles
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.data.corpus import read_pairs
from mtkit.engines.shortlist import SHORTLIST, Shortlist, shortlist_of
from mtkit.errors import DataError
from mtkit.model.transformer import Transformer
from mtkit.pair_files.lines import windows
from mtkit.pair_files.pairs import Pair
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer


@pytest.fixture(scope="module")
def base(shared_bundle, tmp_path_factory):
    """A bundle whose source tokenizer has learned English words, and its target tokenizer French ones."""
    folder = tmp_path_factory.mktemp("base")
    for side, words in (("src", WORDS), ("tgt", WORDS.values())):
        train_tokenizer([" ".join(words)] * 50, TokenizerConfig(vocab_size=290), folder / f"{side}.spm")
    cfg = read_bundle(shared_bundle).config
    cfg = cfg.model_copy(update={"data": cfg.data.model_copy(update={"src_lang": "en", "tgt_lang": "fr"})})
    sizes = [Tokenizer.load(folder / f"{side}.spm").vocab_size for side in ("src", "tgt")]
    weights = Transformer(cfg.model, *sizes).state_dict()
    save_bundle(folder / "model", weights, cfg, folder / "src.spm", folder / "tgt.spm", training={})
    return read_bundle(folder / "model")


@pytest.fixture(scope="module")
def pairs():
    """400 pairs of sentences of eight words that no other pair has."""
    draw = random.Random(1)

    def sentence(letters):
        return " ".join("".join(draw.choices(letters, k=5)) for _ in range(8))

    return [(sentence("abcdefghijk"), sentence("lmnopqrstuv")) for _ in range(400)]


def prepared(paths, memory_sources, held_out, langs, translator, folder, **options):
    kept = BaseTranslations(folder.with_name("kept.json"), {})
    return prepare_general(paths, memory_sources, held_out, langs, translator, kept, folder, **options)


def tsv(path, pairs):
    return write_lines(path, [f"{src}\t{tgt}" for src, tgt in pairs])


@pytest.fixture(autouse=True)
def _without_rules(monkeypatch):
    """Sentences of random words are not good ones; the rules have tests of their own."""
    monkeypatch.setattr("mtkit.corpora.cleaning.clean.active_rules", lambda cfg: ["empty", "max_letters"])
    monkeypatch.setattr("mtkit.adaptation.memory.foreign_lines", lambda *_: {})


def test_the_parts_share_no_pair_and_hold_what_is_clean(base, pairs, tmp_path):
    path = tsv(tmp_path / "memory.tsv", [*pairs, *pairs[:50], ("", "rien")])
    memory = prepare_memory([path], base, tmp_path / "out")
    assert memory.n_read >= 450 and memory.n_clean == 400
    parts = [{(pair.src, pair.tgt) for pair in memory.pairs(part)} for part in ("train", "dev", "test")]
    assert [len(part) for part in parts[1:]] == [40, 60]
    assert parts[0] and not (parts[0] & parts[1] or parts[0] & parts[2] or parts[1] & parts[2])
    assert set.union(*parts) <= {*pairs}
    assert prepare_memory([path], base, tmp_path / "out") == memory, "a second call uses what the first has done"


def test_a_swapped_memory_is_told_the_direction_of_the_model(base, tmp_path):
    drawn = [random.Random(i).choices(list(WORDS), k=8) for i in range(100)]
    path = tsv(tmp_path / "memory.tsv", [(" ".join(map(WORDS.__getitem__, words)), " ".join(words)) for words in drawn])
    with pytest.raises(DataError, match=r"memory\.tsv: its sides are swapped: .* translates en-fr"):
        prepare_memory([path], base, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_memory_in_another_language_is_refused_by_its_name(base, pairs, tmp_path, monkeypatch):
    monkeypatch.setattr("mtkit.adaptation.memory.foreign_lines", lambda texts, lang, *_: {0: "de 1.00"})
    path = tsv(tmp_path / "memory.tsv", pairs)
    with pytest.raises(DataError, match=r"the source side is in German, but .* translates en-fr"):
        prepare_memory([path], base, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_memory_in_another_script_is_refused_before_it_is_cleaned(base, pairs, tmp_path):
    path = tsv(tmp_path / "memory.tsv", [(src, "Комитет утвердил план") for src, _ in pairs])
    with pytest.raises(DataError, match=r"the target side is in another script, but .* translates en-fr"):
        prepare_memory([path], base, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("n", "times", "finding"),
    [(10, 1, "only 10 pairs, "), (1, 500, r"only 1 pair of 500 after cleaning \(dropped: 499 ")],
)
def test_too_small_a_memory_is_refused(base, pairs, tmp_path, n, times, finding):
    path = tsv(tmp_path / "memory.tsv", pairs[:n] * times)
    with pytest.raises(DataError, match=rf"memory\.tsv: {finding}.* at least 100 .*decode\.terminology"):
        prepare_memory([path], base, tmp_path / "out")
    assert not (tmp_path / "out" / "parts").exists()


def test_a_memory_of_segments_that_are_like_each_other_is_refused_with_what_it_is_good_for(base, tmp_path):
    alike = [(f"Press the button number {n} twice.", f"Appuyez deux fois sur le bouton {n}.") for n in range(300)]
    path = tsv(tmp_path / "memory.tsv", alike)
    with pytest.raises(DataError, match=r"memory\.tsv: too many .* 75 different ones aside.*use it as decode\.memory"):
        prepare_memory([path], base, tmp_path / "out")


def test_characters_without_pieces_are_reported(base, pairs, tmp_path, log_text, monkeypatch):
    path = tsv(tmp_path / "memory.tsv", [(f"{src} ℃ ℃", tgt) for src, tgt in pairs])
    memory = prepare_memory([path], base, tmp_path / "out")
    assert memory.unseen[0].startswith("source side: ") and "℃ (800 times)" in memory.unseen[0]
    logged = log_text()
    assert "℃ (800 times)" in logged
    assert "--new-pieces" in logged
    prepare_memory([path], base, tmp_path / "out", gets_pieces=True)
    assert "--new-pieces" not in log_text(), "who asked for them need not be told"
    monkeypatch.setattr("mtkit.adaptation.memory.can_have_more", lambda tokenizer: False)  # such as one of characters
    prepare_memory([path], base, tmp_path / "out")
    assert "--new-pieces" not in log_text()


def test_a_tuned_model_has_the_shortlist_of_its_base_and_the_words_of_the_memory(base, tmp_path):
    copies = [Path(shutil.copytree(base.folder, tmp_path / name)) for name in ("base", "tuned", "none")]
    sizes = base.src_tokenizer.vocab_size, base.tgt_tokenizer.vocab_size
    last = sizes[1] - 1
    add_to_bundle(copies[0], SHORTLIST, Shortlist.from_lexicon([[last]] * sizes[0], [], sizes[1]).save)
    word, translation = next(iter(WORDS.items()))
    pairs = [Pair(word, translation, "memory.tsv", 1)] * 9
    add_shortlist(read_bundle(copies[1]), read_bundle(copies[0]), pairs)
    joined = shortlist_of(read_bundle(copies[1]))
    allowed = joined.ids_of(base.src_tokenizer.encode(word)).tolist()
    assert {last, *base.tgt_tokenizer.encode(translation)} <= {*allowed}
    add_shortlist(read_bundle(copies[2]), base, pairs)
    assert not (copies[2] / SHORTLIST).exists(), "the base has none"


class Shouting:
    """Stands in for a translator: it answers in capitals, and its answer to "fault" looks broken."""

    def __init__(self):
        self.asked: list[str] = []
        self.n_texts = 0

    def stream(self, lines, *, window):
        self.n_texts += 1
        for chunk in windows(lines, window):
            self.asked += chunk
            yield from map(self._translated, chunk)

    def _translated(self, line):
        return SimpleNamespace(text=line.upper(), faults=("loop",) if line == "fault" else ())


TRANSLATOR: Any = Shouting()


def test_general_text_gives_sources_to_mix_in_and_references_to_measure_by(tmp_path):
    lines = [f"line {i}" for i in range(100)]
    path = tsv(tmp_path / "general.tsv", [(line, f"ligne {line}") for line in lines])
    general = prepared([path], [], set(), ("en", "fr"), TRANSLATOR, tmp_path / "out", n_mix=20, seconds=1e9)
    read = {part: [pair[:2] for pair in read_pairs([getattr(general, part)])] for part in ("mix", "dev", "test")}
    assert [len(read[part]) for part in read] == [20, 25, 30] == [general.n_mix, 25, 30]
    assert general.has_references and all(tgt == f"ligne {src}" for part in ("dev", "test") for src, tgt in read[part])
    assert all(tgt == src.upper() for src, tgt in read["mix"])
    assert len({src for part in read.values() for src, _ in part}) == 75


def test_general_text_without_references_keeps_its_sources_to_compare_the_models_on(tmp_path):
    path = write_lines(tmp_path / "general.txt", [*(f"line {i}" for i in range(99)), "fault"])
    general = prepared([path], [], set(), ("en", "fr"), TRANSLATOR, tmp_path / "out", n_mix=1000, seconds=1e9)
    assert not general.has_references
    assert general.dev and general.test
    assert all(pair.src and not pair.tgt for pair in read_pairs([general.dev, general.test]))
    assert general.n_mix in (44, 45) and all(pair.src != "fault" for pair in read_pairs([general.mix]))


def test_source_text_beside_pairs_is_mixed_in_but_does_not_judge(tmp_path):
    pairs = [(f"line {i}", f"ligne {i}") for i in range(100)]
    texts = [write_lines(tmp_path / f"text.{side}", [pair[side] for pair in pairs]) for side in (0, 1)]
    more = write_lines(
        tmp_path / "more.txt", ["line 1", "memory", "held", "", *(f"more {i}" for i in range(50)), "more 1"]
    )
    for paths in ([tsv(tmp_path / "general.tsv", pairs), more], [*texts, more]):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        general = prepared(
            paths, ["memory"], {"held"}, ("en", "fr"), TRANSLATOR, tmp_path / "out", n_mix=65, seconds=1e9
        )
        assert general.has_references and general.dev and general.test
        judging = {pair.src for pair in read_pairs([general.dev, general.test])}
        mixed = [pair[:2] for pair in read_pairs([general.mix])]
        assert len(judging) == 55 and judging <= {src for src, _ in pairs}
        assert len({src for src, _ in mixed}) == len(mixed) == 65 and all(tgt == src.upper() for src, tgt in mixed)
        assert {src for src, _ in pairs} - judging < {src for src, _ in mixed}, "the text that judges is like these"
        assert [src for src, _ in mixed if src.startswith("more")] == [f"more {i * 50 // 20}" for i in range(20)]


def test_of_several_files_of_general_text_the_log_says_what_each_is_taken_for(tmp_path, log_text):
    rows = [(f"line {i}", f"ligne {i}") for i in range(60)]
    fr, en, more = (
        write_lines(tmp_path / name, [row[side] for row in rows])
        for side, name in ((1, "a.fr"), (0, "a.en"), (0, "more.en"))
    )
    both = tsv(tmp_path / "both.tsv", rows)
    prepared([both, fr, en, more], [], set(), ("en", "fr"), TRANSLATOR, tmp_path / "out", n_mix=9, seconds=1e9)
    logged = log_text()
    assert f"{both} as pairs" in logged
    assert f"{en} with {fr} as pairs" in logged
    assert f"{more} as text in the source language" in logged


def test_beside_much_source_text_more_of_the_pairs_choose_the_weights(tmp_path):
    path = tsv(tmp_path / "general.tsv", [(f"line {i}", f"ligne {i}") for i in range(100)])
    for n, n_dev in ((99, 25), (100, 50)):
        more = write_lines(tmp_path / "more.txt", [f"more {i}" for i in range(n)])
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        general = prepared([path, more], [], set(), ("en", "fr"), TRANSLATOR, tmp_path / "out", n_mix=99, seconds=1e9)
        assert general.dev and general.test
        assert [len(list(read_pairs([text]))) for text in (general.dev, general.test)] == [n_dev, 30]


def test_without_general_text_the_memorys_own_sources_are_mixed_in(tmp_path):
    general = prepared([], ["a", "b", "b"], set(), None, TRANSLATOR, tmp_path / "out", n_mix=9, seconds=1e9)
    assert [pair[:2] for pair in read_pairs([general.mix])] == [("a", "A"), ("b", "B")]
    assert general.dev is None and general.test is None


def test_references_take_the_place_of_translations_for_which_there_is_no_time(tmp_path):
    path = tsv(tmp_path / "general.tsv", [(f"line {i}", f"ligne {i}") for i in range(100)])
    general = prepared([path], [], set(), ("en", "fr"), TRANSLATOR, tmp_path / "out", n_mix=20, seconds=-1)
    assert {pair.tgt.replace("ligne", "line") == pair.src for pair in read_pairs([general.mix])} == {True}
    assert general.n_mix == 20


def test_the_training_text_of_the_base_is_mixed_in_but_not_measured(tmp_path):
    dev, train = (
        CorpusFiles(tsv=tsv(tmp_path / f"{name}.tsv", [(f"{name} {i}", f"{name} fr {i}") for i in range(60)]))
        for name in ("dev", "train")
    )
    general = prepared(
        [], ["dev 1"], {"train 1"}, None, TRANSLATOR, tmp_path / "out", n_mix=99, seconds=1e9, of_base=([dev], [train])
    )
    assert general.dev and general.test
    measured = {pair.src for pair in read_pairs([general.dev, general.test])}
    mixed = {pair.src for pair in read_pairs([general.mix])}
    assert {src.split()[0] for src in measured} == {"dev"} and not measured & mixed
    assert len([*read_pairs([general.dev])]) == 30, "half of the 59 dev pairs, because there is other text to train on"
    assert {f"train {i}" for i in range(60) if i != 1} < mixed and not {"dev 1", "train 1"} & mixed


def test_of_a_large_training_text_pairs_from_everywhere_are_mixed_in(tmp_path, monkeypatch):
    monkeypatch.setattr(general_text, "_MOST_OF_BASE", 20)
    dev, train = (
        CorpusFiles(tsv=tsv(tmp_path / f"{name}.tsv", [(f"{name} {i}", f"{name} fr {i}") for i in range(60)]))
        for name in ("dev", "train")
    )
    general = prepared(
        [], [], set(), None, TRANSLATOR, tmp_path / "out", n_mix=99, seconds=1e9, of_base=([dev], [train])
    )
    mixed = [pair.src for pair in read_pairs([general.mix])]
    assert [src for src in mixed if src.startswith("train")] == [f"train {i}" for i in range(0, 60, 3)]


def test_what_the_model_has_translated_is_not_translated_again(tmp_path):
    translator: Any = Shouting()
    lines = [f"line {i}" for i in range(8)]
    for name, n, sources in (("one", 6, lines[:6]), ("two", 9, lines[2:])):
        shutil.rmtree(tmp_path / "general", ignore_errors=True)
        general = prepared([], sources, set(), None, translator, tmp_path / "general", n_mix=n, seconds=1e9)
        assert {pair[:2] for pair in read_pairs([general.mix])} == {(src, src.upper()) for src in sources}, name
    assert translator.asked == lines


@pytest.mark.parametrize(("seconds", "n_translated"), [(1e9, 200), (130.0, 192), (-1.0, 0)])
def test_general_text_is_translated_as_one_text_until_the_time_is_over(
    tmp_path, log_text, monkeypatch, seconds, n_translated
):
    translator: Any = Shouting()
    monkeypatch.setattr(general_text, "time", SimpleNamespace(monotonic=lambda: float(len(translator.asked))))
    path = write_lines(tmp_path / "general.txt", [f"line {i}" for i in range(444)])
    general = prepared([path], [], set(), None, translator, tmp_path / "out", n_mix=200, seconds=seconds)
    assert (general.n_mix, translator.n_texts) == (n_translated, 1)
    told = f"translated {n_translated} of 200 general sentences in the time for them"
    assert (told in log_text()) == (n_translated < 200)


def test_general_text_leaves_out_the_memorys_own_sources(tmp_path):
    path = write_lines(tmp_path / "general.txt", [f"line {i}" for i in range(100)])
    memory, held_out = ["line 1", "line 2"], {"line 3", "line 4"}
    general = prepared([path], memory, held_out, None, TRANSLATOR, tmp_path / "out", n_mix=100, seconds=1e9)
    assert general.dev and general.test
    sources = {pair.src for pair in read_pairs([general.mix, general.dev, general.test])}
    assert len(sources) == 96 and not sources & {*memory, *held_out}


def test_too_little_general_text_is_refused_and_leaves_nothing(tmp_path):
    path = write_lines(tmp_path / "general.txt", ["line"] * 60)
    with pytest.raises(DataError, match=r"general\.txt: only 1 line"):
        prepared([path], [], set(), None, TRANSLATOR, tmp_path / "out", n_mix=9, seconds=1e9)
    assert not (tmp_path / "out").exists()
