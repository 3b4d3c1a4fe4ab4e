"""Which values of a config go together, and which defaults depend on others."""

from typing import get_args

import pytest
from tiny_configs import MINIMAL, assert_facts, load, problems

from mtkit.config.model import PRESETS
from mtkit.config.reading.loading import dump_config, load_config
from mtkit.config.schema import Preset
from mtkit.errors import ConfigError


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
    with pytest.raises(ConfigError, match=r"line 6: model.*tiny, small, base, big, student"):
        load_config(path)


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
