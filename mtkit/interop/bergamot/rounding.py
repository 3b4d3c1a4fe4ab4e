"""Round matrices to 8 bits so that their products with a sample of inputs change least (GPTQ, Frantar et al. 2023)."""

import torch
from torch import Tensor

_LEVELS = 127
_DAMPING = 0.01  # added to the squares of the inputs, as a share of their mean; Frantar et al. use the same


def rounded(weight: Tensor, gram: Tensor) -> Tensor:
    """Return the matrix (n_out, n_in) as whole multiples of 1/127 of its largest absolute value.

    gram: X^T X of the inputs X (N, n_in) of a sample. The error of each column is made up for by the columns after it.
    To round each weight to the nearest step would undo the tuning of a model from a browser: its weights begin as whole
    steps, and most of them move by less than half a step.
    """
    scale = _LEVELS / weight.abs().amax().double().clamp(min=1e-30)
    rest = weight.double() * scale
    ends = rest.abs() >= _LEVELS - 1e-6  # they stay, because the largest value determines the steps
    damped = gram + torch.eye(len(gram), dtype=gram.dtype) * (_DAMPING * gram.diagonal().mean()).clamp(min=1e-12)
    factors = torch.linalg.cholesky(torch.linalg.inv(damped), upper=True)
    for column in range(weight.size(1)):
        values = rest[:, column]
        whole = torch.where(ends[:, column], values.sign() * _LEVELS, values.round().clamp(-_LEVELS, _LEVELS))
        errors = (values - whole) / factors[column, column]
        rest[:, column + 1 :] -= errors[:, None] * factors[column, column + 1 :]
        rest[:, column] = whole
    return (rest / scale).float()
