import pytest
import torch

from mtkit.config.model import PRESETS, ModelConfig
from mtkit.interop.support import export_problems
from mtkit.model.transformer import Transformer, count_weights
from mtkit.tokens.special_ids import BOS_ID

PAPER = {"norm_position": "post", "positions": "sinusoidal", "activation": "relu"}  # Vaswani et al. 2017


@pytest.mark.parametrize(
    ("target", "choices", "facts"),
    [
        ("ctranslate2", PAPER, []),
        ("ctranslate2", {"norm": "rmsnorm", "positions": "rotary", "activation": "swiglu"}, []),
        ("ctranslate2", {"positions": "relative", "max_relative_distance": 4}, []),
        ("ctranslate2", {"positions": "alibi", "n_heads": 8}, []),
        ("hf", PAPER | {"positions": "relative"}, [["MarianMT", "model.positions=relative", "sinusoidal or marian"]]),
        ("marian", {"positions": "alibi"}, [["Marian", "model.positions=alibi", "only marian"]]),
        ("ctranslate2", {"decoder": "ssru"}, [["CTranslate2", "model.decoder=ssru", "attention"]]),
        ("hf", PAPER, []),
        ("hf", PAPER | {"norm_position": "pre"}, [["MarianMT", "model.norm_position=pre", "post"]]),
        ("marian", PAPER | {"positions": "marian", "decoder": "ssru"}, []),
        (
            "marian",
            {"positions": "rotary", "activation": "gelu"},
            [
                ["Marian", "model.positions=rotary", "only marian"],
                ["Marian", "model.activation=gelu", "relu or silu"],
            ],
        ),
    ],
)
def test_settings_that_a_format_cannot_express_are_named_with_what_it_can(target, choices, facts):
    problems = export_problems(ModelConfig.model_validate(choices), target)
    for problem, parts in zip(problems, facts, strict=True):
        assert all(part in problem for part in parts)


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("student", ["bergamot", "page", "marian"]),
        ("student-tiny", ["bergamot", "page", "marian"]),
        ("student-base-memory", ["bergamot", "page", "marian"]),
        ("student-ct2", ["bergamot", "page", "marian", "ctranslate2", "argos", "hf"]),
    ],
)
def test_what_is_trained_with_the_shape_of_a_student_can_be_exported(name, targets):
    cfg = ModelConfig.model_validate(PRESETS[name])
    assert all(export_problems(cfg, target, Transformer(cfg, 9, 9)) == [] for target in targets)


def test_a_tiny_student_has_the_size_of_a_browser_model():
    # the model from English to Portuguese has 32,000 pieces in a file of 17,140,836 bytes, a byte for most weights
    cfg = ModelConfig.model_validate(PRESETS["student-tiny"])
    assert 0.98 < count_weights(cfg, 32_000, 32_000) / 17_140_836 < 1
    assert count_weights(cfg, 8_000, 8_000) < 11_000_000


def test_weights_that_marian_cannot_express_are_named_once_there_are_some():
    cfg = ModelConfig(d_model=8, d_ff=8, n_heads=2, positions="marian")
    model = Transformer(cfg, 9, 9)
    assert export_problems(cfg, "marian", model) == []
    torch.nn.init.constant_(model.tgt_embedding.weight.data[BOS_ID], 0.5)
    [problem] = export_problems(cfg, "marian", model)
    assert all(part in problem for part in ("Marian", "<start>", "train.init_from"))
    assert export_problems(cfg, "marian") == export_problems(cfg, "ctranslate2", model) == []
