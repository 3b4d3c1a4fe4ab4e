"""A run continues only with the settings that shape its result."""

import json

import pytest

from mtkit.config.augment import AugmentConfig
from mtkit.config.reading.loading import load_config
from mtkit.config.reading.yaml_text import parse_yaml
from mtkit.config.schema import Config
from mtkit.errors import ConfigError
from mtkit.runs.folder import check_run, chosen_keys, with_its_choices, write_config
from mtkit.training.preparation.rule import KEYS_OF_TRAIN


def test_the_config_is_written_with_every_default(make_config):
    cfg = make_config()
    write_config(cfg, {})
    text = (cfg.run_dir / "config.yaml").read_text()
    assert "adam_eps" in text
    assert load_config(cfg.run_dir / "config.yaml") == cfg


@pytest.mark.parametrize(
    "changes",
    [
        {"max_steps": 500},
        {"max_epochs": 3},
        {"max_minutes": 1.5},
        {"patience": 7},
        {"log_every": 1, "validate_every": 2, "validate_sentences": None, "average_best": 1},
        {"threads": 2, "device": "auto"},
        {"decode": {"beam_size": 7}},
    ],
)
def test_limits_validation_and_the_machine_may_change(make_config, changes):
    write_config(make_config(), {})
    check_run(make_config(**changes), started=True)


def test_what_shapes_the_result_may_not_change(make_config):
    write_config(make_config(), {})
    with pytest.raises(ConfigError) as caught:
        check_run(make_config(seed=7, lr=0.5, model={"d_model": 24}), started=True)
    assert str(caught.value).splitlines()[1:-1] == [
        "  seed: 1 there, 7 now",
        "  model.d_model: 16 there, 24 now",
        "  train.lr: 0.01 there, 0.5 now",
    ]
    assert "start a new run (another run_dir)" in str(caught.value)


def test_the_tokenization_of_validation_bleu_may_not_change(make_config, corpus):
    write_config(make_config(data={**corpus, "tgt_lang": "fr"}), {})
    check_run(make_config(data={**corpus, "tgt_lang": "de"}), started=True)
    with pytest.raises(ConfigError, match=r"  data\.tgt_lang .*: 13a .*, char "):
        check_run(make_config(data={**corpus, "tgt_lang": "ja"}), started=True)


def test_the_weights_of_the_corpora_may_not_change_while_the_files_may(make_config, corpus):
    write_config(make_config(), {})
    [files] = corpus["train"]
    check_run(make_config(data={**corpus, "train": [{**files, "src": "elsewhere.en"}]}), started=True)
    with pytest.raises(ConfigError, match=r"  data\.train\[\]\.weight: \[1\.0\] .*, \[2\.0\] "):
        check_run(make_config(data={**corpus, "train": [{**files, "weight": 2.0}]}), started=True)


def test_before_the_first_checkpoint_everything_may_change(make_config):
    write_config(make_config(), {})
    check_run(make_config(seed=3, lr=0.5, tokenizer={"shared": True}), started=False)


def without_augment(cfg):
    """The config of a user who leaves that section out."""
    values = cfg.model_dump(mode="json", exclude_unset=True)
    del values["augment"]
    return Config.model_validate(values)


def test_a_run_of_a_version_without_augment_goes_on_showing_the_text_as_it_is(make_config):
    cfg = without_augment(make_config(schedule="constant"))
    write_config(cfg, {})
    path = cfg.run_dir / "config.yaml"
    written = parse_yaml(path.read_text()).value
    del written["augment"]
    path.write_text(json.dumps(written))  # which is YAML, too
    resumed = with_its_choices(cfg, started=True)
    assert resumed.augment.rates == {}
    check_run(resumed, started=True)
    typos = make_config(schedule="constant", augment={"typos": 0.2})
    with pytest.raises(ConfigError, match=r"  augment\.typos: 0\.0 there, 0\.2 now"):
        check_run(with_its_choices(typos, started=True), started=True)
    assert with_its_choices(cfg, started=False).augment == AugmentConfig()


def test_the_config_begins_with_the_choices_and_their_reasons_also_after_a_resume(make_config):
    cfg = make_config()
    write_config(cfg, {"train.lr": "0.002, because there are few updates"})
    write_config(cfg, {"train.validate_sentences": "30, because of a budget"}, resumed=True)
    write_config(cfg, {"train.validate_sentences": "50, because of a budget"}, resumed=True)
    assert chosen_keys(cfg.run_dir) == ["train.lr", "train.validate_sentences"]
    path = cfg.run_dir / "config.yaml"
    head, _, rest = path.read_text().partition("task:")
    assert "train.lr: 0.002, because there are few updates\n" in head
    assert "train.validate_sentences: 50, because of a budget\n" in head
    assert all(line.startswith("#") for line in head.splitlines()) and "#" not in rest
    assert load_config(path) == cfg
    write_config(cfg, {})
    assert chosen_keys(cfg.run_dir) == [], "a run that starts again chooses again"


