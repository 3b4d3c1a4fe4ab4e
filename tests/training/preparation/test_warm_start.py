"""Fine-tuning: what a run takes from the model that it starts from, what it may change, and what stays frozen."""

import json
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file
from tiny_models import SHAPES, tiny_bundle, tiny_config, tiny_tokenizer, tiny_transformer
from torch import Tensor

from mtkit.bundle import CHOSEN, add_to_bundle, find_model, load_bundle, save_bundle
from mtkit.config.augment import NOTHING
from mtkit.config.decoding import DecodeConfig
from mtkit.config.reading.loading import load_config
from mtkit.config.schema import Config
from mtkit.config.training import TrainConfig
from mtkit.errors import BundleError, ConfigError
from mtkit.runs.finish import weights_wanted
from mtkit.runs.train import train
from mtkit.tokens.special_ids import BOS_ID
from mtkit.training.preparation import warm_start
from mtkit.training.preparation.prepare import check_early
from mtkit.training.preparation.run_tokenizers import train_tokenizers
from mtkit.training.preparation.warm_start import check_freeze, freeze, inherit, load_start, warn_of_other_languages
from mtkit.training.update.optimizer_step import Updater
from mtkit.training.update.state import Scored, TrainState

SENTENCES = {"green bird": "oiseau vert", "old house": "maison vieille", "big tree": "arbre grand"}


@pytest.fixture(scope="module")
def base_run(tmp_path_factory, config_of):
    """The folder of a finished run."""
    run_dir = tmp_path_factory.mktemp("base") / "run"
    train(config_of(run_dir, model={"residual_dropout": 0.3}, max_steps=12))
    return run_dir


@pytest.fixture
def new_text(tmp_path):
    """The data section for other text than the base was trained on."""
    for side, lines in (("en", SENTENCES), ("fr", SENTENCES.values())):
        (tmp_path / f"new.{side}").write_text("".join(f"{line}\n" for line in lines) * 10)
    files = {"src": str(tmp_path / "new.en"), "tgt": str(tmp_path / "new.fr")}
    return {"train": [files], "dev": files}


@pytest.fixture
def tuning(base_run, new_text, tmp_path):
    """tuning(sections) gives the config of a run in tmp_path/run that starts from base_run."""

    def make(init_from=base_run, model=None, tokenizer=None, data=new_text, **changes):
        rest = {"max_steps": 8, "warmup_steps": 2, "lr": 1e-3, "threads": 1, "device": "cpu", "precision": "fp32"}
        often = {"batch_tokens": 300, "validate_every": 4, "validate_sentences": 3}
        values = {
            "run_dir": str(tmp_path / "run"),
            "data": data,
            "train": {**rest, **often, "init_from": str(init_from), **changes},
            "decode": {"beam_size": 1, "max_len_factor": 1.0, "max_len_constant": 5},
        }
        sections = {"model": model, "tokenizer": tokenizer}
        return Config.model_validate(values | {name: section for name, section in sections.items() if section})

    return make


def weights_of(folder):
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize(
    ("languages", "tag", "warns"),
    [(("en", "ru"), None, True), (("fr", "en"), None, True), (("en", "ru"), "<2ru>", False)]
    + [(same, None, False) for same in (("en", "fr"), ("eng", "fr-CA"), ("src", "tgt"))],
)
def test_fine_tuning_on_other_languages_warns(languages, tag, warns, log_text):
    files = {"src": "a", "tgt": "b"}
    data = {"src_lang": languages[0], "tgt_lang": languages[1], "train": [{**files, "tag": tag}], "dev": files}
    then = Config.model_validate({"data": {**data, "src_lang": "en", "tgt_lang": "fr"}, "train": {"max_steps": 5000}})
    now = {"data": data, "train": {"max_steps": 5000, "init_from": "runs/base"}}
    warn_of_other_languages(Config.model_validate(now), then)
    text = log_text()
    assert all(fact in text for fact in ("en-fr", "-".join(languages), "runs/base")) == warns


