"""Which layers train.compile has compiled."""

import pytest

from mtkit.config.schema import ModelConfig
from mtkit.model.transformer import Transformer
from mtkit.training.update import compile_layers


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
@pytest.mark.parametrize(("decoder", "compiled"), [("attention", True), ("ssru", False)])
def test_layers_are_compiled_but_for_those_with_a_loop_over_positions(decoder, compiled):
    cfg = ModelConfig(d_model=16, d_ff=32, n_heads=2, n_encoder_layers=1, n_decoder_layers=1, decoder=decoder)
    model = Transformer(cfg, 20, 20)
    compile_layers(model)
    assert model.encoder_layers[0]._compiled_call_impl is not None
    assert (model.decoder_layers[0]._compiled_call_impl is not None) == compiled
