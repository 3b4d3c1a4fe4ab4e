"""The simpler simple recurrent unit, by which a target position sees earlier positions without attention."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.model.linear import Linear


class SSRU(nn.Module):
    """The SSRU (Kim et al. 2019, section 3.1), which can replace the decoder's self-attention.

    f_t = sigmoid(W_f x_t + b_f); c_t = f_t c_{t-1} + (1 - f_t) W x_t, c_{-1} = 0; the output is relu(c_t).
    A step costs the same at every position and needs only c from the past.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.in_proj = Linear(d_model, 2 * d_model, bias=False)  # W, then W_f
        self.forget_bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Compute all positions of x (B, T, D) at once, each from itself and those before it; return (B, T, D).

        bias: self-attention's mask, ignored because a recurrence is always causal.
        """
        forget, new = self._gates(x)
        cells: Tensor = _Recurrence.apply(forget, new)  # type: ignore[no-untyped-call]
        return F.relu(cells).to(x.dtype)

    def new_cache(self, n_sentences: int, beam_size: int, like: Tensor) -> "CellCache":
        """Return an empty cache for `step`, for beam_size hypotheses of each sentence."""
        return CellCache(like.new_zeros(n_sentences, beam_size, self.forget_bias.numel(), dtype=torch.float32))

    def step(self, x: Tensor, cache: "CellCache", ancestry: object = None) -> Tensor:
        """Compute each hypothesis' newest position x (B, K, D) from the cell of those before it; return (B, K, D).

        ancestry: self-attention's table, ignored because the cells follow their hypotheses.
        """
        forget, new = self._gates(x)
        return F.relu(cache.advance(forget, new)).to(x.dtype)

    def reset_parameters(self) -> None:
        """Draw Glorot-uniform matrices, each by its own size; zero the bias, so that f starts near 1/2."""
        for part in self.in_proj.weight.chunk(2):
            nn.init.xavier_uniform_(part)
        nn.init.zeros_(self.forget_bias)

    def _gates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return f_t and (1 - f_t) W x_t, in float32 whatever the precision of x."""
        new, forget = self.in_proj(x).float().chunk(2, dim=-1)
        forget = torch.sigmoid(forget + self.forget_bias)
        return forget, new - forget * new


class CellCache:
    """The cell after the positions decoded so far: float32 (B, K, D)."""

    def __init__(self, cell: Tensor) -> None:
        self._cell = cell

    def advance(self, forget: Tensor, new: Tensor) -> Tensor:
        """Advance the cell by one position; forget, new and the returned cell: (B, K, D)."""
        self._cell = torch.addcmul(new, forget, self._cell)
        return self._cell

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis k of sentence b continue the sentence's former hypothesis parents[b, k]; (B, K)."""
        self._cell = self._cell.gather(1, parents.unsqueeze(2).expand_as(self._cell))

    def select(self, sentences: Tensor) -> None:
        """Drop all sentences but these."""
        self._cell = self._cell.index_select(0, sentences)


class _Recurrence(torch.autograd.Function):
    """c_t = forget_t c_{t-1} + new_t over the second dimension of (B, T, D), from c_{-1} = 0.

    Each pass needs one operation a position; autograd would need about ten.
    """

    @staticmethod
    def forward(ctx: Any, forget: Tensor, new: Tensor) -> Tensor:
        cells = new.clone()
        for t in range(1, cells.size(1)):
            cells[:, t].addcmul_(forget[:, t], cells[:, t - 1])
        ctx.save_for_backward(forget, cells)
        return cells

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        """Go back over the cells: g_t = grad_t + forget_{t+1} g_{t+1}."""
        forget, cells = ctx.saved_tensors
        total = grads[0].clone()
        for t in range(total.size(1) - 2, -1, -1):
            total[:, t].addcmul_(forget[:, t + 1], total[:, t + 1])
        past = F.pad(cells[:, :-1], (0, 0, 1, 0))  # c_{t-1}
        return total * past, total