def test_a_run_starts_from_the_weights_and_tokenizers_of_the_model(base_run, tuning, tmp_path, monkeypatch):
    def update(self, *arguments):
        if not started:
            started.update({name: weight.detach().clone() for name, weight in self.model.named_parameters()})
        return original(self, *arguments)

    started: dict[str, Tensor] = {}
    original = Updater.update
    monkeypatch.setattr(Updater, "update", update)
    result = train(tuning())
    base = weights_of(base_run / "model")
    assert started.keys() == base.keys()
    assert all(torch.equal(started[name], weight) for name, weight in base.items())
    for side in ("src", "tgt"):
        assert (result.bundle / f"{side}.spm").read_bytes() == (base_run / "model" / f"{side}.spm").read_bytes()
    assert any(not torch.equal(weight, base[name]) for name, weight in weights_of(result.bundle).items())


def test_a_run_that_only_does_harm_keeps_the_model_that_it_started_from(base_run, tuning, tmp_path, log_text):
    cfg = tuning(lr=30.0, warmup_steps=0, metric="loss", data=load_config(base_run / "config.yaml").data)
    result = train(cfg)
    assert result.averaged_steps == (0,)
    base = weights_of(base_run / "model")
    assert all(torch.equal(base[name], weight) for name, weight in weights_of(result.bundle).items())
    entries = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    validations = {entry["step"]: entry["loss"] for entry in entries if entry["kind"] == "validation"}
    assert list(validations) == [0, 4, 8] and validations[0] < min(validations[4], validations[8])
    assert f"better on dev than {base_run}" in log_text()
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Before and after" in page and "that one, unchanged" in page
    assert train(cfg) == result, "a finished run stays as it is"


def test_weights_that_have_learned_nothing_are_no_part_of_a_mean():
    better, start, worse = (Scored(step, value, 1.0) for step, value in ((4, 30.0), (0, 20.0), (8, 10.0)))
    ends = {"max_steps": 8}
    best = TrainState(best=[better, start, worse])
    assert list(weights_wanted(best, TrainConfig(**ends))) == [better]
    last = TrainState(best=[better], last=[start, better, worse])
    assert list(weights_wanted(last, TrainConfig(**ends, average_last=3))) == [better, worse]
    harmful = TrainState(best=[start], last=[start, worse])
    assert list(weights_wanted(harmful, TrainConfig(**ends, average_last=2))) == [start]


def test_what_a_config_leaves_out_suits_tuning(base_run, tuning, tmp_path):
    cfg = tuning(max_steps=2000)
    written = {key: value for key, value in cfg.train if key not in ("lr", "warmup_steps", "batch_tokens")}
    bare = Config.model_validate({**cfg.model_dump(exclude={"train", "model", "tokenizer"}), "train": written})
    chosen = inherit(bare).train
    assert (chosen.lr, chosen.warmup_steps) == (2e-4, 100)
    assert inherit(tuning(max_steps=8)).train.lr == 1e-3, "a written value stays"


@pytest.mark.parametrize(
    ("limit", "chosen", "dropout"),
    [
        ({"budget": "1m"}, None, 0.1),  # by an older version, which did not record who chose
        ({"budget": "1m"}, ["train.lr", "model.residual_dropout"], 0.1),
        ({"budget": "1m"}, ["train.lr"], 0.0),  # its author did
        ({"max_steps": 5000}, None, 0.0),
    ],
)
def test_a_dropout_that_a_budget_switched_off_is_not_inherited(tuning, tmp_path, limit, chosen, dropout):
    shape = tiny_config({"embedding_dropout": 0.0, "residual_dropout": 0.0})
    cfg = shape.model_copy(update={"train": TrainConfig(**limit)})
    base, spm = tmp_path / "base", tiny_tokenizer(tmp_path, cfg)
    weights = tiny_bundle(base, spm, cfg).model.state_dict()
    save_bundle(base, weights, cfg, spm, spm, training={} if chosen is None else {CHOSEN: chosen})
    model = inherit(tuning(init_from=base)).model
    assert (model.embedding_dropout, model.residual_dropout, model.ffn_dropout) == (dropout, dropout, 0.0)


