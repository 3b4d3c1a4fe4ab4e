"""The `model` section of the config: the network's architecture."""

from typing import Literal, Self

from pydantic import Field, ValidationInfo, model_validator

from mtkit.config.section import Section, is_part

PositionKind = Literal["sinusoidal", "marian", "fairseq", "learned", "rotary", "relative", "alibi"]

# student-tiny: a shape that the browser engine can compute, "tiny" of Bogoychev et al. 2020. The preset student has
# half of its layers, and narrower ones: it learns faster, and is 4 times as fast as the default shape with a beam.
_STUDENT: dict[str, object] = {
    "d_model": 256,
    "d_ff": 1536,
    "n_heads": 8,
    "n_encoder_layers": 6,
    "n_decoder_layers": 2,
    "decoder": "ssru",
    "norm_position": "post",
    "positions": "marian",
    "tie": "all",
}
# Names for whole shapes, which may stand in place of the section. base and big: Vaswani et al. 2017, table 3;
# student-base-memory: the size of Mozilla's current browser models; student-ct2: without SSRU, for CTranslate2.
PRESETS: dict[str, dict[str, object]] = {
    "tiny": {"d_model": 128, "d_ff": 512, "n_heads": 2, "n_encoder_layers": 3, "n_decoder_layers": 3},
    "small": {"d_model": 256, "d_ff": 1024, "n_heads": 4, "n_encoder_layers": 3, "n_decoder_layers": 3},
    "base": {"d_model": 512, "d_ff": 2048, "n_heads": 8, "n_encoder_layers": 6, "n_decoder_layers": 6},
    "big": {"d_model": 1024, "d_ff": 4096, "n_heads": 16, "n_encoder_layers": 6, "n_decoder_layers": 6},
    "student": _STUDENT | {"d_ff": 1024, "n_encoder_layers": 3, "n_decoder_layers": 1},
    "student-tiny": _STUDENT,
    "student-base-memory": _STUDENT | {"d_model": 384, "n_decoder_layers": 4},
    "student-ct2": _STUDENT | {"decoder": "attention"},
}


def expand_preset(value: object) -> object:
    """Return the keys of a preset; other values unchanged. Raises ValueError for an unknown name."""
    if not isinstance(value, str):
        return value
    if value not in PRESETS:
        raise ValueError(f"{value} is not a preset; choose {', '.join(PRESETS)}, or write keys of the section")
    return PRESETS[value]


class ModelConfig(Section):
    """The encoder-decoder Transformer (Vaswani et al. 2017) and its variants."""

    d_model: int = Field(
        256,
        ge=8,
        le=65_536,
        description="width of embeddings and of the residual stream; the default is 128, with d_ff=512 and n_heads=2, "
        "if a budget leaves the usual width fewer than 500 updates, or fewer than 1.5 million tokens that read "
        "the text less than twice; the width stays if half of it would not make twice as many updates",
    )
    d_ff: int = Field(1024, ge=8, le=1_048_576, description="inner width of the feed-forward layers")
    n_heads: int = Field(4, ge=1, le=4096, description="attention heads per layer; must divide d_model")
    n_encoder_layers: int = Field(3, ge=1, le=256, description="layers of the encoder")
    n_decoder_layers: int = Field(3, ge=1, le=256, description="layers of the decoder")
    activation: Literal["relu", "gelu", "silu", "swiglu"] = Field(
        "relu", description="activation function of the feed-forward layers; silu is also called swish"
    )
    decoder: Literal["attention", "ssru"] = Field(
        "attention",
        description="how the decoder uses earlier target positions: self-attention, or a recurrent unit (SSRU), "
        "which decodes faster",
    )
    norm: Literal["layernorm", "rmsnorm"] = Field("layernorm", description="type of layer normalisation")
    norm_position: Literal["pre", "post"] = Field(
        "pre",
        description="normalise before each sublayer (stable), or after it (as in the paper; needs a longer warm-up)",
    )
    positions: PositionKind = Field(
        "sinusoidal",
        description="position encoding; marian: sinusoids at Marian's rates and a decoder that starts from zeros, for "
        "models imported from Marian or to be exported to it; fairseq: sinusoids at Marian's rates from position 2 on, "
        "as in M2M-100 and NLLB; relative: learned vectors for the distance between two tokens; alibi: attention that "
        "fades with the distance, at a different fixed rate in each head",
    )
    max_relative_distance: int = Field(
        16,
        ge=1,
        le=10_000,
        description="relative positions: treat tokens that are farther apart than this as this far apart",
    )
    max_positions: int = Field(
        1024,
        ge=8,
        le=1_000_000,
        description="learned positions: number of positions, which is the longest sentence in tokens, including <end>",
    )
    src_end: bool = Field(
        True,
        description="end each source with <end>; false: the encoder does not see it, as in models imported from "
        "OpenNMT-py and Argos Translate",
    )
    end_first: bool = Field(
        False,
        description="let the decoder read <end> and then <start>, which is the token of the target language, as in "
        "models imported from M2M-100 and NLLB",
    )
    embedding_dropout: float = Field(0.1, ge=0, lt=1, description="dropout on the sum of embeddings and positions")
    residual_dropout: float = Field(0.1, ge=0, lt=1, description="dropout on the output of each sublayer")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="dropout on attention weights")
    ffn_dropout: float = Field(0.0, ge=0, lt=1, description="dropout in the feed-forward layers, after the activation")
    word_dropout: float = Field(
        0.0, ge=0, lt=1, description="probability of dropping a token's whole embedding in training, on both sides"
    )
    tie: Literal["none", "decoder", "all"] = Field(
        "decoder",
        description="share one matrix between decoder embedding and output (decoder), or also with the encoder "
        "embedding (all; needs tokenizer.shared)",
    )

    @property
    def without_loops(self) -> list[str]:
        """The parts, as model.KEY=VALUE, that the compiled loops for decoding on a CPU lack."""
        return [f"model.positions={self.positions}"] if self.positions in ("relative", "alibi") else []

    @model_validator(mode="after")
    def _heads_divide_width(self, info: ValidationInfo) -> Self:
        if is_part(info):
            return self
        if self.d_model % self.n_heads:
            raise ValueError(f"d_model={self.d_model} is not divisible by n_heads={self.n_heads}")
        if self.end_first and self.positions == "learned":
            raise ValueError("end_first=true does not work with positions=learned")
        if self.positions == "rotary" and (self.d_model // self.n_heads) % 2:
            raise ValueError(f"positions=rotary needs an even d_model / n_heads, not {self.d_model // self.n_heads}")
        if self.positions in ("sinusoidal", "marian", "fairseq") and self.d_model % 2:
            raise ValueError(f"positions={self.positions} needs an even d_model, not {self.d_model}")
        return self
