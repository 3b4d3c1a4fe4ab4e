"""Scores on dev, against torch's own loss and text compared by hand."""

import pytest
import torch
import torch.nn.functional as F

from mtkit.engines.native import NativeEngine
from mtkit.errors import TrainingError
from mtkit.evaluation.metrics.scores import corpus_bleu
from mtkit.tokens.special_ids import BOS_ID, EOS_ID
from mtkit.training.preparation.prepare import prepare
from mtkit.training.trainer import Trainer
from mtkit.training.update.checkpoint import Checkpoints
from mtkit.training.validation.translation import TranslationValidator
from mtkit.translation.translator import Translator


@pytest.fixture
def trainer(make_config):
    cfg = make_config(label_smoothing=0.3, validate_sentences=None)
    return Trainer(prepare(cfg, cfg.run_dir, Checkpoints(cfg.run_dir / "checkpoints")))


def test_the_loss_is_the_unsmoothed_cross_entropy_of_all_dev_tokens_without_dropout(trainer):
    model, dev = trainer.updater.model, trainer.validator.corpus
    found = trainer.validator.run(model)
    losses = []
    with torch.no_grad():
        for i in range(dev.n_pairs):  # one by one: no padding
            src, tgt = ([int(token_id) for token_id in side[i]] for side in (dev.src, dev.tgt))
            logits = model.eval()(torch.tensor([[*src, EOS_ID]]), torch.tensor([[BOS_ID, *tgt]]))
            losses.append(F.cross_entropy(logits[0], torch.tensor([*tgt, EOS_ID]), reduction="none"))
    expected = torch.cat(losses).mean()
    assert found.loss == pytest.approx(expected.item(), rel=1e-5)
    assert found.perplexity == pytest.approx(expected.exp().item(), rel=1e-4)


def test_the_translations_are_those_that_users_get(trainer):
    validator, model = trainer.validator, trainer.updater.model
    found = validator.run(model)
    sources = (trainer.cfg.data.dev[0].src).read_text().splitlines()
    references = (trainer.cfg.data.dev[0].tgt).read_text().splitlines()
    src_tokenizer, tgt_tokenizer = validator.tokenizers
    decode = trainer.cfg.decode.model_copy(update={"on_suspect": "off"})
    translator = Translator(NativeEngine([model]), src_tokenizer, tgt_tokenizer, decode)
    assert list(found.translations) == translator.translate(sources)
    assert validator.references == references
    perfect = type(found)(**{**vars(found), "translations": tuple(references)})
    assert validator.signed_scores(perfect)["dev"][0].score == pytest.approx(100)
    assert [sample.src for sample in validator.samples(found)] == [sources[0], sources[2], sources[5]]
    assert corpus_bleu(found.translations, references) == found.bleu


def test_better_translations_have_a_higher_bleu_in_nearly_all_resampled_dev_sets(trainer):
    validator = trainer.validator
    scores = validator.run(trainer.updater.model)
    worse, perfect = (
        type(scores)(**{**vars(scores), "translations": tuple(texts)})
        for texts in (["?"] * len(validator.references), validator.references)
    )
    assert validator.share_better(perfect, perfect) == 0.5
    assert validator.share_better(perfect, worse) > 0.95  # few draws have no sentence of four words, and a BLEU of 0
    assert validator.share_better(worse, perfect) < 0.05


def test_chinese_is_scored_by_characters(make_config):
    cfg = make_config()
    cfg = cfg.model_copy(update={"data": cfg.data.model_copy(update={"tgt_lang": "zh"})})
    validator = prepare(cfg, cfg.run_dir, Checkpoints(cfg.run_dir / "checkpoints")).validator
    assert isinstance(validator, TranslationValidator)
    assert "tok:zh" in validator.bleu_signature
    assert corpus_bleu(["我们在下面。"], ["我们在上面。"], validator.settings) > corpus_bleu(
        ["我们在下面。"], ["我们在上面。"]
    )


def test_a_dev_pair_that_does_not_fit_is_named(trainer, monkeypatch):
    def fail(model, batch, *rest):
        raise RuntimeError("CUDA out of memory. Tried to allocate 20 GiB")

    name, dev = trainer.cfg.data.dev[0].src, trainer.validator.corpus
    longest = max(range(dev.n_pairs), key=lambda i: max(len(dev.src[i]), len(dev.tgt[i])))
    monkeypatch.setattr("mtkit.training.validation.validator.batch_loss", fail)
    with pytest.raises(TrainingError, match=rf"{name}:{longest + 1}: .*\b7 others.*train\.batch_tokens"):
        trainer.validator.run(trainer.updater.model)


def test_training_goes_on_after_a_validation(trainer):
    trainer.validator.run(trainer.updater.model)
    trainer.update()
    assert trainer.updater.model.training