def test_a_run_changes_as_much_of_its_text_as_that_of_the_model(tuning, tmp_path):
    cfg = tiny_config({}).model_copy(update={"augment": NOTHING.model_copy(update={"typos": 0.2})})
    (tmp_path / "base").mkdir()
    tiny_bundle(tmp_path / "base", tiny_tokenizer(tmp_path / "base", cfg), cfg)
    inherited = inherit(tuning(init_from=tmp_path / "base"))
    assert inherited.augment.rates == {"typos": 0.2}
    own = inherited.model_copy(update={"augment": NOTHING.model_copy(update={"capitals": 0.1})})
    assert inherit(own).augment.rates == {"capitals": 0.1}


def test_keys_that_are_left_out_are_those_of_the_model(base_run, tuning, tmp_path):
    train(tuning(model={"embedding_dropout": 0.25}))
    base, made = (load_config(run / "config.yaml") for run in (base_run, tmp_path / "run"))
    assert made.model == base.model.model_copy(update={"embedding_dropout": 0.25})
    assert made.model.residual_dropout == 0.3
    assert made.tokenizer == base.tokenizer


@pytest.mark.parametrize(
    ("sections", "finding"),
    [
        (
            {"model": {"d_model": 32, "n_heads": 4}},
            "  model.d_model: 16 there, 32 here\n  model.n_heads: 2 there, 4 here",
        ),
        ({"model": {"norm_position": "post"}}, "  model.norm_position: pre there, post here"),
        ({"tokenizer": {"src": {"type": "bpe"}}}, "  tokenizer.src.type: char there, bpe here"),
    ],
)
def test_settings_that_do_not_fit_the_weights_are_named(tuning, sections, finding):
    with pytest.raises(ConfigError) as caught:
        train(tuning(**sections))
    assert f":\n{finding}\n" in str(caught.value)


def test_only_the_key_of_the_models_own_positions_must_be_the_models(tuning, tmp_path):
    cfg = inherit(tuning(model={"max_positions": 64, "max_relative_distance": 4}))
    assert (cfg.model.positions, cfg.model.max_positions, cfg.model.max_relative_distance) == ("sinusoidal", 64, 4)
    shape = tiny_config(SHAPES["relative positions"])
    tiny_bundle(tmp_path / "relative", tiny_tokenizer(tmp_path, shape), shape)
    with pytest.raises(ConfigError) as caught:
        inherit(tuning(init_from=tmp_path / "relative", model={"max_positions": 64, "max_relative_distance": 4}))
    assert ":\n  model.max_relative_distance: 3 there, 4 here\n" in str(caught.value)


def test_a_stopped_fine_tuning_resumes_bit_for_bit_without_the_model(base_run, tuning, tmp_path):
    copy = shutil.copytree(base_run, tmp_path / "base")
    whole = train(tuning(copy, ema=0.9)).bundle
    shutil.move(tmp_path / "run", tmp_path / "whole")
    train(tuning(copy, ema=0.9, max_steps=3))
    shutil.rmtree(copy)
    train(tuning(copy, ema=0.9))
    for name in ("model.safetensors", "ema.safetensors"):
        files = [tmp_path / run / "checkpoints" / "step-8" / name for run in ("run", "whole")]
        assert files[0].read_bytes() == files[1].read_bytes()
    assert whole == tmp_path / "run" / "model"


def test_another_model_in_a_started_run_is_an_error(base_run, tuning, tmp_path):
    train(tuning(max_steps=3))
    shutil.copytree(base_run, tmp_path / "moved")
    other = train(tuning(max_steps=4)).bundle.rename(tmp_path / "other")
    with pytest.raises(ConfigError, match=r"train\.init_from: .*, .*other\b"):
        train(tuning(other, max_steps=5))
    with pytest.raises(ConfigError, match=r"train\.init_from: .*, .*nowhere\b"):
        train(tuning(tmp_path / "nowhere", max_steps=5))
    assert train(tuning(tmp_path / "moved", max_steps=5)).steps == 5, "the same model in another place"


