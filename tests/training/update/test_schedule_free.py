"""Schedule-Free AdamW against its authors' package, and against the mean that the paper defines."""

import pytest
import schedulefree
import torch
from torch import nn
from torch.nn import functional

from mtkit.config.training import TrainConfig
from mtkit.training.update.schedule import learning_rate
from mtkit.training.update.schedule_free import ScheduleFreeAdamW

BETAS, EPS, WARM_UP = (0.9, 0.98), 1e-9, 10


def regression(seed=0):
    """A model of two layers, and its loss on fixed numbers."""
    torch.manual_seed(seed)
    inputs, targets = torch.randn(64, 10), torch.randn(64, 4)
    model = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 4))
    return model, lambda: functional.mse_loss(model(inputs), targets)


def ours_of(model, lr=1e-2, weight_decay=0.0):
    groups = [{"params": list(model.parameters()), "weight_decay": weight_decay}]
    return ScheduleFreeAdamW(groups, lr, BETAS, EPS)


def update(optimizer, loss, lr):
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.zero_grad()
    loss().backward()
    optimizer.step()


def values(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_it_equals_the_authors_package(weight_decay):
    model, loss = regression()
    ours = ours_of(model, weight_decay=weight_decay)
    cfg = TrainConfig(lr=1e-2, warmup_steps=WARM_UP, max_steps=100, schedule="schedule_free")
    for step in range(1, 101):
        update(ours, loss, learning_rate(cfg, step, step / 100))
    other, their_loss = regression()
    theirs = schedulefree.AdamWScheduleFree(
        other.parameters(), lr=1e-2, betas=BETAS, eps=EPS, weight_decay=weight_decay, warmup_steps=WARM_UP
    )
    theirs.train()
    for _ in range(100):
        theirs.zero_grad()
        their_loss().backward()
        theirs.step()
    torch.testing.assert_close(values(model), values(other), rtol=1e-4, atol=1e-5)
    theirs.eval()
    with ours.mean_weights():
        torch.testing.assert_close(values(model), values(other), rtol=1e-4, atol=1e-5)


def test_the_mean_counts_each_step_by_the_square_of_its_learning_rate():
    model, loss = regression()
    optimizer = ours_of(model)
    rates, history = [0.01, 0.02, 0.04, 0.04, 0.02], []  # after a fall, the highest rate so far counts
    for lr in rates:
        update(optimizer, loss, lr)
        history.append(torch.cat([optimizer.state[one]["z"].flatten() for one in model.parameters()]).double())
    weights = torch.tensor([1.0, 4, 16, 16, 16], dtype=torch.float64)
    expected = (weights[:, None] * torch.stack(history)).sum(0) / weights.sum()
    with optimizer.mean_weights():
        torch.testing.assert_close(values(model).double(), expected, rtol=1e-5, atol=1e-6)


def test_the_weights_in_training_come_back_bit_for_bit_even_after_an_error():
    model, loss = regression()
    optimizer = ours_of(model)
    for _ in range(3):
        update(optimizer, loss, 0.01)
    before = values(model)
    with pytest.raises(KeyboardInterrupt), optimizer.mean_weights():
        assert not torch.equal(values(model), before)
        raise KeyboardInterrupt
    assert torch.equal(values(model), before)


def test_weights_without_a_gradient_stay():
    model, loss = regression()
    model[0].requires_grad_(False)
    before = values(model[0])
    optimizer = ours_of(model)
    with optimizer.mean_weights():
        assert torch.equal(values(model[0]), before), "before the first update"
    update(optimizer, loss, 0.01)
    assert torch.equal(values(model[0]), before)


def test_its_state_continues_as_if_never_stopped(tmp_path):
    model, loss = regression()
    optimizer = ours_of(model)
    for _ in range(3):
        update(optimizer, loss, 0.01)
    weights = {name: one.clone() for name, one in model.state_dict().items()}
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    update(optimizer, loss, 0.02)
    other, other_loss = regression(seed=0)
    other.load_state_dict(weights)
    resumed = ours_of(other)
    resumed.load_state_dict(torch.load(tmp_path / "optimizer.pt", weights_only=True))
    update(resumed, other_loss, 0.02)
    assert torch.equal(values(other), values(model))
