"""Settings that replace values of a config file."""

from pathlib import Path

import pytest
from tiny_configs import MINIMAL, assert_facts, load, problems

from mtkit.config.data import TrainCorpus
from mtkit.config.reading.loading import dump_config, load_config
from mtkit.config.reading.problems import Setting
from mtkit.errors import ConfigError


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
