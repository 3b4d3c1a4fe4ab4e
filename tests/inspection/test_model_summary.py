"""`mtkit inspect model`: against torch's own counters, by hand, and as a user meets it."""

import json
from collections import Counter

import pytest
import torch
from tiny_models import (
    LABELS,
    SENTENCES,
    SHAPES,
    tiny_bundle,
    tiny_classifier,
    tiny_classifier_config,
    tiny_config,
    tiny_tokenizer,
)
from torch.utils.flop_counter import FlopCounterMode
from typer.testing import CliRunner

from mtkit.cli import app
from mtkit.config.reading.loading import dump_config
from mtkit.config.schema import Config
from mtkit.errors import ConfigError, UsageError
from mtkit.inspection.model_summary import Architecture, part_of, summarize
from mtkit.model.attention import CrossAttention, SelfAttention
from mtkit.model.networks import new_network
from mtkit.model.transformer import Transformer
from mtkit.tokens.tokenizer import Tokenizer

V, S, T = 300, 7, 5


@pytest.fixture(scope="module")
def bundle(folder):
    return tiny_bundle(folder / "tiny", tiny_tokenizer(folder, tiny_config({})), tiny_config({}))


def run(*args: str):
    return CliRunner().invoke(app, ["inspect", "model", *args])


@pytest.fixture(
    scope="module", params=[(task, shape) for task in ("translate", "classify") for shape in SHAPES], ids="-".join
)
def cfg(request) -> Config:
    task, shape = request.param
    return tiny_config(SHAPES[shape]) if task == "translate" else tiny_classifier_config(SHAPES[shape])


@pytest.fixture(scope="module")
def found(cfg):
    return summarize(cfg, V, V, S, T)


def test_parameters_are_torchs_count(cfg, found):
    model = new_network(cfg, V, V)
    assert found.parameters == sum(parameter.numel() for parameter in model.parameters())
    for layer in found.layers:
        if layer.name != "model":
            assert layer.parameters == sum(p.numel() for p in model.get_submodule(layer.name).parameters())


def test_multiply_adds_are_half_of_torchs_operations_part_by_part(cfg, found):
    model = new_network(cfg, V, V).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.randint(4, V, (1, S)), torch.randint(4, V, (1, T)))
    assert 2 * found.multiply_adds == counter.get_total_flops()
    by_part: Counter[str] = Counter()
    counts = counter.get_flop_counts()
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            by_part[part_of(name)] += sum(counts[f"{type(model).__name__}.{name}"].values())
        elif isinstance(module, SelfAttention | CrossAttention):  # itself: products that no linear layer makes
            own = (torch.ops.aten.bmm, torch.ops.aten.baddbmm, torch.ops.aten.mm)
            by_part[part_of(name)] += sum(
                counts[f"{type(model).__name__}.{name}"].get(operation, 0) for operation in own
            )
    assert {part.name: 2 * part.multiply_adds for part in found.parts if part.multiply_adds} == +by_part


