"""Score a translator on the dev corpus: loss, BLEU, chrF, behaviour checks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mtkit.config.schema import Config
from mtkit.console import counted
from mtkit.data.corpus import evenly_spaced
from mtkit.data.encoded import EncodedCorpus
from mtkit.engines.native import NativeEngine
from mtkit.evaluation.behaviour.report import SuiteResult, run_suite
from mtkit.evaluation.behaviour.suite import Suite
from mtkit.evaluation.metrics.scores import MetricScore, corpus_bleu, corpus_chrf, evaluate
from mtkit.evaluation.metrics.settings import MetricSettings, tokenizer_for
from mtkit.evaluation.metrics.significance import Chance, compare
from mtkit.model.network import Network
from mtkit.model.transformer import Transformer
from mtkit.pair_files.pairs import Pair
from mtkit.runtime import Precision
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.training.validation.validator import DevScores, Sample, dev_loss, dev_plan
from mtkit.translation.translator import Translator

_N_SAMPLES = 3
_USELESS = 10  # BLEU points; below this, hardly any sentence is understandable


def too_low(bleu: float) -> str | None:
    """Return advice about a BLEU that is too low for a usable model; None for a higher one."""
    if bleu >= _USELESS:
        return None
    return (
        f"A BLEU of {bleu:.1f} is too low to be useful. The model needs more text or longer training, or the two sides "
        "of its text are not translations of each other."
    )


@dataclass(frozen=True)
class TranslationScores:
    """A translator's scores on dev."""

    loss: float  # nats per target token, end included, without label smoothing
    perplexity: float
    bleu: float
    chrf: float
    translations: tuple[str, ...]  # of TranslationValidator.pairs
    suite: SuiteResult | None = None  # of train.suite

    def figures(self) -> dict[str, float]:
        """Return the scores by name; for a suite, the shares of passed cases, from 0 to 1."""
        scores = {"loss": self.loss, "perplexity": self.perplexity, "bleu": self.bleu, "chrf": self.chrf}
        return {**scores, **(self.suite.figures() if self.suite else {})}

    def finding(self) -> str | None:
        """Return advice about a BLEU that is too low for a usable model; None for a higher one."""
        return too_low(self.bleu)

    def __str__(self) -> str:
        scores = f"loss {self.loss:.3f} (perplexity {self.perplexity:.2f}), BLEU {self.bleu:.2f}, chrF {self.chrf:.2f}"
        return f"{scores}, {self.suite}" if self.suite else scores


class TranslationValidator:
    """Scores a model on a dev set: the loss on all pairs, and translations of some sentences."""

    def __init__(
        self,
        cfg: Config,
        corpus: EncodedCorpus,
        pairs: Sequence[Pair],
        tokenizers: tuple[Tokenizer, Tokenizer],
        precision: Precision,
        suite: Suite | None = None,
        *,
        tag: str | None = None,
        n_sentences: int | None = None,
    ) -> None:
        """corpus: the dev pairs as token ids; pairs: the same pairs as text; suite: behaviour checks to run as well.

        tag: the tag of the dev sentences. n_sentences: translate only this many.
        """
        self.cfg = cfg
        self.corpus = corpus
        self.pairs = evenly_spaced(pairs, n_sentences or len(pairs))
        self.tag = tag
        self.tokenizers = tokenizers
        self.precision = precision
        self.suite = suite
        self.settings = MetricSettings(tokenizer_for(cfg.data.tgt_lang, [pair.tgt for pair in self.pairs]))
        self.plan = dev_plan(cfg, corpus)

    def run(self, model: Network) -> TranslationScores:
        """Score the model, and leave it in evaluation mode."""
        assert isinstance(model, Transformer)
        model.eval()
        loss = dev_loss(model, self.corpus, self.plan, self.precision)
        translator = self._translator(NativeEngine([model], next(model.parameters()).device))
        translations = translator.translate([pair.src for pair in self.pairs])
        return TranslationScores(
            loss,
            math.exp(min(loss, 700.0)),
            corpus_bleu(translations, self.references, self.settings),
            corpus_chrf(translations, self.references),
            tuple(translations),
            self._behaviour(translator),
        )

    def int8_bleu(self, model: Transformer) -> float:
        """Return the BLEU of the model on this CPU in 8-bit integers."""
        translations = self._translator(NativeEngine([model], precision="int8")).translate(
            [pair.src for pair in self.pairs]
        )
        return corpus_bleu(translations, self.references, self.settings)

    def _translator(self, engine: NativeEngine) -> Translator:
        decode = self.cfg.decode.plain.model_copy(update={"tag": self.tag})
        return Translator(engine, *self.tokenizers, decode)

    @property
    def fingerprint(self) -> str:
        """The checksum of dev, as encoded."""
        return self.corpus.fingerprint

    @property
    def n_pairs(self) -> int:
        """The number of pairs in dev."""
        return self.corpus.n_pairs

    @property
    def n_sentences(self) -> int:
        """The number of dev sentences that a validation translates."""
        return len(self.pairs)

    def describe(self) -> str:
        """Describe the dev set that a validation scores."""
        dev = counted(self.corpus.n_pairs, "pair")
        return f"dev: {dev}, {self.n_sentences:,} translated at a validation (BLEU: {self.bleu_signature})"

    @property
    def references(self) -> list[str]:
        """The references of the sentences to translate."""
        return [pair.tgt for pair in self.pairs]

    def samples(self, scores: DevScores) -> list[Sample]:
        """Return translations of the same few sentences each time."""
        assert isinstance(scores, TranslationScores)
        rows = zip(self.pairs, scores.translations, strict=True)
        return evenly_spaced([Sample(pair.src, pair.tgt, text) for pair, text in rows], _N_SAMPLES)

    def signed_scores(self, scores: DevScores) -> dict[str, list[MetricScore]]:
        """Return BLEU, chrF2 and TER of the translations with signatures and intervals."""
        assert isinstance(scores, TranslationScores)
        return {"dev": evaluate(scores.translations, self.references, settings=self.settings)}

    def share_better(self, scores: DevScores, others: DevScores) -> float:
        """Return the share of resampled dev sets in which the scores have a higher BLEU than others; ties are half."""
        assert isinstance(scores, TranslationScores) and isinstance(others, TranslationScores)
        systems = {"others": others.translations, "scores": scores.translations}
        chance = Chance(n_randomization=1)  # unused
        _, ours = compare(systems, [self.references], metrics=["BLEU"], settings=self.settings, chance=chance)
        return ours.differences[0].better or 0.0  # None: too few sentences

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
