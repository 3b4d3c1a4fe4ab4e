"""Score a model on the dev corpus (loss, BLEU, chrF, behaviour checks), and rank a run's validated steps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from mtkit.config.schema import Config
from mtkit.config.training import TrainConfig
from mtkit.data.batching import Batch, make_batch, plan_epoch
from mtkit.data.corpus import evenly_spaced
from mtkit.data.encoded import EncodedCorpus
from mtkit.data.tokenizer import Tokenizer
from mtkit.engines.native import NativeEngine
from mtkit.errors import TrainingError
from mtkit.evaluation.behaviour.report import SuiteResult, run_suite
from mtkit.evaluation.behaviour.suite import Suite
from mtkit.evaluation.metrics.scores import MetricScore, corpus_bleu, corpus_chrf, evaluate
from mtkit.evaluation.metrics.settings import MetricSettings, tokenizer_for
from mtkit.formats.pairs import Pair
from mtkit.model.network import Network
from mtkit.model.transformer import Transformer
from mtkit.runtime import Precision, is_out_of_memory
from mtkit.training.state import Scored, TrainState
from mtkit.training.update import batch_loss
from mtkit.translation.translator import Translator

_N_SAMPLES = 3


@dataclass(frozen=True)
class Sample:
    """A dev sentence, its reference and the model's translation."""

    src: str
    reference: str
    translation: str


@dataclass(frozen=True)
class DevScores:
    """The model's scores on dev."""

    loss: float  # nats per target token, end included, without label smoothing
    perplexity: float
    bleu: float
    chrf: float
    translations: tuple[str, ...]  # of Validator.pairs
    suite: SuiteResult | None = None  # of train.suite

    def figures(self) -> dict[str, float]:
        """Return the scores by name; of a suite the shares that passed, 0 to 1."""
        scores = {"loss": self.loss, "perplexity": self.perplexity, "bleu": self.bleu, "chrf": self.chrf}
        return {**scores, **(self.suite.figures() if self.suite else {})}

    def __str__(self) -> str:
        scores = f"loss {self.loss:.3f} (perplexity {self.perplexity:.2f}), BLEU {self.bleu:.2f}, chrF {self.chrf:.2f}"
        return f"{scores}, {self.suite}" if self.suite else scores