def test_a_started_run_keeps_what_its_first_start_chose_although_other_limits_would_choose_else(make_config):
    values = make_config().model_dump(mode="json", exclude_unset=True)
    chosen = {"lr": 3e-3, "warmup_steps": 7, "guided_alignment": 0.2, "average_best": 2, "average_last": 5}
    chosen |= {"r_drop": 3.0, "r_drop_from": 0.3}
    assert set(chosen) == set(KEYS_OF_TRAIN)
    values["train"] |= {"max_steps": 40, "schedule": "constant"} | chosen
    write_config(Config.model_validate(values), {})
    values["train"] = {key: value for key, value in values["train"].items() if key not in chosen} | {"max_steps": 50}
    cfg = with_its_choices(Config.model_validate(values), started=True)
    assert {key: getattr(cfg.train, key) for key in chosen} == chosen
    check_run(cfg, started=True)
    values["train"]["average_best"] = 4  # which the chosen mean of the last would overrule
    cfg = with_its_choices(Config.model_validate(values), started=True)
    assert (cfg.train.average_best, cfg.train.average_last) == (4, None)
    check_run(cfg, started=True)


@pytest.mark.parametrize(
    ("began", "now", "problem"),
    [
        (
            {"budget": "1h", "r_drop": 3, "r_drop_from": 0.3},
            {"budget": "2h", "patience": 5},
            "r_drop_from=0.3.*patience=5",
        ),
        ({"budget": "1h", "r_drop": 3, "r_drop_from": 0.3}, {"patience": 5}, "r_drop_from=0.3.*max_steps"),
        ({"patience": 5, "warmup_steps": 1000}, {"max_steps": 900}, "warmup_steps=1000.*max_steps=900"),
    ],
)
def test_limits_that_do_not_fit_what_a_run_began_with_are_refused(make_config, began, now, problem):
    def config_with(limits):
        values = make_config().model_dump(mode="json", exclude_unset=True)
        return Config.model_validate(values | {"train": {"schedule": "constant"} | limits})

    write_config(config_with(began), {})
    with pytest.raises(ConfigError, match=f"limits.*{problem}.*run_dir"):
        with_its_choices(config_with(now), started=True)


@pytest.mark.parametrize(
    ("budget", "chosen", "warns"),
    [
        ("20m", {"model.residual_dropout": "0, because"}, True),
        ("20m", {"tokenizer.src.vocab_size": "2934 of 4000: no more; 4000, because"}, True),
        ("20m", {"tokenizer.src.vocab_size": "2934 of 8000: no more"}, False),
        ("19m", {"model.residual_dropout": "0, because"}, False),
        ("1h", {"train.lr": "0.002, because"}, False),
        (None, {"model.residual_dropout": "0, because"}, False),
    ],
)
def test_a_run_with_much_more_time_than_its_model_was_chosen_for_is_told_so(make_config, budget, chosen, warns, caplog):
    def config_with(limit):
        values = make_config().model_dump(mode="json", exclude_unset=True)
        return Config.model_validate(values | {"train": {"schedule": "constant"} | limit})

    write_config(config_with({"budget": "10m"}), chosen)
    with_its_choices(config_with({"budget": budget} if budget else {"max_steps": 10_000}), started=True)
    assert [record.message for record in caplog.records if "another run_dir" in record.message] == (
        [
            f"{make_config().run_dir}: the run keeps what mtkit chose for a shorter train.budget: "
            f"{next(iter(chosen))}; a new run, in another run_dir, can choose others for 20m"
        ]
        if warns
        else []
    )


def test_a_started_run_keeps_its_width_where_the_config_leaves_it_out(make_config):
    values = make_config().model_dump(mode="json", exclude_unset=True)
    values["model"] = {"d_model": 128, "d_ff": 512, "n_heads": 2}
    write_config(type(make_config()).model_validate(values), {})
    del values["model"]
    cfg = with_its_choices(type(make_config()).model_validate(values), started=True)
    assert (cfg.model.d_model, cfg.model.d_ff, cfg.model.n_heads) == (128, 512, 2)
