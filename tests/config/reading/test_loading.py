"""Config files: notations, defaults, problems with their lines, and what is written back."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_configs import MINIMAL, assert_facts, load, problems

from mtkit.config.data import DataConfig, TrainCorpus
from mtkit.config.reading import yaml_text
from mtkit.config.reading.loading import dump_config, json_schema, load_config, load_serve_config
from mtkit.config.reading.problems import _NAMES_ELSEWHERE, _leaf_keys, describe_values, field_at
from mtkit.config.reading.yaml_text import format_yaml, parse_yaml
from mtkit.config.schema import Config
from mtkit.config.training import TrainConfig
from mtkit.errors import ConfigError

# Each line repeats the one before nine times: 9^9 words.
BILLION_LAUGHS = b"a: &a [ha, ha, ha]\n" + b"".join(
    b"%c: &%c [%s]\n" % (key + 1, key + 1, b"*%c, " % key * 9) for key in range(ord("a"), ord("j"))
)


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


def test_a_text_in_a_file_that_begins_with_such_a_mark_needs_quotes(tmp_path):
    assert "quotes" in problems(tmp_path, MINIMAL + "decode:\n  tag: >>fra<<\n")[1]
    assert load(tmp_path, MINIMAL + "decode:\n  tag: '>>fra<<'\n").decode.tag == ">>fra<<"


def test_the_name_of_a_language_becomes_its_code(tmp_path):
    data = load(tmp_path, MINIMAL, "data.src_lang=English", "data.tgt_lang=chinese").data
    assert (data.src_lang, data.tgt_lang) == ("en", "zh")


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


@pytest.mark.parametrize(
    ("typed", "hint"), [("smal.yaml", "small.yaml?"), ("small.yml", "small.yaml?"), ("x.yaml", "")]
)
def test_a_missing_file_brings_the_config_whose_name_is_alike_without_the_extension(tmp_path, typed, hint):
    for name in ("small.yaml", "big.yaml"):
        (tmp_path / name).touch()
    with pytest.raises(ConfigError, match="no such file") as error:
        load_config(tmp_path / typed, [])
    assert str(error.value).endswith(hint or "no such file")
