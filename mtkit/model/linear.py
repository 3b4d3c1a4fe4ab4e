"""The linear layer of which the model consists."""

from torch import Tensor, nn

from mtkit.model import ops
from mtkit.model.inference import SelectedLinear


class Linear(nn.Linear):
    """torch's linear layer with the same weights and gradients, but `ops` chooses the library that multiplies."""

    def forward(self, input: Tensor, relu: bool = False, dropout: float = 0.0) -> Tensor:
        """Return x W^T + b, or with relu dropout(max(0, x W^T + b)): (..., n_in) -> (..., n_out)."""
        if relu:
            return ops.relu_linear(input, self.weight, self.bias, dropout, self.training)
        return ops.linear(input, self.weight, self.bias)

    def select_outputs(self, ids: Tensor) -> SelectedLinear:
        """Return a layer for inference that computes the outputs ids (U,) alone, in this order."""
        return SelectedLinear(self.weight, self.bias, ids)
