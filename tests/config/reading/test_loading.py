import re
from pathlib import Path
from typing import get_args

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.config.data import DataConfig, TrainCorpus
from mtkit.config.model import PRESETS
from mtkit.config.reading import yaml_text
from mtkit.config.reading.loading import dump_config, json_schema, load_config, load_serve_config
from mtkit.config.reading.problems import _NAMES_ELSEWHERE, Setting, _leaf_keys, describe_values, field_at
from mtkit.config.reading.yaml_text import format_yaml, parse_yaml
from mtkit.config.schema import Config, Preset
from mtkit.config.training import TrainConfig
from mtkit.errors import ConfigError

MINIMAL = """\
data:
  train: [{src: a.en, tgt: a.fr}]
  dev: {src: d.en, tgt: d.fr}
train:
  max_steps: 5000
"""
# Each line repeats the one before nine times: 9^9 words.
BILLION_LAUGHS = b"a: &a [ha, ha, ha]\n" + b"".join(
    b"%c: &%c [%s]\n" % (key + 1, key + 1, b"*%c, " % key * 9) for key in range(ord("a"), ord("j"))
)


def load(tmp_path: Path, text: str | bytes, *overrides: str) -> Config:
    path = tmp_path / "small.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_config(path, overrides)


def problems(tmp_path: Path, text: str | bytes, *overrides: str) -> list[str]:
    """The lines of the message, without the folder of the file."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, *overrides)
    return [line.strip() for line in str(caught.value).replace(f"{tmp_path}/", "").splitlines()]


def assert_facts(messages: list[str], facts: list[tuple[str, ...]]) -> None:
    """Each message begins with the first of its facts (the place), and holds the others."""
    for message, (place, *others) in zip(messages, facts, strict=True):
        assert message.startswith(place), message
        assert all(fact in message for fact in others), (message, others)


def test_missing_keys_have_the_schemas_defaults(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = load(tmp_path, MINIMAL)
    assert config.train == TrainConfig(max_steps=5000)
    assert config.run_dir == tmp_path / "runs" / "small"


@pytest.mark.parametrize(
    ("train", "dev", "named", "languages"),
    [
        (["a.en a.de.gz"], "d.src d.tgt", "", ("en", "de")),
        (["a.en a.fr"], "d.pt d.zh.gz", "", ("pt", "zh")),  # dev is one, the training corpora may be many
        (["a.en a.fr", "b.en.gz b.de"], "d.1 d.2", "", ("en", "tgt")),
        (["a.en a.fr", "b.txt b.fr"], "d.1 d.2", "", ("src", "fr")),
        (["a.en a.fr"], "d.en d.fr", "src_lang: en-GB, tgt_lang: pt, ", ("en-GB", "pt")),
        (["a.txt a.tok"], "d.txt d.tok", "", ("src", "tgt")),
    ],
)
def test_files_name_the_languages_that_the_config_does_not(tmp_path, train, dev, named, languages):
    corpora = [f"{{src: {pair.split()[0]}, tgt: {pair.split()[1]}}}" for pair in [*train, dev]]
    text = f"data: {{{named}train: [{', '.join(corpora[:-1])}], dev: {corpora[-1]}}}\ntrain: {{max_steps: 5000}}\n"
    data = load(tmp_path, text).data
    assert (data.src_lang, data.tgt_lang) == languages
    written = load(tmp_path, dump_config(load(tmp_path, text))).data
    assert (written.src_lang, written.tgt_lang) == languages


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-3", 1e-3), ("1.5E-3", 1.5e-3), (".5", 0.5), ("2", 2.0), ("1_000", 1000.0), ("+1.", 1.0), ("1e2", 100.0)],
)
def test_all_notations_of_a_number_are_read(tmp_path, text, value):
    assert load(tmp_path, MINIMAL + f"  lr: {text}\n").train.lr == value


def test_a_whole_number_may_have_an_exponent(tmp_path):
    assert load(tmp_path, MINIMAL.replace("5000", "1e5")).train.max_steps == 100_000


@pytest.mark.parametrize("language", ["no", "on", "y", "off", "12:30", "0x1F", "2024-01-01", "<<", "="])
def test_text_with_another_type_in_yaml_1_1_stays_text(tmp_path, language):
    config = load(tmp_path, MINIMAL.replace("data:\n", f"data:\n  tgt_lang: {language}\n"))
    assert config.data.tgt_lang == language


def test_paths_start_from_the_folder_of_the_file_and_are_normalised(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    monkeypatch.setenv("HOME", "/home/ada")
    text = MINIMAL.replace("a.en", "../texts/./a.en").replace("a.fr", "/abs/a.fr").replace("d.en", "~/d.en")
    config = load(tmp_path, "run_dir: ../runs/x\n" + text)
    assert config.data.train[0].src == tmp_path.parent / "texts" / "a.en"
    assert config.data.train[0].tgt == Path("/abs/a.fr")
    assert config.data.dev[0].src == Path("/home/ada/d.en")
    assert config.run_dir == tmp_path.parent / "runs" / "x"


def test_all_problems_are_listed_at_once_with_their_lines(tmp_path):
    text = """\
