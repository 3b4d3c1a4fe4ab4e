import pytest

from mtkit.config.schema import ModelConfig
from mtkit.interop.support import export_problems

PAPER = {"norm_position": "post", "positions": "sinusoidal", "activation": "relu"}  # Vaswani et al. 2017


@pytest.mark.parametrize(
    ("target", "choices", "facts"),
    [
        ("ctranslate2", PAPER, []),
        ("ctranslate2", {"norm": "rmsnorm", "positions": "rotary", "activation": "swiglu"}, []),
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