@pytest.mark.parametrize("max_steps", [3, 5])  # the run has finished, or goes on
def test_another_model_in_the_place_of_the_first_is_refused(base_run, tuning, tmp_path, max_steps):
    copy = shutil.copytree(base_run, tmp_path / "base")
    other = train(tuning(copy, max_steps=3)).bundle
    other = shutil.copytree(other, tmp_path / "other")
    shutil.rmtree(copy)
    other.rename(copy)
    with pytest.raises(ConfigError, match=rf"train\.init_from={copy}: another model .*run_dir"):
        train(tuning(copy, max_steps=max_steps))
    shutil.rmtree(copy)
    assert train(tuning(copy, max_steps=max_steps)).steps == max_steps, "a model that is gone does not matter"


def test_a_run_resumes_after_its_model_has_moved(base_run, tuning, tmp_path, caplog):
    first = shutil.copytree(base_run, tmp_path / "first")
    train(tuning(first, max_steps=3))
    first.rename(tmp_path / "second")
    assert train(tuning(tmp_path / "second", max_steps=4)).steps == 4
    assert re.search(r"train\.init_from: .*first\b", caplog.text)
    shutil.copytree(tmp_path / "second", tmp_path / "third")
    add_to_bundle(find_model(tmp_path / "third"), "more.txt", lambda path: path.write_text("words\n"))
    assert train(tuning(tmp_path / "third", max_steps=5)).steps == 5, "the same weights, whatever lies beside them"


def test_other_tokenizers_in_the_run_are_not_mixed_with_the_weights(tuning, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "src.spm").write_bytes(b"other")
    with pytest.raises(ConfigError, match=r"src\.spm: .* train\.init_from"):
        train(tuning())


