"""Distillation: the teachers' translations as the student's text. The teachers' engine here is a dictionary."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from mtkit.augmentation.distillation import in_fast_precision, with_teachers_text
from mtkit.bundle import read_bundle, save_bundle
from mtkit.cli import app
from mtkit.config.data import TrainCorpus
from mtkit.config.distillation import DISTILLED, DistillConfig
from mtkit.config.reading.loading import dump_config, load_config
from mtkit.config.reading.yaml_text import parse_yaml
from mtkit.config.schema import Config
from mtkit.config.tags import tags_of
from mtkit.engines import choose
from mtkit.engines.int8_scores import save_int8_scores
from mtkit.errors import BundleError, ConfigError, DataError, MtkitError
from mtkit.model.transformer import Transformer
from mtkit.runs.train import train
from mtkit.search.hypothesis import Hypothesis
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer
from mtkit.translation.translator import Translator

MEANINGS = {"red": "rouge", "cats": "chats", "sleep": "dorment", "dogs": "chiens", "run": "courent", "now": "ici"}
SOURCES = ["red cats sleep", "dogs run now", "", "red dogs sleep now"]
REFERENCES = ["cats rouge dorment", "chiens courent", "vide", "rouge chiens dorment ici"]


def word_by_word(text: str) -> str:
    return " ".join(MEANINGS[word] for word in text.split())


class DictionaryEngine:
    """Its candidates: word by word, then with the first two words swapped, then without the last word."""

    name, arithmetic, max_positions = "dictionary", "words", None

    def __init__(self, tokenizers: tuple[Tokenizer, Tokenizer]):
        self.src, self.tgt = tokenizers
        self.texts: list[str] = []
        self.tags: set[str | None] = set()
        self.beam_sizes: set[int] = set()
        self.stop_at: str | None = None

    def decode(self, segments, cfg, n_best):
        for number, segment in enumerate(segments):
            text = self.src.decode(segment.ids)
            if text == self.stop_at:
                raise KeyboardInterrupt
            self.texts.append(text)
            self.tags.add(cfg.tag)
            self.beam_sizes.add(cfg.beam_size)
            words = word_by_word(text.removeprefix(cfg.tag or "").strip()).split()
            found = [words, [words[1], words[0], *words[2:]], words[:-1]][:n_best]
            texts = [" ".join(candidate) for candidate in found]
            yield number, [Hypothesis(self.tgt.encode(candidate), -1.0, -1.0, finished=True) for candidate in texts]


def save_teacher(folder: Path, cfg: Config, tag: str | None = None, letters: str = "") -> None:
    pieces = cfg.tokenizer.src.model_copy(update={"type": "char", "vocab_size": 300})
    tags = tags_of(tag)
    tokenizers = [
        train_tokenizer(
            [*words, letters], pieces, folder.parent / f"{folder.name}-{side}.spm", *([tags] if tags else [])
        )
        for side, words in (("src", MEANINGS), ("tgt", MEANINGS.values()))
    ]
    model = Transformer(cfg.model, *(tokenizer.vocab_size for tokenizer in tokenizers))
    corpus = cfg.data.train[0].model_copy(update={"tag": tag})
    cfg = cfg.model_copy(update={"data": cfg.data.model_copy(update={"train": [corpus]})})
    save_bundle(folder, model.state_dict(), cfg, *(tokenizer.path for tokenizer in tokenizers), training={"dev": {}})


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def text(tmp_path) -> dict[str, str]:
    for side, lines in (("en", SOURCES), ("fr", REFERENCES)):
        (tmp_path / f"text.{side}").write_text("".join(f"{line}\n" for line in lines))
    return {"src": str(tmp_path / "text.en"), "tgt": str(tmp_path / "text.fr")}


@pytest.fixture
def teacher(tmp_path, make_config) -> Path:
    save_teacher(tmp_path / "teacher", make_config())
    return tmp_path / "teacher"


@pytest.fixture
def engine(teacher, monkeypatch) -> DictionaryEngine:
    engine = DictionaryEngine((Tokenizer.load(teacher / "src.spm"), Tokenizer.load(teacher / "tgt.spm")))
    monkeypatch.setattr("mtkit.translation.translator.choose_engine", lambda *_, **__: engine)
    return engine


@pytest.fixture
def student(make_config, text, teacher):
    """student(n_best=2, data={...}, train={...}): a config with the teacher."""

    def make(teachers: list[Path] | None = None, data: Any = None, train: Any = None, **distill: Any) -> Config:
        values = {"teachers": list(map(str, teachers or [teacher])), **distill}
        return make_config(data=data or {"train": [text], "dev": text}, distill=values, **(train or {}))

    return make


def pairs_in(corpus: TrainCorpus) -> list[tuple[str, ...]]:
    assert corpus.tsv is not None
    return [tuple(line.split("\t")) for line in corpus.tsv.read_text().splitlines()]


USABLE = [source for source in SOURCES if source]


def test_without_teachers_nothing_changes(make_config):
    cfg = make_config()
    assert with_teachers_text(cfg) is cfg
    assert cfg.run_dir is not None and not cfg.run_dir.exists()


def test_forgotten_teachers_are_an_error(student, engine):
    cfg = student()
    made = with_teachers_text(cfg)
    forgotten = cfg.model_copy(update={"distill": DistillConfig()})
    with pytest.raises(ConfigError, match=r"distilled: .*distill\.teachers"):
        with_teachers_text(forgotten)
    assert with_teachers_text(made) is made  # as the run's own config.yaml has it
    moved = cfg.run_dir.rename(cfg.run_dir.with_name("moved"))
    assert with_teachers_text(made.model_copy(update={"run_dir": moved}))  # the text's own absence is then the error
    without = cfg.model_copy(update={"distill": DistillConfig(n_best=2, beam_size=4)})
    with pytest.raises(ConfigError, match=r"^distill\.beam_size, distill\.n_best: .*distill\.teachers"):
        with_teachers_text(without)


def test_the_teachers_translations_replace_the_target_side(student, engine):
    cfg = student(beam_size=7)
    made = with_teachers_text(cfg)
    [corpus] = made.data.train
    assert pairs_in(corpus) == [(source, word_by_word(source)) for source in USABLE]
    assert made.distill.teachers == []
    assert made.data.dev == cfg.data.dev
    assert engine.beam_sizes == {7}


def test_each_corpus_keeps_its_tag_and_weight_and_the_original_may_stay(student, engine, text, tmp_path):
    (tmp_path / "second.tsv").write_text("red dogs run\tx\nred cats run\ty\tz\n")
    second = {"tsv": str(tmp_path / "second.tsv"), "tag": "<news>", "weight": 2.0}
    cfg = student(data={"train": [text, second], "dev": text}, original_weight=0.5)
    first, tagged, *originals = with_teachers_text(cfg).data.train
    assert (first.tag, first.weight, tagged.tag, tagged.weight) == (None, 1.0, "<news>", 2.0)
    assert pairs_in(tagged) == [(source, word_by_word(source)) for source in ("red dogs run", "red cats run")]
    assert [original.weight for original in originals] == [0.5, 1.0]
    assert [original.model_copy(update={"weight": 1.0}) for original in originals] == [
        corpus.model_copy(update={"weight": 1.0}) for corpus in cfg.data.train
    ]


@pytest.mark.parametrize("choose", ["bleu", "chrf"])
def test_the_translation_most_like_the_reference_is_chosen(student, engine, choose):
    [corpus] = with_teachers_text(student(n_best=3, choose=choose)).data.train
    expected = ["chats rouge dorment", "chiens courent", "rouge chiens dorment ici"]  # swapped, shortened, word by word
    assert pairs_in(corpus) == list(zip(USABLE, expected, strict=True))


def test_a_line_without_a_reference_gets_the_teachers_own_best_translation(student, engine, text, tmp_path):
    (tmp_path / "half.tsv").write_text("red cats sleep\t\ndogs run now\tchiens courent\n")
    data = {"train": [text, {"src": text["src"], "tgt": None}, {"tsv": str(tmp_path / "half.tsv")}], "dev": text}
    cfg = student(data=data, n_best=3, choose="chrf", original_weight=1.0)
    translated, alone, half, *originals = with_teachers_text(cfg).data.train
    nearest = ["chats rouge dorment", "chiens courent", "rouge chiens dorment ici"]
    assert pairs_in(translated) == list(zip(USABLE, nearest, strict=True))
    assert pairs_in(alone) == [(source, word_by_word(source)) for source in USABLE]
    assert pairs_in(half) == [("red cats sleep", "rouge chats dorment"), ("dogs run now", "chiens courent")]
    assert originals == [cfg.data.train[0], cfg.data.train[2]], "text without translations is not an original"


def test_text_without_translations_needs_a_teacher(text):
    values = {"data": {"train": [text, {"src": text["src"], "tgt": None}], "dev": text}}
    with pytest.raises(ValueError, match=r"data\.train\.1\.tgt=null .*distill\.teachers"):
        Config.model_validate(values)
    values["distill"] = {"teachers": ["teacher"]}
    assert Config.model_validate(values).data.train[1].is_untranslated
    for of_train, of_dev in (({"src": text["src"]}, text), (text, {"src": text["src"], "tgt": None})):
        with pytest.raises(ValueError, match=r"both src and tgt"):
            Config.model_validate({**values, "data": {"train": [of_train], "dev": of_dev}})


def test_all_translations_can_be_kept(student, engine):
    [corpus] = with_teachers_text(student(n_best=2)).data.train
    assert pairs_in(corpus)[:2] == [(SOURCES[0], "rouge chats dorment"), (SOURCES[0], "chats rouge dorment")]
    assert len(pairs_in(corpus)) == 2 * len(USABLE)


def test_a_teacher_that_knows_the_corpus_tag_reads_it(student, teacher, engine, text, make_config):
    shutil.rmtree(teacher)
    save_teacher(teacher, make_config(), tag="<news>")
    engine.src = Tokenizer.load(teacher / "src.spm")
    cfg = student(data={"train": [{**text, "tag": "<news>"}, {**text, "tag": "<bt>"}], "dev": text})
    with_teachers_text(cfg)
    assert engine.tags == {"<news>", None}


@pytest.mark.parametrize(("tag", "asked"), [("<bt> <news>", None), (None, "<news>")])
def test_of_several_tags_it_reads_those_it_knows_or_the_given_one(
    student, teacher, engine, text, make_config, tag, asked
):
    shutil.rmtree(teacher)
    save_teacher(teacher, make_config(data={"train": [text], "dev": text, "tgt_lang": "de"}), tag="<2fr> <news>")
    engine.src = Tokenizer.load(teacher / "src.spm")
    data = {"train": [{**text, "tag": tag}], "dev": text, "tgt_lang": "fr"}  # of a teacher's languages a tag is one
    with_teachers_text(student(data=data, tag=asked))
    assert engine.tags == {"<news>"}


def test_a_single_tag_names_no_language(student, teacher, text, make_config):
    shutil.rmtree(teacher)
    save_teacher(teacher, make_config(data={"train": [text], "dev": text, "tgt_lang": "de"}), tag="<news>")
    cfg = student(data={"train": [{**text, "tag": "<news>"}], "dev": text, "tgt_lang": "fr"})
    with pytest.raises(ConfigError, match=r"data\.tgt_lang=de\b.*\bfr\b"):
        with_teachers_text(cfg)
    assert not (cfg.run_dir / "distilled").exists(), "which would say that there were teachers"


def test_a_teacher_of_another_variety_of_the_language_is_accepted(student, teacher, engine, text, make_config):
    shutil.rmtree(teacher)
    save_teacher(teacher, make_config(data={"train": [text], "dev": text, "tgt_lang": "pt-BR"}))
    assert with_teachers_text(student(data={"train": [text], "dev": text, "tgt_lang": "pt"}))
    with pytest.raises(ConfigError, match=r"data\.tgt_lang=pt-BR\b.*\bpt_PT\b"):
        with_teachers_text(student(data={"train": [text], "dev": text, "tgt_lang": "pt_PT"}))


def test_an_interrupted_translation_resumes_where_it_stopped(student, engine, text, tmp_path, teacher):
    sources = [f"{'red ' * (n % 3)}cats {'now ' * (n % 2)}run" for n in range(40)]
    sources[35] = "dogs dogs run"
    for side in ("en", "fr"):
        (tmp_path / f"text.{side}").write_text("".join(f"{line}\n" for line in sources))
    cfg = student(n_best=2, choose="chrf")
    [whole] = with_teachers_text(cfg).data.train
    assert whole.tsv is not None
    expected = whole.tsv.read_bytes()
    shutil.rmtree(cfg.run_dir)
    config = load_config(teacher / "config.yaml")
    small = config.model_copy(update={"decode": config.decode.model_copy(update={"batch_sentences": 1})})
    shutil.rmtree(teacher)
    save_teacher(teacher, small)
    engine.texts, engine.stop_at = [], "dogs dogs run"
    with pytest.raises(KeyboardInterrupt):
        with_teachers_text(cfg)
    assert len(engine.texts) >= 32
    with pytest.raises(MtkitError, match=r"decode\.beam_size was 5, now 4; .* remove .*distilled"):
        with_teachers_text(student(n_best=2, choose="chrf", beam_size=4))
    engine.texts, engine.stop_at = [], None
    [resumed] = with_teachers_text(cfg).data.train
    assert len(engine.texts) == 8
    assert resumed.tsv is not None and resumed.tsv.read_bytes() == expected


def test_a_teacher_may_lose_half_a_point_of_bleu_by_the_faster_int8(teacher, monkeypatch):
    monkeypatch.setattr(choose, "_has_loops", lambda files, precision, device: precision == "int8")

    def precision_with(int8: float, named: str = "auto") -> str:
        save_int8_scores(read_bundle(teacher), {"dev": {"fp32": 30.0, "int8": int8}}, {})
        files = read_bundle(teacher, [f"decode.precision={named}"])
        return in_fast_precision([files], "cpu")[0].config.decode.precision

    assert in_fast_precision([read_bundle(teacher)], "cpu")[0].config.decode.precision == "auto", "not measured"
    assert [precision_with(bleu) for bleu in (30.2, 29.87, 29.5)] == ["int8"] * 3
    assert precision_with(29.49) == "auto"
    assert precision_with(29.87, named="fp32") == "fp32"
    monkeypatch.setattr(choose, "_has_loops", lambda *_: False)
    assert precision_with(29.87) == "auto", "it would not be faster"


def test_a_run_says_that_its_teacher_translates_in_int8(student, teacher, engine, monkeypatch, caplog):
    caplog.set_level("INFO", "mtkit")
    monkeypatch.setattr(choose, "_has_loops", lambda *_: True)
    save_int8_scores(read_bundle(teacher), {"dev": {"fp32": 30.0, "int8": 29.87}}, {})
    chosen = []

    def choose_engine(members, *_, **__):
        chosen.append((members[0].config.decode.engine, members[0].config.decode.precision))
        return engine

    monkeypatch.setattr("mtkit.translation.translator.choose_engine", choose_engine)
    cfg = student()
    with_teachers_text(cfg)
    assert chosen == [("native", "int8")]
    assert "in int8: it loses 0.13 BLEU" in caplog.text
    assert cfg.run_dir is not None
    recipe = json.loads((cfg.run_dir / "distilled" / "1.json").read_text())["recipe"]
    assert recipe["decode"]["precision"] == "auto", "as in the runs of earlier versions, which stay valid"


def test_finished_translations_are_reused_even_without_the_teacher(student, engine, teacher):
    made = with_teachers_text(student())
    engine.texts.clear()
    assert with_teachers_text(student(workers=2)) == made
    shutil.rmtree(teacher)
    assert with_teachers_text(student()) == made
    assert engine.texts == []
    with pytest.raises(ConfigError, match=rf"runs/nope: .*1\.tsv .*{teacher};"):
        with_teachers_text(student(["runs/nope"]))


def test_other_teachers_are_named(student, teacher, engine, text, make_config, tmp_path):
    with_teachers_text(student())
    save_teacher(tmp_path / "other", make_config(data={"train": [text], "dev": text}), letters="x")
    with pytest.raises(ConfigError, match=rf"1\.tsv .*{teacher}, now {tmp_path / 'other'};"):
        with_teachers_text(student([tmp_path / "other"]))


def test_translations_chosen_by_bleu_of_another_kind_are_refused(student, teacher, engine, make_config):
    shutil.rmtree(teacher)
    unnamed = {"src": "a.txt", "tgt": "b.txt"}  # a teacher of any languages
    save_teacher(teacher, make_config(data={"train": [unnamed], "dev": unnamed}))
    cfg = student(n_best=3, choose="bleu")
    with_teachers_text(cfg)
    japanese = cfg.model_copy(update={"data": cfg.data.model_copy(update={"tgt_lang": "ja"})})
    with pytest.raises(ConfigError, match=r"1\.tsv .*: bleu was None, now char; start a new run"):
        with_teachers_text(japanese)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"n_best": 2}, "n_best was 1, now 2"), ({"beam_size": 3}, "decode.beam_size was 5, now 3")],
)
def test_translations_made_in_another_way_are_refused(student, engine, change, message):
    with_teachers_text(student())
    with pytest.raises(ConfigError, match=rf"1\.tsv .*: {message}; start a new run"):
        with_teachers_text(student(**change))


def test_a_teacher_of_other_languages_is_refused(student, engine, text):
    for key, value in (("src_lang", "de"), ("tgt_lang", "fr")):
        teacher_cfg = student(data={"train": [text], "dev": text, key: value})
        folder = teacher_cfg.run_dir.parent / f"other-{key}"
        save_teacher(folder, teacher_cfg)
        ours = {"src_lang": "en", "tgt_lang": "pt"}
        with pytest.raises(ConfigError, match=rf"data\.{key}={value}\b.*{ours[key]}"):
            with_teachers_text(student([folder], data={"train": [text], "dev": text, **ours}))


def test_a_missing_teacher_is_named(student, tmp_path):
    with pytest.raises(BundleError, match=r"distill\.teachers: .*nowhere: no such folder"):
        with_teachers_text(student([tmp_path / "nowhere"]))


def test_teachers_with_other_target_tokens_are_no_ensemble(student, teacher, make_config, tmp_path):
    save_teacher(tmp_path / "other", make_config(), letters="qxyz")
    with pytest.raises(BundleError, match=r"cannot be an ensemble: .*target tokenizers differ.*one config"):
        with_teachers_text(student([teacher, tmp_path / "other"]))


def test_runs_of_one_config_with_other_seeds_are_an_ensemble(make_config, text, tmp_path):
    few = {"max_steps": 2, "warmup_steps": 1, "validate_every": 2, "average_best": 1}
    config = make_config(data={"train": [text], "dev": text}, **few)
    seeds = [config.model_copy(update={"seed": n, "run_dir": tmp_path / f"seed-{n}"}) for n in (1, 2)]
    bundles = [train(cfg).bundle for cfg in seeds]
    assert (bundles[0] / "tgt.spm").read_bytes() == (bundles[1] / "tgt.spm").read_bytes()
    weights = [(bundle / "model.safetensors").read_bytes() for bundle in bundles]
    assert weights[0] != weights[1]
    assert Translator.load(bundles, device="cpu").is_ensemble


def test_unequal_files_are_reported_before_any_translation(student, engine, tmp_path):
    (tmp_path / "text.fr").write_text("vide\n")
    with pytest.raises(DataError, match="has 4 lines"):
        with_teachers_text(student())
    assert engine.texts == []


@pytest.mark.parametrize(
    ("data", "settings", "message"),
    [
        ({"dev": {"tsv": "/nowhere.tsv"}}, {}, "/nowhere.tsv: no such file"),
        ({}, {"device": "cuda:99"}, "device=cuda:99"),
        ({}, {"suite": "/nowhere.yaml"}, "/nowhere.yaml: no such file"),
    ],
)
def test_what_makes_training_impossible_is_reported_before_any_translation(
    student, engine, text, data, settings, message
):
    with pytest.raises(MtkitError, match=message):
        train(student(data={"train": [text], "dev": text, **data}, train=settings))
    assert engine.texts == []


def test_text_without_a_usable_translation_is_an_error(student, engine, tmp_path):
    for side in ("en", "fr"):
        (tmp_path / f"text.{side}").write_text("\n\n")
    with pytest.raises(DataError, match="no line has a usable translation"):
        with_teachers_text(student())


def test_a_damaged_record_is_explained(student, engine):
    cfg = student()
    with_teachers_text(cfg)
    (cfg.run_dir / DISTILLED / "1.json").write_text("{")
    with pytest.raises(DataError, match=r"1\.json: .*; remove it"):
        with_teachers_text(cfg)


def test_a_distilled_run_is_the_run_on_the_teachers_text(student, engine, make_config, text, tmp_path):
    few = {"max_steps": 3, "warmup_steps": 1, "validate_every": 3, "average_best": 1}
    bundle = train(student(train=few)).bundle
    (tmp_path / "by-hand.tsv").write_text("".join(f"{source}\t{word_by_word(source)}\n" for source in USABLE))
    plain = make_config(data={"train": [{"tsv": str(tmp_path / "by-hand.tsv")}], "dev": text}, **few)
    by_hand = train(plain.model_copy(update={"run_dir": tmp_path / "plain"})).bundle
    ours, theirs = load_file(bundle / "model.safetensors"), load_file(by_hand / "model.safetensors")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    saved = load_config(bundle / "config.yaml")
    assert (saved.distill.teachers, saved.data.train[0].tsv) == ([], tmp_path / "run" / "distilled" / "1.tsv")
    assert "translations by another model" in (bundle.parent / "report.html").read_text()
    assert "learnt from translations of" not in (by_hand.parent / "report.html").read_text()


def test_the_command_takes_teachers_from_the_current_folder(student, engine, teacher, monkeypatch):
    cfg = student()
    monkeypatch.chdir(teacher.parent)
    Path("configs").mkdir()
    Path("configs/student.yaml").write_text(dump_config(cfg.model_copy(update={"distill": type(cfg.distill)()})))
    command = ["distill", "--config", "configs/student.yaml", "--data-only"]
    none = CliRunner().invoke(app, command)
    assert (none.exit_code, "no teacher: give --teacher RUN" in none.stderr) == (2, True)
    for how in (["--teacher", "teacher"], ["--set", "distill.teachers=[teacher]"]):
        result = CliRunner().invoke(app, [*command, *how])
        assert result.exit_code == 0, result.stderr
        [entry] = parse_yaml(result.stdout).value
        assert pairs_in(TrainCorpus.model_validate(entry)) == [(source, word_by_word(source)) for source in USABLE]
    record = json.loads((cfg.run_dir / "distilled" / "1.json").read_text())
    assert record["counts"] == {"lines": 3, "pairs": 3, "blank": 1}


def test_text_in_another_format_is_translated_by_its_units(student, engine, text, tmp_path):
    rows = [{"en": source, "fr": reference} for source, reference in zip(SOURCES, REFERENCES, strict=True)]
    (tmp_path / "text.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    cfg = student(data={"train": [{"file": str(tmp_path / "text.jsonl"), "langs": ["en", "fr"]}], "dev": text})
    [corpus] = with_teachers_text(cfg).data.train
    assert (corpus.file, corpus.langs) == (None, None)
    assert pairs_in(corpus) == [(source, word_by_word(source)) for source in USABLE]
    assert with_teachers_text(cfg).data.train == [corpus]