class Validator:
    """Scores a model on dev: the loss on all of it, translations of train.validate_sentences sentences."""

    def __init__(
        self,
        cfg: Config,
        corpus: EncodedCorpus,
        pairs: Sequence[Pair],
        tokenizers: tuple[Tokenizer, Tokenizer],
        precision: Precision,
        suite: Suite | None = None,
    ) -> None:
        """corpus: the dev pairs as token ids; pairs: the same as text; suite: behaviour checks to run besides."""
        self.cfg = cfg
        self.corpus = corpus
        self.pairs = evenly_spaced(pairs, cfg.train.validate_sentences or len(pairs))
        self.tokenizers = tokenizers
        self.precision = precision
        self.suite = suite
        self.settings = MetricSettings(tokenizer_for(cfg.data.tgt_lang))
        self.plan = plan_epoch(
            corpus.src_lengths,
            corpus.tgt_lengths,
            batch_tokens=cfg.train.n_batch_tokens,
            seed=cfg.seed,
            epoch=0,
            shuffle=False,
        )

    def run(self, model: Network) -> DevScores:
        """Score the model, and leave it in evaluation mode."""
        assert isinstance(model, Transformer)
        model.eval()
        loss = self._loss(model)
        device = next(model.parameters()).device
        # the model alone: no second attempts, no terminology
        update = {"on_suspect": "off", "terminology": None, "tag": self.cfg.data.dev.tag}
        decode = self.cfg.decode.model_copy(update=update)
        translator = Translator(NativeEngine([model], device), *self.tokenizers, decode)
        translations = translator.translate([pair.src for pair in self.pairs])
        return DevScores(
            loss,
            math.exp(min(loss, 700.0)),
            corpus_bleu(translations, self.references, self.settings),
            corpus_chrf(translations, self.references),
            tuple(translations),
            self._behaviour(translator),
        )

    @property
    def references(self) -> list[str]:
        """The references of the sentences to translate."""
        return [pair.tgt for pair in self.pairs]

    def samples(self, scores: DevScores) -> list[Sample]:
        """Return a few of the translations, always of the same sentences."""
        rows = zip(self.pairs, scores.translations, strict=True)
        return evenly_spaced([Sample(pair.src, pair.tgt, text) for pair, text in rows], _N_SAMPLES)

    def signed_scores(self, scores: DevScores) -> list[MetricScore]:
        """Return BLEU, chrF2 and TER of the translations with signatures and intervals."""
        return evaluate(scores.translations, self.references, settings=self.settings)

    @property
    def bleu_signature(self) -> str:
        """The signature of the BLEU of a validation."""
        metric = self.settings.load("BLEU")
        metric.corpus_score([""], [[""]])  # the signature needs the number of references
        return str(metric.get_signature())

    def _behaviour(self, translator: Translator) -> SuiteResult | None:
        if self.suite is None:
            return None
        # `search` does not log warnings about long lines, which would come at each validation
        return run_suite(self.suite, lambda lines: [best.text for best, *_ in translator.search(lines)])

    @torch.no_grad()  # not inference_mode: training also uses the position tables that the model may grow here
    def _loss(self, model: Network) -> float:
        batches = [make_batch(self.corpus, indices) for indices in self.plan]
        sums = []
        for batch in batches:
            try:
                sums.append(batch_loss(model, batch, 0.0, self.precision)[1])
            except RuntimeError as error:
                if is_out_of_memory(error):
                    raise self._out_of_memory(batch) from error
                raise
        return math.fsum(torch.stack(sums).tolist()) / sum(batch.n_tgt_tokens for batch in batches)

    def _out_of_memory(self, batch: Batch) -> TrainingError:
        corpus = self.corpus
        lengths = np.maximum(corpus.src_lengths[batch.indices], corpus.tgt_lengths[batch.indices])
        longest = int(lengths.argmax())
        return TrainingError(
            f"{corpus.line_of(int(batch.indices[longest]))}: out of memory for the loss of this dev pair of "
            f"{lengths[longest]:,} tokens with {len(lengths) - 1} others; in a new run, shorten it if it is unusually "
            "long, or lower train.batch_tokens"
        )


def scored(step: int, scores: DevScores, cfg: TrainConfig) -> Scored:
    """Return the step with the scores that rank it."""
    return Scored(step, scores.figures()[cfg.metric], scores.loss)


def quality(one: Scored, cfg: TrainConfig) -> tuple[float, float]:
    """Return a sort key that rises with quality: the metric, then the loss."""
    return (-one.value if cfg.metric == "loss" else one.value, -one.loss)


def plainly_better(best: Scored, other: Scored, cfg: TrainConfig) -> bool:
    """Whether the best of many validations beats another model in both the metric and the loss.

    The metric alone would favour it: the best BLEU of many is partly luck, above all on few dev sentences.
    """
    return quality(best, cfg) > quality(other, cfg) and not best.loss >= other.loss


def rank(state: TrainState, scores: DevScores, cfg: TrainConfig) -> bool:
    """Add the state's step to its validated steps, and to the best if it is one; return whether it is the best."""
    new = scored(state.step, scores, cfg)
    is_best = not state.best or quality(new, cfg) > quality(state.best[0], cfg)
    n_best = 1 if cfg.average_last else cfg.average_best
    state.best = sorted([*state.best, new], key=lambda one: quality(one, cfg), reverse=True)[:n_best]
    state.last = [*state.last, new][-cfg.average_last :] if cfg.average_last else []
    state.bad_validations = 0 if is_best else state.bad_validations + 1
    state.validated_step = state.step
    return is_best
