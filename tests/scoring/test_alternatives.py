"""Alternatives against every word that a tiny model can continue with, from all token sequences."""

import math

import pytest
import torch

from mtkit.bundle import load_bundle
from mtkit.engines.native import NativeEngine
from mtkit.errors import MtkitError
from mtkit.model.transformer import Transformer
from mtkit.scoring.alternatives import find_alternatives
from mtkit.text.capitals import Capitals
from mtkit.tokens.special_ids import BOS_ID, EOS_ID
from mtkit.translation.translator import Translator

SRC = "The cat sleeps."
GIVEN = "I rains te so rains I"
POSSIBLE = ["▁I", "▁rains", "▁t", "▁s", "▁", "e", "o", "s", "le", ".", "</s>"]  # few enough to try all sequences
LEAST = 1e-4  # what find_alternatives looks for


@pytest.fixture(scope="module")
def bundle(shared_bundle):
    return load_bundle(shared_bundle)


@pytest.fixture(scope="module")
def models(shared_bundle):
    """Two different models that give all probability to the possible tokens."""
    made = []
    for seed in range(2):
        loaded = load_bundle(shared_bundle)
        torch.manual_seed(seed)
        with torch.no_grad():
            for parameter in loaded.model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
            loaded.model.output.bias.fill_(-40.0)
            loaded.model.output.bias[_ids(loaded)] = torch.tensor([-(piece[0] != "▁") * 3.5 for piece in POSSIBLE])
        made.append(loaded.model)
    return made


def _ids(loaded) -> list[int]:
    return loaded.tgt_tokenizer.piece_ids(POSSIBLE)


@pytest.fixture(scope="module")
def translator(models, bundle):
    return make_translator(bundle, models[:1])


def make_translator(bundle, models) -> Translator:
    decode = bundle.config.decode.model_copy(update={"on_suspect": "off"})
    return Translator(NativeEngine(models), bundle.src_tokenizer, bundle.tgt_tokenizer, decode)


class Oracle:
    """All words above LEAST after a prefix, by whole forward passes and depth-first search."""

    def __init__(self, bundle, models):
        self.models, self.tokenizer = models, bundle.tgt_tokenizer
        self.src = torch.tensor([[*bundle.src_tokenizer.encode(SRC), EOS_ID]])
        self.possible = _ids(bundle)
        self.ends = [i for i, piece in zip(self.possible, POSSIBLE, strict=True) if piece[0] == "▁" or i == EOS_ID]

    def probs(self, ids):
        tgt_in = torch.tensor([[BOS_ID, *ids]])
        with torch.no_grad():
            return sum(model(self.src, tgt_in)[0, -1].softmax(-1) for model in self.models) / len(self.models)

    def words(self, prefix: list[int]) -> dict[str, float]:
        """The probability of the likeliest way to spell each word; "" is the end."""
        probabilities: dict[str, float] = {}

        def spell(ids, p, probs):
            word = self.tokenizer.decode(ids)
            ended = p * probs[self.ends].sum().item()
            if word and "\ufffd" not in word and ended >= LEAST:
                probabilities[word] = max(ended, probabilities.get(word, 0.0))
            for token_id in self.possible:
                longer = p * probs[token_id].item()
                if token_id not in self.ends and longer >= LEAST:
                    spell([*ids, token_id], longer, self.probs([*prefix, *ids, token_id]))

        first = self.probs(prefix)
        if prefix:
            first = torch.zeros_like(first).index_copy(0, torch.tensor(self.ends), first[self.ends])
            first = first / first.sum()
        if first[EOS_ID] >= LEAST:
            probabilities[""] = first[EOS_ID].item()
        for token_id in (first >= LEAST).nonzero()[:, 0].tolist():
            if token_id != EOS_ID:
                spell([token_id], first[token_id].item(), self.probs([*prefix, token_id]))
        return probabilities


@pytest.mark.parametrize("n_models", [1, 2])
@pytest.mark.parametrize("position", [1, 2, 4])
def test_it_finds_the_likeliest_words_with_their_probabilities(bundle, models, position, n_models):
    alternatives = find_alternatives(make_translator(bundle, models[:n_models]), SRC, position, n=9, translation=GIVEN)
    words = GIVEN.split()
    assert (alternatives.text, alternatives.word, alternatives.position) == (GIVEN, words[position - 1], position)
    prefix = bundle.tgt_tokenizer.encode(" ".join(words[: position - 1]))
    expected = Oracle(bundle, models[:n_models]).words(prefix)
    assert alternatives.probability == pytest.approx(expected.pop(alternatives.word), rel=1e-3)
    best = sorted(expected.items(), key=lambda item: -item[1])[:9]
    assert len(best) == 9
    assert [other.word for other in alternatives.others] == [word for word, _ in best]
    assert [other.probability for other in alternatives.others] == pytest.approx([p for _, p in best], rel=1e-3)