data:
  tgt_lang: 5
  train:
    - {src: a, tgt: b}
    - src: x
  dev: {src: d.en, tgt: d.fr, trg: d.de}
tokenizer:
  src: {type: bpe, vocab_size: 100}
  tgt: {type: unigrm}
model:
  n_head: 4
  lr: 1e-3
  d_model: "256"
  d_model: 512
train:
  adam_betas: [0.9]
  device: gpu
  warmup_steps:
  label_smoothing: 1.5
  lr: .inf
  max_grad_norm: true
decode:
"""
    facts = [
        ("small.yaml: 16 problems",),
        ("line 2: data.tgt_lang=5: ", "text"),
        ("line 5: data.train.1: ", "src", "tgt", "tsv"),
        ("line 6: data.dev.trg: ", "did you mean tgt?"),
        ("line 8: tokenizer.src.vocab_size=100: ", "264"),
        ('line 9: tokenizer.tgt.type="unigrm": ', "unigram, bpe, char", "did you mean unigram?"),
        ("line 11: model.n_head: ", "did you mean n_heads?"),
        ("line 12: model.lr: ", "did you mean train.lr?"),
        ('line 13: model.d_model="256": ', "whole number", "8"),
        ("line 14: model.d_model: ", "line 13"),
        ("line 16: train.adam_betas: ", "2 numbers", "at least 0 and below 1"),
        ('line 17: train.device="gpu": ', "cpu, cuda, cuda:N or mps"),
        ("line 18: train.warmup_steps: ", "empty", "whole number of at least 0"),
        ("line 19: train.label_smoothing=1.5: ", "at least 0 and below 1"),
        ("line 20: train.lr=Infinity: ", "above 0"),
        ("line 21: train.max_grad_norm=true: ", "above 0"),
        ("line 22: decode: ", "empty"),
    ]
    assert_facts(problems(tmp_path, text), facts)


@pytest.mark.parametrize(("line", "named"), [("ema: 0.9", "ema"), ("adam_betas: [0.0, 0.98]", "adam_betas")])
def test_schedule_free_refuses_what_contradicts_its_mean(tmp_path, line, named):
    text = f"{MINIMAL}  schedule: schedule_free\n  {line}\n"
    assert_facts([problems(tmp_path, text)[1]], [("line 6: train.schedule=schedule_free ", named)])


def test_keys_that_do_not_fit_together_are_reported_at_the_first_key_of_the_message(tmp_path):
    def first(text: str) -> str:
        return problems(tmp_path, text)[1]

    text = MINIMAL + "  lr: 1e-3\n  warmup_steps: 8000\n"
    assert_facts([first(text)], [("line 7: train.warmup_steps=8000 ", "train.max_steps=5000")])
    text = MINIMAL + "model:\n  positions: learned\n  max_positions: 64\n"
    written = text.replace("data:", "data:\n  max_tokens: 64")
    assert_facts([first(written)], [("line 2: data.max_tokens=64 ", "model.max_positions=64")])
    assert_facts([first(MINIMAL + "  r_drop_from: 0.3\n")], [("line 6: train.r_drop_from=0.3 ", "r_drop")])
    endless = MINIMAL.replace("max_steps: 5000", "patience: 3") + "  r_drop: 3\n  r_drop_from: 0.3\n"
    assert_facts([first(endless)], [("line 7: train.r_drop_from=0.3 ", "max_steps, max_epochs, max_minutes or budget")])
    assert_facts([first(endless + "  max_epochs: 9\n")], [("line 7: train.r_drop_from=0.3 ", "train.patience=3")])
    nothing = MINIMAL.replace("max_steps: 5000", "patience: null")
    limits = "max_steps, max_epochs, max_minutes, budget or patience"
    assert_facts([first(nothing)], [("line 4: train: ", limits)])


def test_a_run_without_a_limit_ends_when_dev_no_longer_improves(tmp_path):
    path, data = tmp_path / "small.yaml", "{train: [{tsv: a.tsv}], dev: {tsv: b.tsv}}"
    for train, patience in (("{lr: 1.0e-3}", 10), ("{max_epochs: 9}", None), ("{patience: 3}", 3)):
        path.write_text(f"data: {data}\ntrain: {train}\n")
        assert load_config(path).train.patience == patience
    path.write_text(f"data: {data}\n")
    assert load_config(path).train.patience == 10, "the whole section may be left out"


def test_a_name_may_stand_in_place_of_the_keys_of_the_model(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(MINIMAL + "model: big\n")
    big = load_config(path).model
    assert (big.d_model, big.d_ff, big.n_heads, big.n_encoder_layers) == (1024, 4096, 16, 6)  # Vaswani et al. 2017
    assert "d_model" in big.model_fields_set, "chosen by the user, so no rule changes it"
    changed = load_config(path, ["model.residual_dropout=0.3", "model.d_ff=2048"]).model
    assert (changed.d_model, changed.d_ff, changed.residual_dropout) == (1024, 2048, 0.3)
    assert load_config(path, ["model=student-tiny"]).model.decoder == "ssru"
    path.write_text(MINIMAL)
    assert load_config(path, ["model=small"]).model.model_dump() == load_config(path).model.model_dump()
    for name in get_args(Preset):
        assert load_config(path, [f"model={name}"]).model.d_model == PRESETS[name]["d_model"]
    path.write_text(MINIMAL + "model: huge\n")
    with pytest.raises(ConfigError, match=r"line 6: model.*tiny, small, base, big, student-tiny"):
        load_config(path)


def test_missing_sections_are_explained(tmp_path):
    facts = [
        ("small.yaml: 1 problem",),
        ("line 1: data.dev: missing (", str(DataConfig.model_fields["dev"].description)),
    ]
    assert_facts(problems(tmp_path, "data:\n  train: [{tsv: a.tsv}]\n"), facts)


def test_a_key_of_another_section_is_suggested_before_a_similar_one(tmp_path):
    messages = problems(tmp_path, MINIMAL + "  max_tokens: 100\n")[1:]
    assert_facts(messages, [("line 6: train.max_tokens: ", "did you mean data.max_tokens?")])


def test_names_of_other_toolkits_are_known(tmp_path):
    messages = problems(tmp_path, MINIMAL + "  learning_rate: 1\n")[1:]
    assert_facts(messages, [("line 6: train.learning_rate: ", "did you mean train.lr?")])
    ours = list(_leaf_keys(Config))
    assert {path for _, path in ours} >= set(_NAMES_ELSEWHERE.values())
    assert not {name for name, _ in ours} & _NAMES_ELSEWHERE.keys()


def test_an_invalid_tag_of_yaml_is_a_single_problem(tmp_path):
    facts = [("small.yaml: 1 problem",), ("line 6: train.lr: ", "x", "bool")]
    assert_facts(problems(tmp_path, MINIMAL + "  lr: !!bool x\n"), facts)


def test_without_a_similar_key_the_sections_keys_are_listed(tmp_path):
    [problem] = problems(tmp_path, MINIMAL + "decode:\n  zzz: 1\n")[1:]
    assert_facts([problem], [("line 7: decode.zzz: ", "beam_size, length_normalization, ")])


def test_a_corpus_without_its_dash_is_explained(tmp_path):
    text = MINIMAL.replace("[{src: a.en, tgt: a.fr}]", "{src: a.en, tgt: a.fr}")
    assert_facts(problems(tmp_path, text)[1:], [("line 2: data.train: ", "list", "'- src: ...'")])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"data:\n  src_lang: \xe9t\xe9\n", "small.yaml: line 2: not UTF-8 (byte 0xe9)"),
        (b"", "small.yaml: "),
        (b"# nothing\n", "small.yaml: "),
        (b"- a\n", "line 1: must have sections"),
        (b"just words\n", "line 1: must have sections"),
        (b"data:\n  a: 1\n b: 2\n", "line 3: not valid YAML"),
        (b"data:\n\ttrain: 1\n", "line 2: not valid YAML"),
        (b"a: 1\n---\nb: 2\n", "line 2: not valid YAML"),
        (b"a: 1\nb: \x07\n", "line 2: the character U+0007"),
        (b"a: &x [*x]\n", "line 1: a.0: is an alias"),
        (b"a: !!python/name:os.system\n", "line 1: a: the tag tag:yaml.org,2002:python/name:os.system"),
        (b"? [1]\n: 2\n", "line 1: a key must be"),
        (b"[" * 100_000, "nested too deeply"),
        (b"a: " + b"[" * 250 + b"]" * 250 + b"\n", "not a config: brackets"),
        (b'a: 1\nb: "\\UFFFFFFFF"\n', "line 2: not valid YAML"),  # OverflowError
        (b'a: "\\U00110000"\n', "line 1: not valid YAML"),  # ValueError
        (b"%YAML " + b"9" * 5000 + b".1\n---\na: 1\n", "line 1: not valid YAML"),
        (b"seed: " + b"9" * 5000 + b"\n", "line 1: seed: 9999"),
        (BILLION_LAUGHS, "line 6: aliases repeat more than 100,000"),
        (b"a: &a " + b"x" * 2000 + b"\nb: [" + b"*a, " * 1000 + b"]\n", "line 2: aliases repeat more than 100,000"),
        (b"# " + b"x" * 2**24, "small.yaml: larger than 16 MiB"),
        (b'seed: "\\ud800"\n', "half of a surrogate pair"),
        (b'"\\ud800": 1\n', "half of a surrogate pair"),
    ],
)
def test_a_file_that_is_not_a_config_is_reported_with_its_line(tmp_path, text, message):
    assert message in "\n".join(problems(tmp_path, text))


def test_a_byte_order_mark_is_dropped(tmp_path):
    assert load(tmp_path, b"\xef\xbb\xbf" + MINIMAL.encode()) == load(tmp_path, MINIMAL)


def test_a_similar_file_name_is_suggested(tmp_path):
    (tmp_path / "tatoeba.yaml").touch()
    with pytest.raises(ConfigError, match=r"tatoeb\.yaml: .*/tatoeba\.yaml\?"):
        load_config(tmp_path / "tatoeb.yaml")
    with pytest.raises(ConfigError, match="is a folder"):
        load_config(tmp_path)
    (tmp_path / "config.yaml").touch()
    with pytest.raises(ConfigError, match=r"is a folder.*/config\.yaml\?"):
        load_config(tmp_path)


def test_overrides_replace_values_of_the_file(tmp_path):
    config = load(
        tmp_path,
        MINIMAL + "  max_minutes: 3\n",
        "train.lr=1e-4",
        "train.max_minutes=",
        "data.tgt_lang=no",
        "train.adam_betas=[0.8, 0.9]",
        "decode.beam_size=2",
        "train.lr=5e-4",
    )
    assert (config.train.lr, config.train.max_minutes, config.data.tgt_lang) == (5e-4, None, "no")
    assert config.train.adam_betas == (0.8, 0.9)
    assert config.decode.beam_size == 2


def test_overrides_reach_into_lists_and_add_to_them(tmp_path):
    text = MINIMAL.replace("[{src: a.en, tgt: a.fr}]", "[{src: /a.en, tgt: /a.fr}]")
    config = load(tmp_path, text, "data.train.0.src=/b.en", "data.train.1={tsv: /c.tsv}", "data.train.2.tsv=/d.tsv")
    assert config.data.train == [
        TrainCorpus(src="/b.en", tgt="/a.fr"),
        TrainCorpus(tsv="/c.tsv"),
        TrainCorpus(tsv="/d.tsv"),
    ]
    assert load(tmp_path, text, "data.train=[{tsv: /e.tsv}]").data.train == [TrainCorpus(tsv="/e.tsv")]


FILES = "data: {train: [{file: /m.en-fr.tmx}, {file: /n.tmx, langs: [de, fr]}, {tsv: /a.tsv}], dev: {file: /d.csv}}\n"


def test_a_file_is_read_in_the_languages_of_the_config_unless_it_names_its_own(tmp_path):
    text = FILES + "train: {max_steps: 1}\n"
    config = load(tmp_path, text, "data.src_lang=en", "data.tgt_lang=fr")
    assert [corpus.langs for corpus in config.data.train] == [("en", "fr"), ("de", "fr"), None]
    assert config.data.dev[0].langs == ("en", "fr")
    assert load(tmp_path, dump_config(config)) == config
    named = load(
        tmp_path, text.replace(", {file: /n.tmx, langs: [de, fr]}, {tsv: /a.tsv}", "").replace("d.csv", "m.csv")
    )
    assert (named.data.src_lang, named.data.tgt_lang, named.data.dev[0].langs) == ("en", "fr", ("en", "fr"))
    unknown = load(tmp_path, text.replace("m.en-fr.tmx", "m.tmx"))
    assert unknown.data.train[0].langs is None


@pytest.mark.parametrize(
    ("corpus", "words"),
    [
        ("{file: a.tmx, tsv: b.tsv}", ("src", "tsv", "file")),
        ("{file: a.tmx, src: b.en}", ("src", "tsv", "file")),
        ("{tsv: a.tsv, langs: [en, de]}", ("langs needs file",)),
        ("{file: a.tmx, langs: [en, en]}", ("langs", "both en")),
        ("{file: a.tmx, langs: en-de}", ("langs", "a list of 2 texts (or null)")),
    ],
)
def test_a_corpus_is_two_files_or_one_and_languages_go_with_a_file(tmp_path, corpus, words):
    messages = problems(tmp_path, MINIMAL.replace("{src: d.en, tgt: d.fr}", corpus))
    assert all(word in messages[1] for word in words), messages


@pytest.mark.parametrize("overrides", [[], ["data.dev.src=~nobody-of-this-name/d.en"]])
def test_the_home_of_an_unknown_user_is_a_problem(tmp_path, overrides):
    text = MINIMAL if overrides else MINIMAL.replace("d.en", "~nobody-of-this-name/d.en")
    with pytest.raises(ConfigError, match=r"~nobody-of-this-name/d\.en: .*user.*\./~nobody"):
        load(tmp_path, text, *overrides)


def test_keys_that_another_model_provides_are_not_checked_yet(tmp_path):
    text = MINIMAL + "model: {n_heads: 6, tie: all}\n"
    with pytest.raises(ConfigError, match=r"model\.d_model=256 .*model\.n_heads=6"):
        load(tmp_path, text)
    assert load(tmp_path, text, "train.init_from=elsewhere").model.n_heads == 6


def test_paths_of_overrides_start_from_the_current_folder(tmp_path, monkeypatch):
    here = tmp_path / "elsewhere"
    here.mkdir()
    monkeypatch.chdir(here)
    config = load(tmp_path, MINIMAL, "data.dev={tsv: x/../d.tsv}", "run_dir=r", "data.train.0.src=b.en")
    assert config.data.dev[0].tsv == here / "d.tsv"
    assert config.run_dir == here / "r"
    assert config.data.train[0] == TrainCorpus(src=here / "b.en", tgt=tmp_path / "a.fr")


def test_every_whole_number_has_a_largest_value(tmp_path):
    keys = [
        path
        for name, path in _leaf_keys(Config)
        if describe_values(field_at(tuple(path.split(".")))[0]).startswith("a whole number")
    ]
    assert len(keys) > 30
    for key in keys:
        [problem] = problems(tmp_path, MINIMAL, f"{key}={10**24}")[1:]
        assert key in problem
        assert re.search(r"at most \d+|below \d+", problem)


def test_problems_of_overrides_name_the_override(tmp_path):
    messages = problems(
        tmp_path,
        MINIMAL,
        "train.lr=x",
        "model.n_head=8",
        "modl.d_ff=8",
        "foo",
        "data.train.5.src=a",
        "data.src=a",
        "train.max_steps.x=1",
        "model.0=1",
        "decode.beam_size=[",
        "decode.length_penalty={a: 1, a: 2}",
        "data.train.1.src=b.en",
    )
    facts = [
        ("small.yaml: 11 problems",),
        ("override train.lr=x: ", "above 0"),
        ("override model.n_head=8: ", "did you mean n_heads?"),
        ("override modl.d_ff=8: modl: ", "did you mean model?"),
        ("override foo: ", "section.key=value"),
        ("override data.train.5.src=a: data.train ", "from 0 to 1"),
        ("override data.src=a: ", "did you mean data.dev.src?"),
        ("override train.max_steps.x=1: train.max_steps ",),
        ("override model.0=1: model ",),
        ("override decode.beam_size=[: ", "YAML"),
        ("override decode.length_penalty={a: 1, a: 2}: ", "twice"),
        ("override data.train.1.src=b.en: data.train.1: ", "src", "tgt", "tsv"),
    ]
    assert_facts(messages, facts)


@pytest.mark.parametrize(
    ("written", "key", "value"),
    [
        ("train.max_steps=500", "train.warmup_steps", 125),
        ("train.max_steps=1", "train.warmup_steps", 0),
        ("train.max_steps=4001", "train.warmup_steps", 1000),
        ("decode.beam_groups=3", "decode.beam_size", 6),
        ("decode.beam_groups=2", "decode.beam_size", 4),
        ("distill={n_best: 8}", "distill.beam_size", 8),
        ("model.tie=all", "tokenizer.shared", True),
        ("model={positions: learned, max_positions: 64}", "data.max_tokens", 63),
    ],
)
def test_a_default_gives_way_to_what_is_written(tmp_path, written, key, value):
    section, name = key.split(".")
    config = load(tmp_path, MINIMAL, written)
    assert getattr(getattr(config, section), name) == value
    (tmp_path / "written.yaml").write_text(dump_config(config), encoding="utf-8")
    assert load_config(tmp_path / "written.yaml") == config
    assert load(tmp_path, MINIMAL) == load(tmp_path, MINIMAL + "decode: {beam_size: 4}\n"), "defaults stay as they are"


@pytest.mark.parametrize(
    ("written", "rules"),
    [("seed=1", ("nfc_forms", "nfc")), ("tokenizer.shared=true", ("nfc", "nfc")), ("model.tie=all", ("nfc", "nfc"))],
)
def test_only_a_source_with_its_own_tokenizer_folds_the_forms_of_letters(tmp_path, written, rules):
    config = load(tmp_path, MINIMAL, written)
    assert (config.tokenizer.src.normalization, config.tokenizer.tgt.normalization) == rules
    (tmp_path / "written.yaml").write_text(dump_config(config), encoding="utf-8")
    assert load_config(tmp_path / "written.yaml") == config


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("decode.tag=>>fra<<", ">>fra<<"),
        ("decode.tag='>>fra<< <news>'", ">>fra<< <news>"),
        ("decode.terminology=>list.tsv", Path(">list.tsv").absolute()),
        ("decode.terminology=|list.tsv", Path("|list.tsv").absolute()),
    ],
)
def test_an_override_may_begin_with_the_marks_of_several_lines(tmp_path, override, value):
    config = load(tmp_path, MINIMAL, override)
    key = override.partition("=")[0].partition(".")[2]
    assert getattr(config.decode, key) == value
    (tmp_path / "written.yaml").write_text(dump_config(config), encoding="utf-8")
    assert load_config(tmp_path / "written.yaml") == config


def test_a_text_in_a_file_that_begins_with_such_a_mark_needs_quotes(tmp_path):
    assert "quotes" in problems(tmp_path, MINIMAL + "decode:\n  tag: >>fra<<\n")[1]
    assert load(tmp_path, MINIMAL + "decode:\n  tag: '>>fra<<'\n").decode.tag == ">>fra<<"


def test_the_name_of_a_language_becomes_its_code(tmp_path):
    data = load(tmp_path, MINIMAL, "data.src_lang=English", "data.tgt_lang=chinese").data
    assert (data.src_lang, data.tgt_lang) == ("en", "zh")


def test_an_override_that_breaks_a_section_is_named(tmp_path):
    messages = problems(tmp_path, MINIMAL + "  warmup_steps: 700\n", "train.max_steps=500")[1:]
    assert_facts(messages, [("override train.max_steps=500: train.warmup_steps=700 ", "train.max_steps=500")])
    messages = problems(tmp_path, MINIMAL, "data.train=[{src: a}]")[1:]
    assert_facts(messages, [("override data.train=[{src: a}]: data.train.0: ", "src", "tgt", "tsv")])
    messages = problems(tmp_path, MINIMAL, "model.n_heads=3")[1:]
    assert_facts(messages, [("override model.n_heads=3: model.d_model=256 ", "model.n_heads=3")])


def test_a_problem_names_the_option_that_gave_the_value(tmp_path):
    setting = Setting("decode.beam_size=0", "--beam-size 0")
    [_, problem] = problems(tmp_path, MINIMAL, setting)
    assert problem.startswith("--beam-size 0: ")


def test_a_missing_key_is_not_blamed_on_an_override(tmp_path):
    messages = problems(tmp_path, "train: {max_steps: 5000}\n", "data.src_lang=en")[1:]
    assert_facts(messages, [("data.train: missing",), ("data.dev: missing",)])


def test_a_runs_config_file_gives_the_same_config_in_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = load(tmp_path, MINIMAL)
    assert config.run_dir is not None
    copy = config.run_dir / "config.yaml"
    copy.parent.mkdir(parents=True)
    copy.write_text(dump_config(config))
    monkeypatch.chdir("/")
    assert load_config(copy) == config


words = st.text(min_size=1, max_size=20).filter(lambda text: not any("\ud800" <= char <= "\udfff" for char in text))
names = words.filter(lambda text: "\0" not in text)
corpora = st.one_of(
    st.builds(TrainCorpus, src=names.map(lambda name: f"/{name.strip('/')}x"), tgt=st.just(Path("/b"))),
    st.builds(TrainCorpus, tsv=st.just(Path("/a b/c #d.tsv"))),
    st.builds(TrainCorpus, file=st.just(Path("/a.tmx")), langs=st.none() | st.just(("no", "1e-3"))),
)
configs = st.builds(
    Config,
    run_dir=st.just(Path("/runs/x")),
    seed=st.integers(0, 2**32 - 1),
    data=st.builds(
        DataConfig,
        src_lang=words,
        tgt_lang=st.sampled_from(
            ["no", "1e-3", "0x1f", "null", "~", " ", "1_000", ".5", "true", "- a", "#", "\n", "é"]
        ),
        train=st.lists(corpora, min_size=1, max_size=3),
        dev=corpora,
        test=st.none() | corpora,
        max_length_ratio=st.none() | st.floats(1, allow_infinity=False),
    ),
    train=st.builds(
        TrainConfig,
        max_steps=st.integers(10**5, 10**12),
        lr=st.floats(0, exclude_min=True, allow_infinity=False),
        adam_betas=st.tuples(st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True)),
    ),
)


@given(configs)
@settings(max_examples=25)
def test_a_written_config_reads_back_as_the_same_config(tmp_path_factory, config):
    config = config.model_validate(config.model_dump(), context={"base": Path("/")})
    path = tmp_path_factory.mktemp("written") / "config.yaml"
    path.write_text(dump_config(config), encoding="utf-8")
    assert load_config(path) == config


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


@given(plain_values)
def test_formatted_yaml_is_parsed_back_to_the_same_value(value):
    parsed = parse_yaml(format_yaml(value))
    assert parsed.value == value
    assert not parsed.faults


@pytest.mark.parametrize(
    "text",
    [
        "# first\na: [1, {b: 'it''s', c: 1e-3}]\n\nd: &x |\n  two\n  lines\ne:\n- *x\n-\n- \"\\u00e9\"\nno: null\n",
        "a: {b:,c: 1}\n",  # that the parser in C refuses
        "\ufeffa: \U0001f600\nb: >-\n  é\u2028  ü\n",
    ],
)
def test_without_the_parser_in_c_the_same_is_read(text, monkeypatch):
    parsed = parse_yaml(text)
    monkeypatch.setattr(yaml_text, "_Loader", yaml_text._PythonLoader)
    assert parse_yaml(text) == parsed
    assert parsed.value


def test_other_readers_read_the_same_values_from_written_yaml(tmp_path):
    text = dump_config(load(tmp_path, MINIMAL.replace("data:\n", "data:\n  tgt_lang: no\n")))
    values = yaml.safe_load(text.replace("tgt_lang: no", "tgt_lang: 'no'"))
    assert values["train"]["adam_eps"] == 1e-9
    assert values["train"]["adam_betas"] == [0.9, 0.98]
    assert set(values) == set(Config.model_fields)


def test_the_json_schema_describes_every_key():
    schema = json_schema()
    sections = [schema, *schema["$defs"].values()]
    keys = [(section["title"], key, value) for section in sections for key, value in section["properties"].items()]
    assert len(keys) > 60
    assert [(title, key) for title, key, value in keys if "description" not in value] == []
    assert schema["additionalProperties"] is False


MIXED = """\
data:
  train:
  - {tsv: a.tsv}
  - tsv: b.tsv
    %s
  dev: {tsv: d.tsv}