def test_copied_tokenizers_do_not_stay_in_a_run_that_starts_from_no_model(tuning, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    own = tuning(tokenizer={"src": {"type": "char"}, "tgt": {"type": "char"}}, model={"d_model": 16, "n_heads": 2})
    own = own.model_copy(update={"train": own.train.model_copy(update={"init_from": None})})
    with monkeypatch.context() as patch:
        patch.setattr("mtkit.training.preparation.parallel_text.encode", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(tuning())
    copied = (tmp_path / "run" / "src.spm").read_bytes()
    (tmp_path / "fresh").mkdir()
    for folder in ("run", "fresh"):
        train_tokenizers(own, tmp_path / folder)
    for name in ("src.spm", "tgt.spm"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "fresh" / name).read_bytes() != copied


def test_a_tag_that_the_model_does_not_know_is_an_error(tuning, new_text):
    corpora = [{**new_text["train"][0], "tag": "<news>"}]
    with pytest.raises(ConfigError, match=r"data\.train\[\]\.tag=<news>: .*tag <news>"):
        train(tuning(data={**new_text, "train": corpora}))
    with pytest.raises(ConfigError, match=r"decode\.tag=<news>: "):
        train(tuning().model_copy(update={"decode": DecodeConfig(tag="<news>")}))
    with pytest.raises(ConfigError, match=r"data\.dev\.tag=<news>: "):  # before teachers translate for hours
        check_early(tuning(data={**new_text, "dev": {**new_text["dev"], "tag": "<news>"}}))


def test_names_of_weights_to_be_frozen_are_checked_before_teachers_translate(tuning):
    with pytest.raises(ConfigError, match=r"train\.freeze: .*'embeddings'"):
        check_early(tuning(freeze=["embeddings"]))
    check_early(tuning(freeze=["encoder"]))


def test_without_frozen_weights_no_model_is_built_for_their_names(monkeypatch):
    monkeypatch.setattr(warm_start, "new_network", None)  # on the meta device: it imports a second's worth of modules
    check_freeze(tiny_config({}))


def test_a_place_without_a_model_is_an_error(tuning, tmp_path):
    with pytest.raises(BundleError, match=r"nowhere: no such folder"):
        train(tuning(tmp_path / "nowhere"))


def test_frozen_weights_stay_as_they_are(base_run, tuning):
    result = train(tuning(freeze=["encoder", "src_embedding"], weight_decay=0.1, average_best=1))
    base, tuned = weights_of(base_run / "model"), weights_of(result.bundle)
    same = {name for name, weight in base.items() if torch.equal(weight, tuned[name])}
    assert same == {name for name in base if name.startswith(("encoder", "src_embedding"))}


def small_model(n_layers=1, **changes):
    return tiny_transformer(9, d_model=8, d_ff=8, n_heads=1, n_encoder_layers=n_layers, **changes)


def frozen(model):
    return {name for name, weight in model.named_parameters() if not weight.requires_grad}


def test_a_prefix_ends_where_a_number_ends():
    model = small_model(n_layers=11)
    freeze(model, ["encoder_layers.1"])
    assert frozen(model)
    assert {name.split(".")[1] for name in frozen(model)} == {"1"}


def test_a_shared_matrix_is_frozen_under_each_of_its_names():
    model = small_model(tie="decoder")
    freeze(model, ["output"])
    assert frozen(model) == {"output.bias", "tgt_embedding.weight"}


@pytest.mark.parametrize(
    ("prefixes", "message"),
    [
        (["encoder", "embeddings"], "'embeddings'"),
        ([""], "no weight has a name that begins with ''"),
        (["src", "tgt", "encoder", "decoder", "output"], "train.freeze="),
    ],
)
def test_freezing_nothing_or_everything_is_an_error(prefixes, message):
    with pytest.raises(ConfigError, match=r"train\.freeze") as caught:
        freeze(small_model(), prefixes)
    assert message in str(caught.value)


def test_a_model_can_learn_tokens_that_its_import_never_writes(base_run, tmp_path):
    """As imports leave them: a bias of -30000. A target with such a token would cost as many nats."""
    bundle = load_bundle(base_run / "model")
    with torch.no_grad():
        bundle.model.output.bias[1] = -30000.0
    folder = shutil.copytree(base_run / "model", tmp_path / "model")
    save_bundle(folder, bundle.model.state_dict(), bundle.config, folder / "src.spm", folder / "tgt.spm", training={})
    model = load_bundle(folder).model
    load_start(folder, model)
    others = torch.arange(model.output.bias.numel()) != 1
    assert torch.equal(model.output.bias[others], bundle.model.output.bias[others])
    nll = -model(torch.tensor([[5, 3]]), torch.tensor([[2]])).log_softmax(-1)[0, 0, 1]
    assert 20 < nll < 60


def test_with_marians_positions_an_embedding_of_start_that_was_trained_becomes_zero(base_run, tmp_path):
    """As the first versions of mtkit trained it; all other weights, the keys' biases too, come as they are."""
    base = load_bundle(base_run / "model")
    config = base.config.model_copy(update={"model": base.config.model.model_copy(update={"positions": "marian"})})
    state = {name: torch.randn_like(weight) for name, weight in base.model.state_dict().items()}
    state["output.weight"] = state["tgt_embedding.weight"]
    folder = tmp_path / "model"
    save_bundle(folder, state, config, base_run / "model/src.spm", base_run / "model/tgt.spm", training={})
    model = load_bundle(folder).model
    assert torch.equal(model.tgt_embedding.weight, state["tgt_embedding.weight"])
    load_start(folder, model)
    state["tgt_embedding.weight"][BOS_ID] = 0.0
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight.detach(), state[name], rtol=0, atol=0, msg=name)


def test_the_manifest_is_of_the_new_run(tuning, tmp_path):
    result = train(tuning())
    training = json.loads((result.bundle / "manifest.json").read_text())["training"]
    assert training["step"] == 8
