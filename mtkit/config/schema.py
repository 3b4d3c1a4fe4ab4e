"""Define the config file: one key per section, each a class in the module of the same name in this package.

This module reads and writes no files; `mtkit.config.reading.loading` converts YAML to a `Config`.
"""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from mtkit.config.augment import NOTHING, AugmentConfig
from mtkit.config.classification import problem_of_classifier, problem_of_translator
from mtkit.config.cleaning import CleanConfig
from mtkit.config.data import DataConfig
from mtkit.config.decoding import DecodeConfig
from mtkit.config.distillation import DistillConfig
from mtkit.config.model import ModelConfig, expand_preset
from mtkit.config.section import ConfigPath, Section, is_part
from mtkit.config.tokenizer import TokenizersConfig
from mtkit.config.training import TrainConfig

Task = Literal["translate", "classify"]
Preset = Literal["tiny", "small", "base", "big", "student", "student-tiny", "student-base-memory", "student-ct2"]


class Config(Section):
    """All settings of a run."""

    task: Task = Field(
        "translate",
        description="task of the model: translate text, or classify a text or a pair of texts by labels",
    )
    run_dir: ConfigPath | None = Field(
        None,
        description="folder of the run; default: runs/NAME in the current folder, where NAME is the name of this file",
    )
    seed: int = Field(1, ge=0, lt=2**32, description="random seed of initial weights, data order and dropout")
    data: DataConfig = Field(description="parallel text for training, validation and test")
    clean: CleanConfig = Field(CleanConfig(), description="rules by which `mtkit data clean` keeps pairs")
    distill: DistillConfig = Field(DistillConfig(), description="train on the translations of teacher models")
    augment: AugmentConfig = Field(
        AugmentConfig(), description="show a translator a share of the training pairs as people type them"
    )
    tokenizer: TokenizersConfig = Field(TokenizersConfig(), description="how to split text into tokens")
    model: Annotated[ModelConfig, BeforeValidator(expand_preset, json_schema_input_type=ModelConfig | Preset)] = Field(
        ModelConfig(),
        description="architecture of the network: its keys, or the name of a shape: tiny, small (the default), base, "
        "big, or for fast decoding student, student-tiny, student-base-memory (all also for browsers) "
        "or student-ct2",
    )
    train: TrainConfig = Field(TrainConfig(), description="how to train, and when to stop")
    decode: DecodeConfig = Field(DecodeConfig(), description="how to translate")

    @model_validator(mode="after")
    def _stages_fit(self) -> Self:
        """Check that a run whose mixture of text changes has a fixed end, because shares refer to it."""
        if self.distill.teachers and any(corpus.scores for corpus in self.data.train):
            raise ValueError("distill.teachers replace the pairs that scores of data.train belong to: leave scores out")
        untranslated = [i for i, corpus in enumerate(self.data.train) if corpus.is_untranslated]
        if untranslated and not self.distill.teachers:
            raise ValueError(
                f"data.train.{untranslated[0]}.tgt=null needs a teacher: set distill.teachers to translate this text, "
                "or set tgt"
            )
        if len(self.data.stages) == 1:
            return self
        train, key = self.train, "a weight or min_score of data.train that changes"
        if train.patience is not None and "patience" in train.model_fields_set:
            raise ValueError(
                f"train.patience={train.patience} could stop the run before {key} has its last value; set it to null"
            )
        if not any((train.max_steps, train.max_epochs, train.max_minutes, train.budget)):
            raise ValueError(f"{key} needs a fixed end: set max_steps, max_epochs, max_minutes or budget of train")
        return self

    @model_validator(mode="after")
    def _metric_is_of_a_dev_set(self) -> Self:
        on, names = self.train.metric_on, [corpus.name for corpus in self.data.dev]
        if on is not None and len(names) == 1:
            raise ValueError(f"train.metric_on={on} needs several dev sets, but data.dev has one: remove the key")
        if on is not None and on not in names:
            known = ", ".join(map(str, names))
            raise ValueError(f"train.metric_on={on}: unknown dev set; the names in data.dev are {known}")
        return self

    @model_validator(mode="after")
    def _sections_fit(self, info: ValidationInfo) -> Self:
        if self.task == "classify":
            self._replace("train", metric="accuracy")
            self._replace("augment", **NOTHING.model_dump())
        if is_part(info):
            return self
        if self.task == "classify":
            self._replace("tokenizer", shared=True)
            problem = problem_of_classifier(self.data, self.distill, self.augment, self.tokenizer, self.train)
        else:
            problem = problem_of_translator(self.data, self.train)
        if problem:
            raise ValueError(problem)
        if self.model.tie == "all":
            self._replace("tokenizer", shared=True)
        self.__dict__["tokenizer"] = self.tokenizer.with_source_rule()
        if self.model.positions == "learned":
            self._replace("data", max_tokens=min(self.data.max_tokens, self.model.max_positions - 1))
        if self.model.tie == "all" and not self.tokenizer.shared:
            raise ValueError("model.tie=all needs one vocabulary for both sides: set tokenizer.shared to true")
        if self.model.positions == "learned" and self.data.max_tokens + 1 > self.model.max_positions:
            raise ValueError(
                f"data.max_tokens={self.data.max_tokens} plus <end> is more than "
                f"model.max_positions={self.model.max_positions}: lower the first or raise the second"
            )
        return self

    def _replace(self, section: str, **values: object) -> None:
        """Like _give_way, but replace the section by a copy, because other configs may share it."""
        old: Section = getattr(self, section)
        changed = {key: value for key, value in values.items() if key not in old.model_fields_set}
        if any(getattr(old, key) != value for key, value in changed.items()):
            copy = old.model_copy()
            copy.__dict__.update(changed)  # not to be taken for written
            self.__dict__[section] = copy
