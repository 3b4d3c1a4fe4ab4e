import pytest

from mtkit.config.schema import ModelConfig
from mtkit.interop.support import export_problems

PAPER = {"norm_position": "post", "positions": "sinusoidal", "activation": "relu"}  # the model of Vaswani et al. 2017


@pytest.mark.parametrize(
    ("target", "choices", "problems"),
    [
        ("ctranslate2", PAPER, []),
        ("ctranslate2", {"norm": "rmsnorm", "positions": "rotary", "activation": "swiglu"}, []),
        ("ctranslate2", {"decoder": "ssru"}, ["CTranslate2 has no counterpart of model.decoder=ssru; only attention"]),
        ("hf", PAPER, []),
        ("hf", PAPER | {"norm_position": "pre"}, ["MarianMT has no counterpart of model.norm_position=pre; only post"]),
        ("marian", PAPER | {"positions": "marian", "decoder": "ssru"}, []),
        (
            "marian",
            {"positions": "rotary", "activation": "gelu"},
            [
                "Marian has no counterpart of model.positions=rotary; only marian",
                "Marian has no counterpart of model.activation=gelu; only relu or silu",
            ],
        ),
    ],
)
def test_what_a_format_cannot_express_is_named_with_what_it_can(target, choices, problems):
    assert export_problems(ModelConfig.model_validate(choices), target) == problems
