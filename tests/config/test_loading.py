from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.config.loading import dump_config, json_schema, load_config
from mtkit.config.problems import _NAMES_ELSEWHERE, _leaf_keys
from mtkit.config.schema import Config, DataConfig, TrainConfig, TrainCorpus
from mtkit.config.yaml_text import format_yaml, parse_yaml
from mtkit.errors import ConfigError

MINIMAL = """\
data:
  train: [{src: a.en, tgt: a.fr}]
  dev: {src: d.en, tgt: d.fr}
train:
  max_steps: 5000
"""


def load(tmp_path: Path, text: str | bytes, *overrides: str) -> Config:
    path = tmp_path / "small.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_config(path, overrides)


def problems(tmp_path: Path, text: str | bytes, *overrides: str) -> list[str]:
    """The message's lines, the file's name left out."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, *overrides)
    return [line.strip() for line in str(caught.value).replace(f"{tmp_path}/", "").splitlines()]


def test_what_the_file_leaves_out_has_the_schemas_defaults(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = load(tmp_path, MINIMAL)
    assert config.train == TrainConfig(max_steps=5000)
    assert config.run_dir == tmp_path / "runs" / "small"


@pytest.mark.parametrize(
    ("written", "meant"),
    [("1e-3", 1e-3), ("1.5E-3", 1.5e-3), (".5", 0.5), ("2", 2.0), ("1_000", 1000.0), ("+1.", 1.0), ("1e2", 100.0)],
)
def test_numbers_are_read_as_people_write_them(tmp_path, written, meant):
    assert load(tmp_path, MINIMAL + f"  lr: {written}\n").train.lr == meant


def test_a_whole_number_may_have_an_exponent(tmp_path):
    assert load(tmp_path, MINIMAL.replace("5000", "1e5")).train.max_steps == 100_000


@pytest.mark.parametrize("language", ["no", "on", "y", "off", "12:30", "0x1F", "2024-01-01", "<<", "="])
def test_text_that_yaml_1_1_takes_for_something_else_stays_text(tmp_path, language):
    config = load(tmp_path, MINIMAL.replace("data:\n", f"data:\n  tgt_lang: {language}\n"))
    assert config.data.tgt_lang == language


def test_paths_start_from_the_folder_of_the_file_and_are_tidy(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    monkeypatch.setenv("HOME", "/home/ada")
    text = MINIMAL.replace("a.en", "../texts/./a.en").replace("a.fr", "/abs/a.fr").replace("d.en", "~/d.en")
    config = load(tmp_path, "run_dir: ../runs/x\n" + text)
    assert config.data.train[0].src == tmp_path.parent / "texts" / "a.en"
    assert config.data.train[0].tgt == Path("/abs/a.fr")
    assert config.data.dev.src == Path("/home/ada/d.en")
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
    assert problems(tmp_path, text) == [
        "small.yaml: 16 problems",
        "line 2: data.tgt_lang=5: must be text; put it in quotes",
        "line 5: data.train.1: give either both src and tgt, or tsv",
        "line 6: data.dev.trg: unknown key; did you mean tgt?",
        "line 8: tokenizer.src.vocab_size=100: must be a whole number of at least 264",
        'line 9: tokenizer.tgt.type="unigrm": must be one of unigram, bpe, char; did you mean unigram?',
        "line 11: model.n_head: unknown key; did you mean n_heads?",
        "line 12: model.lr: unknown key; did you mean train.lr?",
        'line 13: model.d_model="256": must be a whole number of at least 8',
        "line 14: model.d_model: given twice, first in line 13; keep one",
        "line 16: train.adam_betas: must be a list of 2 numbers, each of at least 0 and below 1",
        'line 17: train.device="gpu": must be one of: auto (a GPU if there is one), cpu, cuda, cuda:N or mps',
        "line 18: train.warmup_steps: is empty; it must be a whole number of at least 0",
        "line 19: train.label_smoothing=1.5: must be a number of at least 0 and below 1",
        "line 20: train.lr=Infinity: must be a number above 0",
        "line 21: train.max_grad_norm=true: must be a number above 0",
        "line 22: decode: is empty; write its keys below it, or leave it out",
    ]


def test_keys_that_do_not_go_together_are_found_at_the_key_that_is_named_first(tmp_path):
    text = MINIMAL + "  lr: 1e-3\n  warmup_steps: 8000\n"
    assert problems(tmp_path, text)[1:] == ["line 7: train.warmup_steps=8000 is not below train.max_steps=5000"]
    text = MINIMAL + "model:\n  positions: learned\n  max_positions: 64\n"
    [problem] = problems(tmp_path, text)[1:]
    assert problem.startswith("line 8: data.max_tokens=128 (and <end>) does not fit model.max_positions=64")
    assert problems(tmp_path, MINIMAL + "  r_drop_from: 0.3\n")[1:] == [
        "line 6: train.r_drop_from=0.3 does nothing without r_drop: set r_drop, 3 for example"
    ]
    endless = MINIMAL.replace("max_steps: 5000", "patience: 3") + "  r_drop: 3\n  r_drop_from: 0.3\n"
    [problem] = problems(tmp_path, endless)[1:]
    assert problem.startswith("line 7: train.r_drop_from=0.3 needs to know the end: set max_steps, ")
    [problem] = problems(tmp_path, endless + "  max_epochs: 9\n")[1:]
    assert problem.startswith("line 7: train.r_drop_from=0.3 and ")
    assert "patience=3: the run could end before R-Drop begins; set patience to null" in problem
    [problem] = problems(tmp_path, MINIMAL.replace("max_steps: 5000", "lr: 1"))[1:]
    assert (
        problem == "line 4: train: nothing stops this run: set max_steps, max_epochs, max_minutes, budget or patience"
    )


def test_missing_sections_say_what_they_are_for(tmp_path):
    assert problems(tmp_path, "data:\n  train: [{tsv: a.tsv}]\n") == [
        "small.yaml: 2 problems",
        "train: missing (how the model learns, and when it stops)",
        "line 1: data.dev: missing (watched during training: early stopping, choice of checkpoints)",
    ]


def test_a_key_of_another_section_is_sent_there_even_if_this_one_has_a_like_one(tmp_path):
    assert problems(tmp_path, MINIMAL + "  max_tokens: 100\n")[1:] == [
        "line 6: train.max_tokens: unknown key; did you mean data.max_tokens?"
    ]


def test_names_that_other_toolkits_use_are_known(tmp_path):
    assert problems(tmp_path, MINIMAL + "  learning_rate: 1\n")[1:] == [
        "line 6: train.learning_rate: unknown key; did you mean train.lr?"
    ]
    ours = list(_leaf_keys(Config))
    assert {path for _, path in ours} >= set(_NAMES_ELSEWHERE.values())
    assert not {name for name, _ in ours} & _NAMES_ELSEWHERE.keys()


def test_a_value_that_yaml_cannot_give_is_one_problem_not_two(tmp_path):
    assert problems(tmp_path, MINIMAL + "  lr: !!bool x\n") == [
        "small.yaml: 1 problem",
        "line 6: train.lr: the tag tag:yaml.org,2002:bool cannot be used here",
    ]


def test_an_unknown_key_like_none_is_answered_with_the_sections_keys(tmp_path):
    [problem] = problems(tmp_path, MINIMAL + "decode:\n  zzz: 1\n")[1:]
    assert problem.startswith("line 7: decode.zzz: unknown key; the keys here are beam_size, length_normalization, ")


def test_a_corpus_without_its_dash_is_explained(tmp_path):
    text = MINIMAL.replace("[{src: a.en, tgt: a.fr}]", "{src: a.en, tgt: a.fr}")
    assert problems(tmp_path, text)[1:] == [
        "line 2: data.train: must be a list: a dash before each entry, as in '- src: ...'"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"data:\n  src_lang: \xe9t\xe9\n", "small.yaml: line 2: not UTF-8 text (byte 0xe9); save the file as UTF-8"),
        (b"", "small.yaml: empty; copy one of the files in configs/ and change it"),
        (b"# nothing\n", "small.yaml: empty; copy one of the files in configs/ and change it"),
        (b"- a\n", "line 1: must hold sections such as 'train:', with keys below"),
        (b"just words\n", "line 1: must hold sections such as 'train:', with keys below"),
        (b"data:\n  a: 1\n b: 2\n", "line 3: not valid YAML"),
        (b"data:\n\ttrain: 1\n", "line 2: not valid YAML"),
        (b"a: 1\n---\nb: 2\n", "line 2: not valid YAML"),
        (b"a: 1\nb: \x07\n", "line 2: the character U+0007 is not allowed"),
        (b"a: &x [*x]\n", "line 1: a.0: is an alias of something that it is part of"),
        (b"a: !!python/name:os.system\n", "line 1: a: the tag tag:yaml.org,2002:python/name:os.system cannot be"),
        (b"? [1]\n: 2\n", "line 1: a key must be a word"),
        (b"[" * 100_000, "nested too deeply"),
        (b"a: " + b"[" * 250 + b"]" * 250 + b"\n", "not a config: brackets are nested too deeply"),
        (b'seed: "\\ud800"\n', "not a config: text holds half of a surrogate pair"),
        (b'"\\ud800": 1\n', "not a config: text holds half of a surrogate pair"),
    ],
)
def test_a_file_that_is_no_config_gives_a_clear_error(tmp_path, text, message):
    assert message in "\n".join(problems(tmp_path, text))


def test_a_byte_order_mark_is_dropped(tmp_path):
    assert load(tmp_path, b"\xef\xbb\xbf" + MINIMAL.encode()) == load(tmp_path, MINIMAL)


def test_a_wrong_file_name_is_answered_with_the_nearest(tmp_path):
    (tmp_path / "tatoeba.yaml").touch()
    with pytest.raises(ConfigError, match=r"tatoeb\.yaml: no such file; did you mean .*/tatoeba\.yaml\?"):
        load_config(tmp_path / "tatoeb.yaml")
    with pytest.raises(ConfigError, match="is a folder; give the YAML file itself"):
        load_config(tmp_path)
    (tmp_path / "config.yaml").touch()
    with pytest.raises(ConfigError, match=r"is a folder; did you mean .*/config\.yaml\?"):
        load_config(tmp_path)


def test_overrides_replace_what_the_file_says(tmp_path):
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


@pytest.mark.parametrize("overrides", [[], ["data.dev.src=~nobody-of-this-name/d.en"]])
def test_the_home_of_a_user_that_does_not_exist_is_a_mistake_like_others(tmp_path, overrides):
    text = MINIMAL if overrides else MINIMAL.replace("d.en", "~nobody-of-this-name/d.en")
    with pytest.raises(ConfigError, match=r"~nobody-of-this-name/d\.en: there is no such user; write \./~nobody"):
        load(tmp_path, text, *overrides)


def test_what_comes_from_another_model_does_not_have_to_fit_yet(tmp_path):
    text = MINIMAL + "model: {n_heads: 6, tie: all}\n"
    with pytest.raises(ConfigError, match="d_model=256 does not split into 6 heads"):
        load(tmp_path, text)
    assert load(tmp_path, text, "train.init_from=elsewhere").model.n_heads == 6


def test_paths_of_overrides_start_from_the_current_folder(tmp_path, monkeypatch):
    here = tmp_path / "elsewhere"
    here.mkdir()
    monkeypatch.chdir(here)
    config = load(tmp_path, MINIMAL, "data.dev={tsv: x/../d.tsv}", "run_dir=r", "data.train.0.src=b.en")
    assert config.data.dev.tsv == here / "d.tsv"
    assert config.run_dir == here / "r"
    assert config.data.train[0] == TrainCorpus(src=here / "b.en", tgt=tmp_path / "a.fr")


def test_problems_of_overrides_name_the_override(tmp_path):
    found = problems(
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
    assert found == [
        "small.yaml: 11 problems",
        "--set train.lr=x: must be a number above 0",
        "--set model.n_head=8: unknown key; did you mean n_heads?",
        "--set modl.d_ff=8: modl: unknown key; did you mean model?",
        "--set foo: write it as section.key=value, for example train.lr=1e-3",
        "--set data.train.5.src=a: data.train is a list of 1: give the number of an entry, from 0 to 1",
        "--set data.src=a: unknown key; did you mean data.dev.src?",
        "--set train.max_steps.x=1: train.max_steps is a single value, with no keys below it",
        "--set model.0=1: model has keys, not numbered entries",
        "--set decode.beam_size=[: not valid YAML: while parsing a flow node, expected the node content, "
        "but found '<stream end>'",
        "--set decode.length_penalty={a: 1, a: 2}: given twice, first in line 1; keep one",
        "--set data.train.1.src=b.en: data.train.1: give either both src and tgt, or tsv",
    ]


def test_an_override_that_breaks_a_section_is_blamed_for_it(tmp_path):
    assert problems(tmp_path, MINIMAL, "train.max_steps=500")[1:] == [
        "--set train.max_steps=500: train.warmup_steps=1000 is not below train.max_steps=500"
    ]
    assert problems(tmp_path, MINIMAL + "  warmup_steps: 700\n", "train.max_steps=500")[1:] == [
        "--set train.max_steps=500: train.warmup_steps=700 is not below train.max_steps=500"
    ]
    assert problems(tmp_path, MINIMAL, "data.train=[{src: a}]")[1:] == [
        "--set data.train=[{src: a}]: data.train.0: give either both src and tgt, or tsv"
    ]
    assert problems(tmp_path, MINIMAL, "model.n_heads=3")[1:] == [
        "--set model.n_heads=3: model.d_model=256 does not split into 3 heads"
    ]


def test_what_is_missing_is_not_the_fault_of_an_override(tmp_path):
    assert problems(tmp_path, "train: {max_steps: 5000}\n", "data.src_lang=en")[1:] == [
        "data.train: missing (what the model learns from: one or several corpora)",
        "data.dev: missing (watched during training: early stopping, choice of checkpoints)",
    ]


def test_a_runs_own_config_file_gives_the_same_run_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = load(tmp_path, MINIMAL)
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
        max_steps=st.integers(10**5, 10**30),
        lr=st.floats(0, exclude_min=True, allow_infinity=False),
        adam_betas=st.tuples(st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True)),
    ),
)


@settings(deadline=None)
@given(configs)
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


@settings(deadline=None)
@given(plain_values)
def test_formatted_yaml_is_parsed_back_to_the_same_value(value):
    parsed = parse_yaml(format_yaml(value))
    assert parsed.value == value
    assert not parsed.faults


def test_written_yaml_means_the_same_to_other_readers(tmp_path):
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
