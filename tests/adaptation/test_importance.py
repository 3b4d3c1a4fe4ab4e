"""How much each weight matters, and the means in which it counts by that."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mtkit.adaptation.importance import importance, weighted_mean
from mtkit.alignment.forced import ForcedPair
from mtkit.config.model import ModelConfig
from mtkit.model.transformer import Transformer
from mtkit.tokens.special_ids import BOS_ID, EOS_ID

PAIRS = [ForcedPair([4, 5, 6], [7, 8]), ForcedPair([9], [4, 4, 5]), ForcedPair([5, 9, 9, 4], [6])]


@pytest.fixture
def model():
    torch.manual_seed(1)
    cfg = ModelConfig(d_model=8, d_ff=16, n_heads=2, n_encoder_layers=1, n_decoder_layers=1, tie="decoder")
    return Transformer(cfg, 10, 10)


def test_importance_is_the_mean_squared_gradient_of_each_pair(model):
    """The gradient of the output's bias is the sum of probabilities, less one at the token that is there."""
    gradients = []
    with torch.no_grad():
        for pair in PAIRS:
            tokens = [*pair.tgt, EOS_ID]
            logits = model.eval()(torch.tensor([[*pair.src, EOS_ID]]), torch.tensor([[BOS_ID, *pair.tgt]]))[0]
            gradients.append((logits.softmax(-1) - torch.eye(10)[tokens]).sum(0))
    expected = torch.stack(gradients).square().mean(0)
    found = importance(model, PAIRS, 60.0, "test")["output.bias"]
    assert torch.allclose(found / found.sum(), expected / expected.sum(), rtol=1e-4)


def test_the_mean_importance_of_all_weights_is_one(model):
    found = importance(model, PAIRS, 60.0, "test")
    assert found.keys() == model.state_dict().keys()
    assert torch.equal(found["output.weight"], found["tgt_embedding.weight"])
    own = [found[name] for name, _ in model.named_parameters()]
    assert float(torch.cat([each.flatten() for each in own]).mean()) == pytest.approx(1.0, rel=1e-4)


def test_a_short_time_allows_one_pair(model):
    found, names = importance(model, PAIRS, 0.0, "test"), [name for name, _ in model.named_parameters()]
    of_each = [importance(model, [pair], 60.0, "test") for pair in PAIRS]
    assert sum(all(torch.equal(found[name], one[name]) for name in names) for one in of_each) == 1


def test_without_pairs_all_weights_matter_equally(model):
    assert all(bool((each == 1).all()) for each in importance(model, [], 60.0, "test").values())


def test_a_weight_moves_by_how_much_it_matters_to_either_model():
    base, tuned = {"w": torch.tensor([0.0, 0.0, 0.0, 4.0])}, {"w": torch.tensor([1.0, 1.0, 1.0, 5.0])}
    matters = {"w": torch.tensor([1.0, 3.0, 0.0, 0.0])}, {"w": torch.tensor([3.0, 1.0, 2.0, 0.0])}
    assert weighted_mean(base, tuned, 0.5, matters)["w"].tolist() == pytest.approx([0.75, 0.25, 1.0, 4.5])
    assert weighted_mean(base, tuned, 0.25, matters)["w"].tolist() == pytest.approx([0.5, 0.1, 1.0, 4.25])


@given(st.lists(st.tuples(*[st.floats(-10, 10, width=32)] * 2, *[st.floats(0, 1e6, width=32)] * 2), min_size=1))
def test_the_ends_are_the_models_themselves_and_means_lie_between_them(rows):
    base, tuned, of_base, of_tuned = ({"w": torch.tensor(column)} for column in zip(*rows, strict=True))
    assert torch.equal(weighted_mean(base, tuned, 0.0, (of_base, of_tuned))["w"], base["w"])
    assert torch.equal(weighted_mean(base, tuned, 1.0, (of_base, of_tuned))["w"], tuned["w"])
    between = weighted_mean(base, tuned, 0.3, (of_base, of_tuned))["w"]
    assert bool(((between - base["w"]) * (between - tuned["w"]) <= 0).all())


def test_a_token_that_an_imported_model_never_writes_stays_so_after_tuning():
    """Training begins at -30, from where a memory with many unknown characters teaches <unk>."""
    base, tuned = torch.tensor([-30_000.0, -20.0, 1.0]), torch.tensor([-29.0, -10.0, 2.0])
    ones = {"output.bias": torch.ones(3), "norm.bias": torch.ones(3)}
    both = {"output.bias": base, "norm.bias": base}, {"output.bias": tuned, "norm.bias": tuned}
    mean = weighted_mean(*both, 1.0, (ones, ones))
    assert mean["output.bias"].tolist() == [-30_000, -10, 2]
    assert mean["norm.bias"].tolist() == tuned.tolist()
