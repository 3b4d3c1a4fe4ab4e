"""Layers as code that torch generates for this machine (train.compile): fewer, larger steps for a GPU."""

from mtkit.model.transformer import Transformer


def compile_layers(model: Transformer) -> None:
    """Have each layer compiled when it is first used, for batches of any size; in place.

    Layer by layer instead of the whole network: all of a stack share one piece of code, so that compiling takes a
    fraction of the time. Weights, their names and copies of the model stay what they were. A decoder of recurrent units
    is left as it is: its loop over the positions would be compiled anew for each length.
    """
    decoder_layers = () if model.cfg.decoder == "ssru" else model.decoder_layers
    for layer in (*model.encoder_layers, *decoder_layers):
        layer.compile(dynamic=True)
