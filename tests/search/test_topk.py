"""The largest values of long rows, against a stable sort."""

import pytest
import torch

from mtkit.search.topk import top_k


def sorted_by_value(values, k):
    ordered = values.sort(dim=1, descending=True, stable=True)
    return ordered.values[:, :k], ordered.indices[:, :k]


@pytest.mark.parametrize("n_columns", [8_000, 8_003, 8_015])
@pytest.mark.parametrize("k", [1, 4, 9])
def test_the_largest_of_a_long_row_are_those_of_a_sort_wherever_they_stand(n_columns, k):
    values = torch.randn(4, n_columns, generator=torch.Generator().manual_seed(k))
    values[1, -1], values[1, 0] = 9.0, 8.0  # at the ends of a row
    values[2, [5, 505, 1005, 1505, 2005]] = torch.tensor([9.0, 8.5, 8.0, 7.5, 7.0])  # in the same column of a cut row
    values[3, n_columns // 16 * 16 :] = 9.0  # what is left when the row is cut into equal pieces
    values[3, n_columns // 16 * 16 - 1] = 9.5
    best, indices, lead = top_k(values.clone(), k)
    expected, places = sorted_by_value(values, k + 1)
    torch.testing.assert_close(best, expected[:, :k], rtol=0, atol=0)
    assert indices.tolist() == places[:, :k].tolist()
    torch.testing.assert_close(lead, expected[:, k - 1] - expected[:, k], rtol=0, atol=0)
