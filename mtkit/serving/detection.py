"""Detect which of the served languages a text is in, or that it is in none, and choose the source of a translation.

The detector combines two sources. py3langid's n-grams separate the served languages from each other and from the
other text. The tokenizers of the served models know the words of their training text, which decides short texts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from mtkit.data.sides import Side
from mtkit.languages import are_one_language, primary_code
from mtkit.quality.language import INTRUDERS, Floats, alike_languages, identifier_of, known_code, softmax
from mtkit.serving.models import ServedModels
from mtkit.text.addresses import without_addresses
from mtkit.text.inline_tags import without_tags
from mtkit.text.words import has_letters, words_of

# scripts/bench/detection.py chose these on one half of its text: of two or three words, some 2 % of those in a
# language that is not served are taken for one that is.
_SURE = 0.5  # probability of a language from which it is the answer
# Times as probable as every possible source that another language must be before the text counts as written in it. Of
# Tatoeba's English sentences of up to 8 words none is French by this rule; of its French ones 94 % are.
_CLEARLY = 50.0
_RATHER = 5.0  # the same for a served language that has half of the probability of all
_FAMILIAR = 2.0  # times as hard to predict as usual: words that are harder say nothing; the training text may be narrow
_WORDS_WEIGHT = 3.0  # log-odds for each unit of foreignness below it
_MOST_CHARS = 2_000  # of a text that are looked at
_MOST_WORDS = 50
UNDETERMINED = "und"  # ISO 639-2's code


@dataclass(frozen=True)
class Detection:
    """The language of a text."""

    language: str | None  # None: unsure
    confidence: float  # the probability, 0 to 1, that the text is in the first of the candidates
    candidates: Sequence[
        tuple[str, float]
    ]  # served languages and their probabilities, best first; none without a language
    foreign: tuple[str, float] | None = None  # the most probable language that is not served
    has_language: bool = True  # False for a number, an address, or initials such as "OK" that any language may use


@dataclass(frozen=True)
class Source:
    """The language to translate a text from, if the request leaves it to the service."""

    language: str | None  # None: leave the text unchanged
    reported: str  # the text's own language, also if no model translates from it; UNDETERMINED if it has none
    confidence: float  # the probability, 0 to 1, that the text is in that language


def choose_source(found: Detection, sources: Sequence[str], target: str) -> Source:
    """Choose the language of a text among the sources that can be translated into the target.

    It is the most probable source, however improbable, unless the text is clearly in another language. A text in the
    target language is its own translation; a text in any other language, or in none, stays unchanged.
    """
    if not found.has_language:
        return Source(None, UNDETERMINED, 0.0)
    known = {primary_code(code): probability for code, probability in found.candidates}
    likeliest = max(sources, key=lambda code: known.get(primary_code(code), 0.0))
    own = known.get(primary_code(likeliest), 0.0)
    possible = set(map(primary_code, sources))
    others = [(code, share) for code, share in found.candidates if primary_code(code) not in possible]
    other, probability = max([*others, *([found.foreign] if found.foreign else [])], key=_share, default=("", 0.0))
    if other == found.language:
        is_clear = probability > _RATHER * own
    else:
        is_clear = probability > _CLEARLY * own and possible <= known.keys()
    if not is_clear:
        return Source(likeliest, likeliest, own)
    return Source(target if are_one_language(other, target) else None, other, probability)


def _share(candidate: tuple[str, float]) -> float:
    return candidate[1]


class Detector:
    """Detects which of the served languages a text is in, if any."""

    def __init__(self, languages: Sequence[str], words: Mapping[str, Side] | None = None) -> None:
        """words: a side of a model's training text in each language, where there is one.

        Languages that py3langid does not know are never the answer. Of codes that differ in the region or script only,
        such as pt-br and pt-pt, the first stands for all.
        """
        self.languages = list(languages)
        self._codes: dict[str, str] = {}  # py3langid's code: the served one
        for language in languages:
            if (code := known_code(language)) is not None:
                self._codes.setdefault(code, language)
        self._identifier = identifier_of(tuple(dict.fromkeys([*self._codes, *INTRUDERS])))
        self._similar = alike_languages(list(self._codes))  # the served languages and those easily taken for them
        self._words = [(words or {}).get(language) for language in self._codes.values()]

    @classmethod
    def from_models(cls, models: ServedModels) -> Self:
        """Return a detector of all languages that models translate from or into."""
        return cls([language.code for language in models.languages], models.words)

    def detect(self, text: str) -> Detection:
        """Return the language of a text, ignoring its tags and addresses."""
        text = without_addresses(without_tags(text[:_MOST_CHARS]))
        scores, sizes = self._identifier.scores([text])
        is_known = np.ptp(scores) > 0  # by an n-gram of any language
        if not has_letters(text) or (text.isupper() and not is_known):
            return Detection(None, 0.0, (), has_language=False)
        [probabilities] = softmax(scores, sizes, self._leads(text)).tolist()
        served = zip(self._codes.values(), probabilities, strict=False)
        candidates = sorted(served, key=lambda candidate: -candidate[1])
        language, confidence = candidates[0] if candidates else (None, 0.0)
        foreign = [
            (code, probability)
            for code, probability in zip(self._identifier.langs, probabilities, strict=True)
            if code not in self._similar
        ]
        return Detection(
            language if confidence >= _SURE else None, confidence, candidates, max(foreign, key=_share, default=None)
        )

    def _leads(self, text: str) -> Floats:
        """Return the log-odds of each language by its known words alone, before n-grams count."""
        words = [word.lower() if word.isupper() else word for word in words_of(text)[:_MOST_WORDS]]
        words = [word for word in words if not any(map(str.isdigit, word))]
        leads = np.zeros(len(self._identifier.langs), np.float32)
        for index, side in enumerate(self._words):
            if side is not None and words:
                leads[index] = _WORDS_WEIGHT * max(0.0, _FAMILIAR - side.foreignness(words))
        return leads
