"""A classifier: the Transformer's encoder over a sentence or a pair, and a linear layer on its first position."""

import torch
from torch import Tensor, nn

from mtkit.config.model import ModelConfig
from mtkit.model.dropout import Dropout, WordDropout
from mtkit.model.layers import EncoderLayer, make_norm, stacked
from mtkit.model.linear import Linear
from mtkit.model.network import Network, count_encoder_weights
from mtkit.model.positions import added_positions, linear_biases


def count_classifier_weights(cfg: ModelConfig, vocab_size: int, n_labels: int) -> int:
    """Return how many weights such a classifier has."""
    return count_encoder_weights(cfg, vocab_size) + n_labels * (cfg.d_model + 1)


class EncoderClassifier(Network):
    """An encoder whose memory at the first position, <start>, is projected onto the labels.

    <start> represents no word, so the layers' attention can collect there what the label depends on (like [CLS] in
    Devlin et al. 2019). Weights are float32; autocast sets the precision of products.
    """

    first_target = 1

    def __init__(self, cfg: ModelConfig, vocab_size: int, n_labels: int, pad_id: int = 0) -> None:
        super().__init__()
        self.cfg = cfg
        self.pad_id = pad_id
        self.src_embedding = nn.Embedding(vocab_size, cfg.d_model)
        self.src_positions = added_positions(cfg.positions, cfg.d_model, cfg.max_positions)
        self.linear_biases = linear_biases(cfg.positions, cfg.n_heads)
        self.word_dropout = WordDropout(cfg.word_dropout)
        self.embedding_dropout = Dropout(cfg.embedding_dropout)
        self.encoder_layers = stacked(EncoderLayer(cfg) for _ in range(cfg.n_encoder_layers))
        self.encoder_norm = make_norm(cfg) if cfg.norm_position == "pre" else nn.Identity()
        self.output_dropout = Dropout(cfg.residual_dropout)
        self.output = Linear(cfg.d_model, n_labels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw initial weights from torch's default generator: embeddings N(0, 1/D), matrices Glorot-uniform.

        The output starts at 0: the first loss is that of guessing, and its gradient adds no noise to a trained encoder.
        """
        self._reset_layers()
        nn.init.normal_(self.src_embedding.weight, std=self.cfg.d_model**-0.5)
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)
        with torch.no_grad():
            for weight, rows in self.untrained_rows():
                weight[rows] = 0.0

    def new_like(self) -> "EncoderClassifier":
        """Return a classifier of the same shape with other weights."""
        return EncoderClassifier(self.cfg, self.src_embedding.num_embeddings, self.output.out_features, self.pad_id)

    def hidden(self, src: Tensor, tgt_in: Tensor | None = None) -> Tensor:
        """Return the encoder's output at the first position (B, 1, D); tgt_in, which other networks use, is ignored.

        src: (B, S), <start> sentence <end>, or <start> source <end> target <end>.
        """
        memory, _ = self.encode(src)
        hidden: Tensor = self.output_dropout(memory[:, :1])
        return hidden
