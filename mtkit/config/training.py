"""The `train` section of the config: batches, optimizer, validation, and when to stop."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from mtkit.config.durations import seconds_of
from mtkit.config.section import ConfigPath, Section

Share = Annotated[float, Field(ge=0, lt=1)]

DEFAULT_BATCH_TOKENS = 4096
_PATIENCE = 10  # validations; as Marian's --early-stopping


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int | float) else value


# Accepts a number without unit as text, so that the check of the text can explain how to write durations.
Duration = Annotated[str, BeforeValidator(_as_text)]


class TrainConfig(Section):
    """How to train: batches, optimizer, validation, and when to stop."""

    init_from: ConfigPath | None = Field(
        None,
        description="run or bundle to start from, with its weights and tokenizers; it also provides all keys of "
        "model and tokenizer that this file does not set, and augment. The run keeps that model if nothing "
        "better comes of it",
    )
    freeze: list[str] = Field(
        [], description="freeze weights whose names begin with one of these, such as encoder or tgt_embedding"
    )
    batch_tokens: Literal["auto"] | Annotated[int, Field(ge=16, le=10_000_000)] | None = Field(
        None,
        description="most tokens in a batch: number of sentences times the longest sentence of either side, "
        "including padding; auto: the fastest size on this machine. Default: 4096. With a budget, the largest of 1024, "
        "2048 and 4096 that leaves no fewer than 8,000 updates, or else 1024. For a translator with init_from, or that "
        "only patience ends, 1024 for a text of under 4 million tokens. mtkit measures both at the start of the run "
        "and records the size in its config.yaml",
    )
    accumulate: int = Field(
        1, ge=1, le=100_000, description="number of batches per update; gives the gradient of one large batch"
    )
    max_steps: int | None = Field(None, ge=1, le=10**12, description="stop after this many updates")
    max_epochs: int | None = Field(
        None, ge=1, le=10**12, description="stop after this many passes over the training text"
    )
    max_minutes: float | None = Field(
        None,
        gt=0,
        le=10**9,
        description="stop after this many minutes of training and validation, in all restarts of the run together",
    )
    budget: Duration | None = Field(
        None,
        description="wall time of the whole command, such as 90s, 30m, 2h or 1h30m: training ends early enough to "
        "validate, average and write the model in time; replaces max_steps, max_epochs and max_minutes",
    )
    lr: float = Field(
        1e-3,
        gt=0,
        description="peak learning rate, reached at the end of the warm-up. These runs have another default: a "
        "translator with init_from has 2e-4. A model with d_model up to 256 has 2e-3 if a budget leaves fewer than "
        "2,000 updates. A translator of this width also has it with schedule_free, if a budget or patience alone ends "
        "the run. It has 4e-3 with guided_alignment, at most 2 + 2 layers, a budget for fewer than 4,000 updates, and "
        "no R-Drop",
    )
    schedule: Literal["auto", "schedule_free", "inverse_sqrt", "cosine", "constant"] = Field(
        "auto",
        description="learning rate after the warm-up. schedule_free: lr, and the model is the mean of the weights of "
        "all updates (Schedule-Free AdamW); inverse_sqrt: lr x sqrt(warmup_steps / step); cosine: half a "
        "cosine from lr to lr x lr_floor at the end of the run (the first limit that it reaches); constant: lr. "
        "auto: schedule_free with a budget or if only patience ends the run; otherwise inverse_sqrt. For classifiers, "
        "with init_from, ema or lr_floor or without Adam's beta1: cosine with a budget, otherwise inverse_sqrt",
    )
    lr_floor: float = Field(0.0, ge=0, le=1, description="cosine: final learning rate as a share of lr")
    warmup_steps: int = Field(
        1000,
        ge=0,
        le=10**12,
        description="updates over which the learning rate rises from 0 to lr; with a budget, at most a tenth of the "
        "run; the default is at most a quarter of max_steps; of a translator with init_from it is 100",
    )
    adam_betas: tuple[Share, Share] = Field(
        (0.9, 0.98), description="Adam's beta1 and beta2: decay rates of its two running means"
    )
    adam_eps: float = Field(1e-9, gt=0, description="Adam's epsilon, which prevents division by zero")
    weight_decay: float = Field(0.0, ge=0, description="decoupled weight decay (AdamW), on weight matrices only")
    label_smoothing: float = Field(
        0.1, ge=0, lt=1, description="probability moved from the true token to all tokens evenly"
    )
    r_drop: float = Field(
        0.0,
        ge=0,
        description="R-Drop: weight of the divergence between two passes with different dropout, usually 1 to 5; "
        "doubles the work; 0: off; the default with a budget is 3 if the run makes at least 12 epochs without it "
        "and patience is not set",
    )
    r_drop_from: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of the run after which R-Drop begins; 0.3, its value where a budget chooses "
        "R-Drop: not in the first 30 %",
    )
    guided_alignment: float = Field(
        0.0,
        ge=0,
        description="weight of the loss that teaches one attention head which source token each target token "
        "translates; improves --alignments and the positions of tags in documents. A new model then begins with the "
        "translations of words, and learns faster. 0: off. The default of a new translator with a budget, or that "
        "only patience ends, is 0.1, but not with ema",
    )
    ema: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="decay per update of a running mean of the weights, which mtkit validates and saves instead of "
        "the weights; 0: off",
    )
    max_grad_norm: float = Field(1.0, gt=0, description="scale gradients with a larger norm down to this norm")
    precision: Literal["auto", "fp32", "bf16", "fp16"] = Field(
        "auto",
        description="number format of matrix products; weights stay fp32. auto: bf16 if the device has it, else "
        "fp32 (CUDA: fp16)",
    )
    compile: bool = Field(
        False,
        description="compile the layers at the start of training: faster on a GPU, slower on a CPU; needs a C++ "
        "compiler",
    )
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$",
        description="auto (a GPU if there is one), cpu, cuda, cuda:N or mps",
    )
    threads: int | None = Field(
        None, ge=1, le=1024, description="number of CPU threads; default: one for each core that mtkit may use"
    )
    shard_above_gib: float | None = Field(
        None,
        ge=0,
        description="with several processes: divide weights, gradients and optimizer state among them (FSDP2) if "
        "they take more than this many GiB; default: half of the GPU's memory; on CPUs never",
    )
    log_every: int = Field(50, ge=1, le=10**12, description="updates between records in metrics.jsonl")
    validate_every: Literal["auto"] | Annotated[int, Field(ge=1, le=10**12)] = Field(
        "auto",
        description="updates between validations; each validation writes a checkpoint. auto: 500; with a budget, "
        "about 15 validations in total, more often near the end",
    )
    validate_sentences: int | None = Field(
        None,
        ge=1,
        le=10**12,
        description="translate only this many dev sentences, evenly sampled; default: all; with a budget, as many "
        "as take 0.5 % of it, but at least 200 of each dev set",
    )
    suite: ConfigPath | None = Field(
        None, description="YAML file of behaviour checks to run at each validation; see `mtkit check`"
    )
    metric: Literal["bleu", "chrf", "accuracy", "f1", "auc", "loss"] = Field(
        "bleu",
        description="score that ranks the checkpoints, and decides between their average and the best one. If you "
        "leave it out, the best one replaces the average only if its loss is also better, or if its BLEU is higher in "
        "nine of ten resampled dev sets. translate: bleu, chrf or loss; classify: accuracy (its default), f1 (the mean "
        "over the labels), auc (for two labels) or loss",
    )
    metric_on: str | None = Field(
        None,
        description="name of the dev set whose scores rank the checkpoints, if data.dev is a list of several; default: "
        "the mean over all of them",
    )
    patience: int | None = Field(
        None,
        ge=1,
        le=10**12,
        description="stop after this many validations without improvement; default: never, or 10 if the config sets no "
        "limit on updates, epochs or time",
    )
    average_best: int = Field(
        4,
        ge=1,
        le=1000,
        description="average the weights of this many of the best checkpoints in the bundle",
    )
    average_last: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="average this many of the last checkpoints instead of the best ones; the default of "
        "a translator without init_from is 1 with a budget and schedule_free, unless you set average_best",
    )

    @model_validator(mode="after")
    def _it_ends(self) -> Self:
        ends = {key: getattr(self, key) for key in ("max_steps", "max_epochs", "max_minutes") if getattr(self, key)}
        if self.budget is not None:
            try:
                seconds_of(self.budget)
            except ValueError as error:
                raise ValueError(f"budget={error}") from None
            for key, value in ends.items():
                raise ValueError(f"budget={self.budget} and {key}={value} both limit this run: set one of them to null")
        elif not ends and self.patience is None and "patience" in self.model_fields_set:
            raise ValueError("nothing stops this run: set max_steps, max_epochs, max_minutes, budget or patience")
        elif not ends and (self.schedule == "cosine" or self.r_drop_from):
            key = "schedule=cosine" if self.schedule == "cosine" else f"r_drop_from={self.r_drop_from}"
            raise ValueError(f"{key} needs a fixed end: set max_steps, max_epochs, max_minutes or budget")
        elif not ends:
            self._give_way(patience=_PATIENCE)
        if self.schedule == "schedule_free" and self.ema:
            raise ValueError(f"schedule={self.schedule} already keeps a mean of the weights: remove ema={self.ema}")
        if self.schedule == "schedule_free" and not self.adam_betas[0]:
            raise ValueError(f"schedule={self.schedule} needs a beta1 above 0 in adam_betas, such as 0.9")
        if self.r_drop_from and self.patience is not None:
            raise ValueError(
                f"r_drop_from={self.r_drop_from} and patience={self.patience}: the run could stop before R-Drop "
                "begins; set patience to null"
            )
        if self.r_drop_from and not self.r_drop:
            raise ValueError(
                f"r_drop_from={self.r_drop_from} has no effect without r_drop: set r_drop, for example to 3"
            )
        if self.max_steps is not None:
            self._give_way(warmup_steps=min(self.warmup_steps, self.max_steps // 4))
            if self.warmup_steps >= self.max_steps:
                raise ValueError(f"warmup_steps={self.warmup_steps} is not below max_steps={self.max_steps}")
        return self

    @property
    def begins_with_lexicon(self) -> bool:
        """Whether the weights of a translator begin with the lexicon of its text (`mtkit.alignment.lexicon`)."""
        return self.guided_alignment > 0 and self.init_from is None

    @property
    def has_no_limit(self) -> bool:
        """Whether train.patience alone ends the run."""
        return not (self.max_steps or self.max_epochs or self.max_minutes or self.budget)

    @property
    def decay(self) -> Literal["schedule_free", "inverse_sqrt", "cosine", "constant"]:
        """The learning rate schedule, with auto resolved."""
        if self.schedule == "auto":
            return "inverse_sqrt" if self.budget is None else "cosine"
        return self.schedule

    @property
    def n_batch_tokens(self) -> int:
        """Return batch_tokens of a run that has begun, in which auto is resolved. Raises ValueError for auto."""
        if self.batch_tokens == "auto":
            raise ValueError("batch_tokens=auto has no value before a run begins")
        return self.batch_tokens or DEFAULT_BATCH_TOKENS
