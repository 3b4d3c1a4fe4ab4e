"""The engine of a classifier: the same label and probability in any batch, and few examples computed twice."""

import random

import numpy as np
import pytest
import torch

from mtkit.config.decoding import DecodeConfig
from mtkit.config.model import ModelConfig
from mtkit.engines.labels import LabelEngine
from mtkit.model.classifier import EncoderClassifier
from mtkit.tokens.special_ids import BOS_ID, EOS_ID

N_EXAMPLES, VOCAB_SIZE = 400, 50


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


def examples() -> list[list[int]]:
    rng = random.Random(0)
    return [[BOS_ID, *(rng.randrange(4, VOCAB_SIZE) for _ in range(rng.randint(1, 12)))] for _ in range(N_EXAMPLES)]


def classifier(n_labels: int, scale: float) -> EncoderClassifier:
    """scale: of the logits; larger ones make surer choices."""
    torch.manual_seed(0)
    model = EncoderClassifier(ModelConfig(d_model=32, d_ff=64, n_heads=2, n_encoder_layers=2), VOCAB_SIZE, n_labels)
    torch.nn.init.normal_(model.output.weight, std=scale * 32**-0.5)
    return model.eval()


class CountingEngine(LabelEngine):
    """Counts the examples computed on their own."""

    n_alone = 0

    def _logits(self, examples):
        self.n_alone += len(examples) == 1
        return super()._logits(examples)


def engine(model: EncoderClassifier, batch_tokens: int) -> CountingEngine:
    return CountingEngine(model, DecodeConfig(batch_tokens=batch_tokens))


@pytest.mark.parametrize(("n_labels", "scale"), [(2, 1.0), (3, 3.0), (300, 0.3), (300, 3.0)])
def test_the_label_and_its_probability_do_not_depend_on_the_batch(n_labels, scale):
    model, some = classifier(n_labels, scale), examples()[:40]
    alone = engine(model, 1).decide(some)  # a batch has at least one
    rows = np.arange(len(some))
    for batch_tokens in (40, 300, 100_000):
        together = engine(model, batch_tokens).decide(some)
        assert (together.best == alone.best).all()
        assert (together.probs[rows, together.best] == alone.probs[rows, alone.best]).all()
        np.testing.assert_allclose(together.probs, alone.probs, atol=1.01e-4)


def test_probabilities_are_the_softmax_of_the_models_logits():
    model, [example, *_] = classifier(3, 1.0), examples()
    src = torch.tensor([[*example, EOS_ID]])
    with torch.no_grad():
        expected = model(src, src[:, :1])[0, 0].softmax(-1)
    found = engine(model, 300).decide([example])
    np.testing.assert_allclose(found.probs[0], expected, atol=6e-5)
    assert found.best[0] == expected.argmax()


@pytest.mark.parametrize(
    ("n_labels", "scale", "share"),
    [(2, 1.0, 0.05), (300, 0.3, 0.05), (300, 3.0, 0.25)],  # the last has large logits, and is unsure nevertheless
)
def test_few_examples_are_computed_again_however_many_labels_there_are(n_labels, scale, share):
    counting = engine(classifier(n_labels, scale), 100_000)
    counting.decide(examples())
    assert counting.n_alone < share * N_EXAMPLES


def test_a_near_tie_of_the_two_best_labels_is_computed_again():
    model = classifier(3, 3.0)
    with torch.no_grad():
        model.output.weight[1] = model.output.weight[0] * (1 + 1e-7)
        model.output.bias[:2] = 20.0  # above the third
    counting = engine(model, 100_000)
    some = examples()[:60]
    assert set(counting.decide(some).best.tolist()) == {0, 1}
    assert counting.n_alone == len(some)


def test_a_near_tie_of_worse_labels_is_not():
    model = classifier(3, 0.3)
    with torch.no_grad():
        model.output.weight[1] = model.output.weight[0] * (1 + 1e-7)
        model.output.bias[2] = 20.0  # above both
    counting = engine(model, 100_000)
    assert set(counting.decide(examples()).best.tolist()) == {2}
    assert counting.n_alone == 0
