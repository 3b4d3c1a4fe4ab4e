"""The robustness check: score translations of text as people type it, and compare them with those of the clean text."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from mtkit.config.augment import ModifierName
from mtkit.console import counted
from mtkit.data.modifiers import Modifiers, can_continue, joined
from mtkit.evaluation.behaviour.checks import Case, Check, Expectation, Languages, Row
from mtkit.evaluation.metrics.scores import corpus_bleu, corpus_chrf
from mtkit.evaluation.metrics.settings import MetricSettings, tokenizer_for

_JOINED = 2, 3  # sentences in a line
_JOINED_NAMES = tuple(f"joined {n}" for n in _JOINED)
_N_SHOWN = 3  # sources in reports
Metric = Literal["bleu", "chrf"]


@dataclass(frozen=True)
class ChangeScores:
    """The scores of translations of changed text, and of the same sentences as they are."""

    change: str
    metric: Metric
    n_lines: int
    clean: float  # of translations of the clean text after the same change: put in capitals, without the mark, joined
    changed: float

    @property
    def loss(self) -> float:
        """The points that the change costs."""
        return self.clean - self.changed

    def __str__(self) -> str:
        name = {"bleu": "BLEU", "chrf": "chrF"}[self.metric]
        return f"{name} {self.changed:5.1f}, clean {self.clean:5.1f} ({self.changed - self.clean:+.1f})"


@dataclass(frozen=True)
class ChangedCase(Case):
    """Lines with one change; `sources` are the first of them, `wanted` the references of all after the same change."""

    change: str = ""
    name: ModifierName = "typos"
    groups: tuple[tuple[str, ...], ...] = ()  # the clean sentences of each line


class RobustCheck(Check):
    """Text as people type it is translated about as well as clean text."""

    nothing = "lacks a sentence or its translation"
    items = "translations"
    n_columns = 2
    check: Literal["robust"] = "robust"
    translations: list[Expectation] = Field([], description="sentences with their translations")
    changes: list[ModifierName] = Field(
        list(get_args(ModifierName)), min_length=1, description="changes to try, as in the `augment` section of configs"
    )
    metric: Metric = Field("bleu", description="bleu or chrf")
    max_loss: float | None = Field(
        None, ge=0, description="points that a change may cost, compared with clean text; default: only report"
    )

    @model_validator(mode="after")
    def _may_only_report(self) -> Self:
        if self.max_loss is None:
            self._give_way(threshold=0.0)
        return self

    def rows(self) -> list[Row]:
        """Return each sentence with its translations."""
        return [(entry.src, *entry.one_of) for entry in self.translations]

    def cases(self, rows: Sequence[Row], languages: Languages) -> list[tuple[set[int], Case]]:
        """Return a case for each change that some of the pairs allow.

        Raises ValueError if there are pairs, but none of them allows any of the changes.
        """
        texts = {index: (row[0].strip(), row[1].strip()) for index, row in enumerate(rows)}
        pairs = {index: pair for index, pair in texts.items() if all(pair)}
        cases = (
            case
            for name in self.changes
            for case in (_joined_cases if name == "joined" else _changed_cases)(name, list(pairs.values()), languages)
        )
        made: list[tuple[set[int], Case]] = [(set(pairs), case) for case in cases if case.wanted]
        if pairs and not made:
            raise ValueError(
                f"none of the changes {', '.join(self.changes)} alters any text of {counted(len(pairs), 'pair')}; give "
                "other changes or other pairs"
            )
        return made

    def without_lines(self, cases: Sequence[Case]) -> tuple[str, ...]:
        """Return the changes that apply to none of the pairs, so that they have no case."""
        named = chain.from_iterable(_JOINED_NAMES if name == "joined" else (name,) for name in self.changes)
        made = {case.change for case in cases if isinstance(case, ChangedCase)}
        return tuple(name for name in named if name not in made)

    def problem(self, case: Case, texts: Sequence[str], languages: Languages) -> str:
        """Return what the change costs if it is too much, or ""."""
        return self.problem_of(self.scores(case, texts, languages))

    def problem_of(self, scores: ChangeScores) -> str:
        """Return what a change costs if it is too much, or ""."""
        if self.max_loss is None or scores.loss <= self.max_loss:
            return ""
        return f"{scores.change}: {scores}; at most {self.max_loss:g} points may be lost"

    def scores(self, case: Case, texts: Sequence[str], languages: Languages) -> ChangeScores:
        """Return the scores of the translations of a change's lines, and of their clean sentences."""
        assert isinstance(case, ChangedCase)
        n_lines, modifiers = len(case.wanted), Modifiers(*languages)
        rest = iter(texts[n_lines:])
        clean = [modifiers.of_target(case.name, joined([next(rest) for _ in sentences])) for sentences in case.groups]
        if self.metric == "chrf":
            of_clean, of_changed = (corpus_chrf(each, case.wanted) for each in (clean, texts[:n_lines]))
        else:
            settings = MetricSettings(tokenizer_for(languages.tgt, case.wanted))
            of_clean, of_changed = (corpus_bleu(each, case.wanted, settings) for each in (clean, texts[:n_lines]))
        return ChangeScores(case.change, self.metric, n_lines, of_clean, of_changed)


def _changed_cases(name: ModifierName, pairs: Sequence[tuple[str, str]], languages: Languages) -> list[ChangedCase]:
    """Return one case with the pairs that a change applies to; the same sentence always gets the same change."""
    modifiers = Modifiers(*languages)
    changed = [
        (src, *modifiers.changed(name, src, tgt, Random(zlib.crc32(src.encode("utf-8", "surrogatepass")))))
        for src, tgt in pairs
    ]
    return [_case(name, name, [((src,), line, wanted) for src, line, wanted in changed if line != src])]


def _joined_cases(name: ModifierName, pairs: Sequence[tuple[str, str]], _: Languages) -> list[ChangedCase]:
    """Return a case with lines of two sentences, and one with lines of three; a shorter rest makes no line."""
    ending = [pair for pair in pairs if can_continue(*pair)]
    cases = []
    for n, change in zip(_JOINED, _JOINED_NAMES, strict=True):
        lines = [tuple(zip(*ending[start : start + n], strict=True)) for start in range(0, len(ending) - n + 1, n)]
        cases.append(_case(change, name, [(srcs, joined(srcs), joined(tgts)) for srcs, tgts in lines]))
    return cases


def _case(change: str, name: ModifierName, lines: Sequence[tuple[tuple[str, ...], str, str]]) -> ChangedCase:
    """Return the case of lines: their clean sentences, the changed line, and its reference."""
    sources = [source for _, source, _ in lines]
    groups = tuple(sentences for sentences, _, _ in lines)
    return ChangedCase(
        sources=tuple(sources[:_N_SHOWN]),
        others=(*sources[_N_SHOWN:], *chain.from_iterable(groups)),
        wanted=tuple(wanted for _, _, wanted in lines),
        change=change,
        name=name,
        groups=groups,
    )
