"""The `distill` section of the config: how to train on teachers' translations."""

from collections.abc import Iterable
from typing import Literal, Self

from pydantic import Field, model_validator

from mtkit.config.data import TrainCorpus
from mtkit.config.section import ConfigPath, Section
from mtkit.config.tags import Tag

DISTILLED = "distilled"  # the folder of the run with the text that its teachers translated


class DistillConfig(Section):
    """Sequence-level knowledge distillation (Kim and Rush 2016): train on the teachers' translations."""

    teachers: list[ConfigPath] = Field(
        [],
        description="runs or bundles (several form an ensemble) that translate the source sides of data.train; "
        "their translations replace the target sides, also where tgt is null; none: no distillation",
    )
    beam_size: int = Field(
        5,
        ge=1,
        le=1000,
        description="beam size of the teachers; their own configs give all other decode settings, and with "
        "decode.precision=auto a teacher may lose up to 0.5 BLEU by int8",
    )
    n_best: int = Field(1, ge=1, le=1000, description="translations of each line to train on, or to choose from")
    choose: Literal["all", "bleu", "chrf"] = Field(
        "all",
        description="train on all n_best translations, or on the one closest to the original target side by this "
        "metric; where there is none, on the teachers' best one",
    )
    tag: Tag | None = Field(
        None,
        description="tag before each sentence for the teachers, such as <2de>; default: the tags of the corpus that "
        "the teachers know, or else the tag in the teachers' config",
    )
    original_weight: float = Field(
        0.0,
        ge=0,
        le=1000,
        description="also train on the original pairs, with their weights multiplied by this; 0: translations only",
    )
    workers: int = Field(
        1, ge=1, le=1024, description="number of processes that translate in parallel; affects only the speed"
    )

    @model_validator(mode="after")
    def _the_beam_holds_them(self) -> Self:
        self._give_way(beam_size=max(self.beam_size, self.n_best))
        if self.n_best > self.beam_size:
            raise ValueError(f"n_best={self.n_best} is more than beam_size={self.beam_size} returns: raise beam_size")
        if self.choose != "all" and self.n_best == 1:
            raise ValueError(
                f"choose={self.choose} needs several translations, but n_best=1: raise n_best, for example to 5"
            )
        return self


def has_teachers_text(corpora: Iterable[TrainCorpus]) -> bool:
    """Return whether one of the corpora is text that a run's teachers have translated."""
    return any(corpus.tsv and corpus.tsv.parent.name == DISTILLED for corpus in corpora)