train:
  %s
"""


@pytest.mark.parametrize(
    ("corpus", "train", "facts"),
    [
        ("weight: {0.5: 2}", "max_steps: 9", ("line 5: data.train.1.weight: ", "value for 0")),
        ("weight: {0: 2, 1.5: 1}", "max_steps: 9", ("line 5: data.train.1.weight: ", "share of the run")),
        ("weight: {0: 2, half: 1}", "max_steps: 9", ("line 5: data.train.1.weight: ", "share of the run")),
        ("weight: {0: -1}", "max_steps: 9", ("line 5: data.train.1.weight: ", "share of the run")),
        ("weight: 0", "max_steps: 9", ("line 5: data.train.1.weight=0: ", "above 0")),
        ("weight: {0: 2, 0.5: 1}", "patience: 9", ("line 8: train.patience=9", "null")),
        ("min_score: 0.5", "max_steps: 9", ("line 4: data.train.1", "min_score needs scores")),
        ("{tsv: null, file: b.tmx, scores: s, min_score: 1}", "max_steps: 9", ("line 4", "mtkit data convert")),
    ],
)
def test_a_mix_that_cannot_be_is_refused(tmp_path, corpus, train, facts):
    text = MIXED % (corpus, train)
    if corpus.startswith("{"):
        text = text.replace("- tsv: b.tsv\n    {tsv: null, ", "- {")
    [_, message] = problems(tmp_path, text)
    assert_facts([message], [facts])


def test_a_stage_without_any_weight_and_a_mix_without_an_end_are_refused(tmp_path):
    nothing = MIXED.replace("{tsv: a.tsv}", "{tsv: a.tsv, weight: {0: 1, 0.5: 0}}") % (
        "weight: {0: 1, 0.4: 0}",
        "max_steps: 9",
    )
    [_, message] = problems(tmp_path, nothing)
    assert "weight 0" in message
    assert "50 % to 100 %" in message


def test_the_stages_of_a_run_are_the_parts_between_changes(tmp_path):
    corpus = "{scores: s, weight: {0: 1, 0.5: 2}, min_score: {0.25: null, 0: 3}}"
    text = (MIXED % ("X", "max_steps: 9")).replace("- tsv: b.tsv\n    X", "- {tsv: b.tsv, " + corpus[1:])
    stages = load(tmp_path, text).data.stages
    assert [(stage.begin, stage.end, stage.weights, stage.min_scores) for stage in stages] == [
        (0, 0.25, [1, 1], [None, 3]),
        (0.25, 0.5, [1, 1], [None, None]),
        (0.5, 1, [1, 2], [None, None]),
    ]


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("'('", r"'\(' is not a regular expression \(missing \)"),
        ("'x*'", r"'x\*' also matches the empty text"),
        ("''", r"'' also matches the empty text"),
        ("'(a|b?)'", r"also matches the empty text"),
    ],
)
def test_a_pattern_that_is_none_or_matches_nothing_is_named(tmp_path, pattern, problem):
    with pytest.raises(ConfigError, match=rf"line 2: data\.placeholders: .*{problem}"):
        load(tmp_path, MINIMAL.replace("data:\n", f"data:\n  placeholders: ['a', {pattern}]\n"))


def test_placeholders_are_of_translators(tmp_path):
    data = "{train: [{tsv: a.tsv}], dev: {tsv: d.tsv}, placeholders: [a]}"
    text = f"task: classify\ndata: {data}\ntrain: {{max_steps: 9000}}\n"
    with pytest.raises(ConfigError, match=r"data\.placeholders applies only to translators"):
        load(tmp_path, text)


def test_what_people_type_is_for_translators(tmp_path):
    data = "{train: [{tsv: a.tsv}], dev: {tsv: d.tsv}}"
    text = f"task: classify\ndata: {data}\ntrain: {{max_steps: 9000}}\n"
    assert load(tmp_path, text).augment.rates == {}
    with pytest.raises(ConfigError, match=r"augment\.typos applies only to translators"):
        load(tmp_path, text + "augment: {typos: 0.1}\n")


def test_a_pair_has_one_case(tmp_path):
    with pytest.raises(ConfigError, match=r"capitals, lower_case .*title_case .*1\.2 .*at most 1"):
        load(tmp_path, MINIMAL + "augment: {capitals: 0.5, lower_case: 0.5, title_case: 0.2}\n")


def test_the_reserved_tokens_are_no_tags(tmp_path):
    with pytest.raises(ConfigError, match=r"<ph3> is already a special token"):
        load(tmp_path, MINIMAL.replace("tgt: a.fr}", "tgt: a.fr, tag: <ph3>}"))


def test_a_removed_key_is_ignored_with_its_default_and_reported_with_another_value(tmp_path):
    (path := tmp_path / "serve.yaml").write_text("port: 80\nqueue:\n  max_sentences: 9\n  linger_ms: 10\n")
    assert load_serve_config(path).queue.max_sentences == 9
    path.write_text(path.read_text().replace("10", "50"))
    with pytest.raises(ConfigError, match=r"line 4: queue\.linger_ms: .* no longer .* remove"):
        load_serve_config(path)
    with pytest.raises(ConfigError, match=r"queue\.linger_ms=3: .* no longer"):
        load_serve_config(None, ["queue.linger_ms=3"])


def test_a_config_with_the_default_of_a_removed_key_loads_and_another_value_is_an_error(tmp_path):
    assert load(tmp_path, MINIMAL + "decode: {beam_size: 2, epsilon: 0.0}\n").decode.beam_size == 2
    with pytest.raises(ConfigError, match=r"decode\.epsilon: .* no longer .*decode\.top_p"):
        load(tmp_path, MINIMAL + "decode: {epsilon: 0.02}\n")
    load(tmp_path, MINIMAL.replace("data:\n", "data:\n  fuzzy: 0.0\n"))
    with pytest.raises(ConfigError, match=r"line \d+: data\.fuzzy: .* no longer .*remove it"):
        load(tmp_path, MINIMAL.replace("data:\n", "data:\n  fuzzy: 0.5\n"))