def test_a_word_of_several_tokens_has_the_probability_of_them_and_of_its_end(bundle, models, translator):
    oracle = Oracle(bundle, models[:1])
    prefix, word = [bundle.tgt_tokenizer.encode(text) for text in ("I rains", "te")]
    assert len(word) == 2
    before = oracle.probs(prefix)
    expected = before[word[0]] / before[oracle.ends].sum()  # given that the word before has ended
    expected *= oracle.probs([*prefix, word[0]])[word[1]]
    expected *= oracle.probs([*prefix, *word])[oracle.ends].sum()
    alternatives = find_alternatives(translator, SRC, 3, n=1, translation=GIVEN)
    assert math.isclose(alternatives.probability, expected.item(), rel_tol=1e-3)


@pytest.mark.parametrize("translation", [GIVEN, None])
@pytest.mark.parametrize("position", [1, 2])
def test_each_alternative_stands_at_its_place_after_the_same_words(translator, translation, position):
    alternatives = find_alternatives(translator, SRC, position, n=8, translation=translation)
    words = [other.word for other in alternatives.others]
    assert len(set(words)) == len(words) > 2
    assert alternatives.word not in words
    assert [other.probability for other in alternatives.others] == sorted(
        (o.probability for o in alternatives.others), reverse=True
    )
    before = alternatives.text.split()[: position - 1]
    for other in alternatives.others:
        assert other.text.split()[: len(before)] == before
        assert other.text.split()[position - 1 :][:1] == ([other.word] if other.word else [])


def test_without_a_given_translation_it_is_the_models_own(translator):
    assert find_alternatives(translator, SRC, 1).text == translator.translate([SRC])[0]


def test_the_rest_is_what_the_search_finds_after_the_forced_words(translator):
    alternatives = find_alternatives(translator, SRC, 2, n=8, translation=GIVEN)
    n_free = 0
    for other in alternatives.others:
        prefix = translator.tgt_tokenizer.encode(f"I {other.word}")
        [[free, *_]] = translator.search([SRC], prefixes=[prefix])
        if other.word and free.text.split()[1] == other.word:  # else the search made a longer word of it
            assert other.text == free.text
            n_free += 1
    assert n_free


@pytest.mark.parametrize(
    ("text", "position", "translation", "message"),
    [
        (SRC, 7, GIVEN, f"position 7: .*6 words: {GIVEN}"),
        (" ", 1, None, "text is blank"),
        (SRC, 1, "  ", "translation is blank"),
        ("It rains. " * 60, 1, GIVEN, r"tokens.*decode\.max_src_tokens=200"),
    ],
)
def test_a_wrong_question_is_refused(translator, text, position, translation, message):
    with pytest.raises(MtkitError, match=message):
        find_alternatives(translator, text, position, translation=translation)


def test_a_translation_ends_where_learned_positions_do(bundle):
    cfg = bundle.config.model.model_copy(update={"positions": "learned", "max_positions": 8})
    sizes = bundle.src_tokenizer.vocab_size, bundle.tgt_tokenizer.vocab_size
    model = Transformer(cfg, *sizes).eval()
    with torch.no_grad():  # endless words
        model.output.bias.fill_(-40.0)
        model.output.bias[bundle.tgt_tokenizer.piece_ids(["▁", "e", "s"])] = 0.0
    translator = make_translator(bundle, [model])
    fitting = "a" * 6  # and the space before it: seven tokens and EOS
    alternatives = find_alternatives(translator, "cat", 1, translation=fitting)
    assert alternatives.text == fitting
    with pytest.raises(MtkitError, match=r"8 tokens.*model\.max_positions=8"):
        find_alternatives(translator, "cat", 1, translation=fitting + "a")


def test_probabilities_are_those_of_the_text_as_the_search_reads_it(bundle, models):
    translator = make_translator(bundle, models[:1])
    usual = find_alternatives(translator, SRC, 1, translation=GIVEN)
    assert find_alternatives(translator, SRC.upper(), 1, translation=GIVEN).probability != usual.probability
    nats = {True: 9.0, False: 1.0}
    translator.reader.training_text.capitals = Capitals(lambda words: sum(nats[c.isupper()] for c in words), "en", "fr")
    assert find_alternatives(translator, SRC.upper(), 1, translation=GIVEN).probability == usual.probability