def test_shapes_are_those_of_a_real_pass(cfg, found):
    model, expected = new_network(cfg, V, V).eval(), {}
    for name, module in model.named_modules():
        module.register_forward_hook(lambda _, inputs, out, name=name: expected.update({name: tuple(out.shape)}))
    with torch.no_grad():
        model(torch.randint(4, V, (1, S)), torch.randint(4, V, (1, T)))
    outputs = {layer.name: layer.output for layer in found.layers}
    d_model = cfg.model.d_model
    assert outputs["model"] == ((1, T, V) if cfg.task == "translate" else (1, 1, len(LABELS)))
    assert outputs["src_embedding"] == (1, S, d_model)
    assert outputs.get("tgt_embedding") == ((1, T, d_model) if cfg.task == "translate" else None)
    for name, shape in outputs.items():
        assert name in ("model", "src_embedding", "tgt_embedding") or expected[name] == shape
    linear = {name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    assert linear <= outputs.keys()


def test_a_layer_by_hand():
    d_model, d_ff = 16, 32
    found = {part.name: part for part in summarize(tiny_config({}), V, V, S, T).parts}
    projections = 4 * d_model * d_model  # queries, keys, values, output
    encoder = found["encoder self-attention"]
    assert encoder.parameters == 2 * (projections + 4 * d_model)
    assert (encoder.src_multiply_adds, encoder.tgt_multiply_adds) == (
        2 * (S * projections + 2 * S * S * d_model),
        0,
    )
    cross = found["cross-attention"]
    assert cross.src_multiply_adds == 2 * S * 2 * d_model * d_model  # keys and values, once
    assert cross.tgt_multiply_adds == 2 * (T * 2 * d_model * d_model + 2 * T * S * d_model)
    assert found["decoder feed-forward"].tgt_multiply_adds == 2 * T * 2 * d_model * d_ff
    assert found["output"].parameters == V  # the bias: the matrix is the embedding
    assert found["output"].multiply_adds == T * d_model * V


@pytest.mark.parametrize(
    ("tie", "shared"),
    [
        ("none", {}),
        ("decoder", {"output.weight": "tgt_embedding.weight"}),
        ("all", {"tgt_embedding.weight": "src_embedding.weight", "output.weight": "src_embedding.weight"}),
    ],
)
def test_shared_matrices_are_named(tie, shared):
    assert summarize(tiny_config({"tie": tie}), V, V, S, T).shared == shared


def test_a_model_too_large_for_any_memory_is_counted_at_once():
    cfg = tiny_config({"d_model": 65536, "d_ff": 262144, "n_heads": 64, "n_encoder_layers": 3, "n_decoder_layers": 3})
    assert summarize(cfg, 100_000, 100_000, 50, 50).parameters > 3e11


def test_vocabularies_that_cannot_be_tied_are_refused():
    with pytest.raises(ConfigError, match=r"tie=all .* 300 and 400"):
        summarize(tiny_config({"tie": "all"}), 300, 400, S, T)


def test_a_sentence_longer_than_learned_positions_is_refused():
    cfg = tiny_config(SHAPES["post-norm, learned positions"])
    with pytest.raises(UsageError, match=r"65 tokens.* model\.max_positions=64"):
        summarize(cfg, V, V, 65, 5)


def test_a_sentence_has_the_tokens_that_the_tokenizer_cuts(bundle):
    architecture = Architecture.from_bundle(bundle)
    n_src, n_tgt = (len(bundle.src_tokenizer.encode(text)) + 1 for text in SENTENCES[:2])
    assert architecture.n_tokens(SENTENCES[0], SENTENCES[1]) == (n_src, n_tgt)
    assert architecture.n_tokens(SENTENCES[0], None) == (n_src, n_src)
    with pytest.raises(UsageError, match="the sentence is blank"):
        architecture.n_tokens(" ", None)
    with pytest.raises(UsageError, match="the target is blank"):
        architecture.n_tokens("cat", "")


def test_a_config_is_looked_at_before_and_after_its_tokenizers_are_there(tmp_path):
    cfg = tiny_config({}).model_copy(update={"run_dir": tmp_path / "run"})
    before = Architecture.from_config(cfg)
    assert (before.src_vocab_size, before.tgt_vocab_size) == (300, 300)  # as asked for
    with pytest.raises(UsageError, match=r"no tokenizers.*--tokens.*mtkit train-tokenizer"):
        before.n_tokens("cat", None)
    spm = tiny_tokenizer(tmp_path / "run", cfg).read_bytes()
    for side in ("src", "tgt"):
        (tmp_path / "run" / f"{side}.spm").write_bytes(spm)
    after = Architecture.from_config(cfg)
    assert after.tokenizers is not None
    assert after.src_vocab_size == after.tokenizers[0].vocab_size < 300  # what the text carries


def test_the_command_adds_up(bundle):
    result = run(SENTENCES[0], "--model", str(bundle.folder))
    assert result.exit_code == 0
    total = sum(parameter.numel() for parameter in bundle.model.parameters())
    lines = result.stdout.splitlines()
    [last] = [line for line in lines if line.startswith("total")]
    assert last.split()[1] == f"{total:,}"
    assert any(line.startswith("encoder_layers.1: like encoder_layers.0 ") and "--all" in line for line in lines)
    assert not any(line.startswith("encoder_layers.1.") for line in lines)
    every = run(SENTENCES[0], "--model", str(bundle.folder), "--all").stdout.splitlines()
    assert any(line.startswith("encoder_layers.1.") for line in every)


def test_json_of_a_config_that_was_never_trained(tmp_path):
    (tmp_path / "new.yaml").write_text(dump_config(tiny_config({})), encoding="utf-8")
    result = run("-c", str(tmp_path / "new.yaml"), "--tokens", "9", "--set", "model.d_ff=64", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    cfg = tiny_config({"d_ff": 64}).model
    model = Transformer(cfg, 300, 300)
    assert found["total"]["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    assert (found["n_src"], found["n_tgt"]) == (9, 9)
    assert sum(part["parameters"] for part in found["parts"]) == found["total"]["parameters"]
    assert found["layers"][0]["output"] == [1, 9, 300]


def test_a_classifier_reads_start_texts_and_ends_and_gives_one_label(tmp_path):
    spm = tiny_tokenizer(tmp_path, tiny_config({}))
    n_first, n_second = (len(Tokenizer.load(spm).encode(text)) for text in SENTENCES[:2])
    single = Architecture.from_bundle(tiny_classifier(tmp_path / "single", spm, tiny_classifier_config({})))
    assert single.n_tokens(SENTENCES[0], None) == (1 + n_first + 1, 1)
    with pytest.raises(UsageError, match=r"--target: .* single texts"):
        single.n_tokens(SENTENCES[0], SENTENCES[1])
    pairs = Architecture.from_bundle(tiny_classifier(tmp_path / "pairs", spm, tiny_classifier_config({}, pairs=True)))
    assert pairs.n_tokens(SENTENCES[0], SENTENCES[1]) == (1 + n_first + 1 + n_second + 1, 1)
    result = run(SENTENCES[0], "--target", SENTENCES[1], "--model", str(tmp_path / "pairs"))
    assert f"{n_first + n_second + 3} tokens, including <start> and <end>" in result.stdout
    assert "one of 3 labels" in result.stdout


def test_labels_that_the_config_does_not_name_are_counted_in_the_training_text(tmp_path):
    cfg = tiny_classifier_config({}, labels=())
    text = tmp_path / "train.tsv"
    path = tmp_path / "new.yaml"
    path.write_text(dump_config(cfg).replace("/nowhere/a.tsv", str(text)).replace("pairs: false", "pairs: null"))
    result = run("-c", str(path), "--json")
    assert (result.exit_code, f"{text}: no such file" in result.stderr) == (1, True)
    text.write_text("a cat\tanimal\na tree\tplant\na dog\tanimal\na rose\tplant\n")
    result = run("-c", str(path), "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["layers"][0]["output"] == [1, 1, 2]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--model", "a", "--config", "b"], "give either --model or --config"),
        (["A cat.", "--tokens", "9"], "--tokens"),
        (["--target", "a"], "--target"),
    ],
)
def test_options_that_cannot_be_are_usage_errors(args, message):
    result = run(*args)
    assert result.exit_code == 2
    assert message in result.stderr
