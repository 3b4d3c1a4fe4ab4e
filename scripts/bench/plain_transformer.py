"""A Transformer of torch's own layers, dropout and cross-entropy: mtkit's weights under other names."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.model.transformer import Transformer
from mtkit.tokens.special_ids import PAD_ID

_COMMON = {
    "self_attention.qkv_proj.": "self_attn.in_proj_",
    "self_attention.out_proj.": "self_attn.out_proj.",
    "self_attention_residual.norm.": "norm1.",
    "feed_forward.in_proj.": "linear1.",
    "feed_forward.out_proj.": "linear2.",
}
_ENCODER = {**_COMMON, "feed_forward_residual.norm.": "norm2."}
_DECODER = {
    **_COMMON,
    "cross_attention.out_proj.": "multihead_attn.out_proj.",
    "cross_attention_residual.norm.": "norm2.",
    "feed_forward_residual.norm.": "norm3.",
}


class PlainTransformer(nn.Module):
    """The network of a pre-norm model with relu, sinusoids, tied decoder matrices and one dropout for all places."""

    def __init__(self, model: Transformer) -> None:
        """With the weights of model, copied."""
        super().__init__()
        cfg = model.cfg
        wanted = {"activation": "relu", "norm": "layernorm", "norm_position": "pre", "positions": "sinusoidal"}
        wanted |= {"tie": "decoder", "decoder": "attention"}
        if unlike := [f"{key}={getattr(cfg, key)}" for key, value in wanted.items() if getattr(cfg, key) != value]:
            raise ValueError(f"not made for {', '.join(unlike)}")
        self.d_model = cfg.d_model
        self.dropout = nn.Dropout(cfg.embedding_dropout)
        self.src_embedding = nn.Embedding(*model.src_embedding.weight.shape)
        self.tgt_embedding = nn.Embedding(*model.tgt_embedding.weight.shape)
        self.output_bias = nn.Parameter(torch.empty_like(model.output.bias))
        sizes = (cfg.d_model, cfg.n_heads, cfg.d_ff, cfg.residual_dropout)
        layer = nn.TransformerEncoderLayer(*sizes, batch_first=True, norm_first=True)
        encoder = nn.TransformerEncoder(
            layer, cfg.n_encoder_layers, nn.LayerNorm(cfg.d_model), enable_nested_tensor=False
        )
        decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(*sizes, batch_first=True, norm_first=True),
            cfg.n_decoder_layers,
            nn.LayerNorm(cfg.d_model),
        )
        self.layers = nn.Transformer(
            cfg.d_model, cfg.n_heads, custom_encoder=encoder, custom_decoder=decoder, batch_first=True
        )
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                self._counterpart(name).copy_(parameter)

    def loss(self, src: Tensor, tgt_in: Tensor, tgt_out: Tensor, label_smoothing: float) -> Tensor:
        """Mean over the target tokens, in nats."""
        hidden = self.layers(
            self._embed(src, self.src_embedding),
            self._embed(tgt_in, self.tgt_embedding),
            tgt_mask=torch.ones(tgt_in.size(1), tgt_in.size(1), dtype=torch.bool).triu(1),  # True: must not look
            src_key_padding_mask=src == PAD_ID,
            memory_key_padding_mask=src == PAD_ID,
        )
        logits = F.linear(hidden, self.tgt_embedding.weight, self.output_bias)
        return F.cross_entropy(
            logits.flatten(0, 1), tgt_out.flatten(), ignore_index=PAD_ID, label_smoothing=label_smoothing
        )

    def gradient(self, name: str) -> Tensor:
        """That of the model's parameter of this name."""
        return self._counterpart(name, lambda parameter: parameter.grad)

    @torch.no_grad()
    def copy_to(self, model: Transformer) -> None:
        """Give the model the weights that this one has now."""
        for name, parameter in model.named_parameters():
            parameter.copy_(self._counterpart(name))

    def _embed(self, ids: Tensor, embedding: nn.Embedding) -> Tensor:
        """sqrt(d) times the embedding, plus the sine and cosine of Vaswani et al. 2017, section 3.5; then dropout."""
        position = torch.arange(ids.size(1))[:, None]
        rate = 10000 ** (-torch.arange(0, self.d_model, 2) / self.d_model)
        positions = torch.cat([(position * rate).sin(), (position * rate).cos()], dim=1)
        embedded: Tensor = self.dropout(embedding(ids) * math.sqrt(self.d_model) + positions)
        return embedded

    def _counterpart(self, name: str, of: Callable[[nn.Parameter], Tensor | None] = lambda p: p) -> Tensor:
        """What `of` makes of the parameter that is the model's of this name, or of the part of it that is."""
        part = slice(None)
        if name in ("src_embedding.weight", "tgt_embedding.weight"):
            mine = name
        elif name == "output.bias":
            mine = "output_bias"
        elif name.startswith(("encoder_norm.", "decoder_norm.")):
            mine = "layers." + name.replace("_norm.", ".norm.")
        else:
            stack, number, rest = name.split(".", 2)
            side = stack.removesuffix("_layers")
            if rest.startswith(("cross_attention.q_proj.", "cross_attention.kv_proj.")):  # packed in torch's
                part = slice(self.d_model) if ".q_proj." in rest else slice(self.d_model, None)
                rest = "multihead_attn.in_proj_" + rest.rpartition(".")[2]
            else:
                names = _ENCODER if side == "encoder" else _DECODER
                rest = next(theirs + rest.removeprefix(ours) for ours, theirs in names.items() if rest.startswith(ours))
            mine = f"layers.{side}.layers.{number}.{rest}"
        value = of(self.get_parameter(mine))
        assert value is not None
        return value[part]
