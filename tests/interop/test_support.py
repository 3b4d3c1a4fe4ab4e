import pytest
import torch

from mtkit.config.model import ModelConfig
from mtkit.interop.support import export_problems
from mtkit.model.transformer import Transformer
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


def test_weights_that_marian_cannot_express_are_named_once_there_are_some():
    cfg = ModelConfig(d_model=8, d_ff=8, n_heads=2, positions="marian")
    model = Transformer(cfg, 9, 9)
    assert export_problems(cfg, "marian", model) == []
    torch.nn.init.constant_(model.tgt_embedding.weight.data[BOS_ID], 0.5)
    [problem] = export_problems(cfg, "marian", model)
    assert all(part in problem for part in ("Marian", "<start>", "train.init_from"))
    assert export_problems(cfg, "marian") == export_problems(cfg, "ctranslate2", model) == []
