"""The config file as classes: one per YAML section, every key with its meaning, unit and range.

Nothing here reads or writes a file. `mtkit.config.loading` turns YAML into a `Config`.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator

from mtkit.config.durations import seconds_of
from mtkit.languages import name_ending


class Section(BaseModel):
    """A group of keys: immutable, and refusing keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Show the keys that differ from their defaults."""
        defaults = {key: field.get_default(call_default_factory=True) for key, field in type(self).model_fields.items()}
        return [(key, value) for key, value in super().__repr_args__() if value != defaults.get(key or "")]


def _resolve(path: Path, info: ValidationInfo) -> Path:
    base = (info.context or {}).get("base")
    try:
        path = path.expanduser()
    except RuntimeError:
        raise ValueError(f"{path}: there is no such user; write ./{path} for a file of that name") from None
    return path if base is None else Path(os.path.normpath(Path(base, path)))


def _is_part(info: ValidationInfo) -> bool:
    """Whether keys that are left out come from the model of train.init_from, so that they do not have to fit yet."""
    return bool((info.context or {}).get("is_part"))


# A path of the config file: one that is relative is relative to the folder that holds the file (context "base").
ConfigPath = Annotated[Path, AfterValidator(_resolve)]

Share = Annotated[float, Field(ge=0, lt=1)]


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int | float) else value


# A number without a unit is text as well: the check that then fails says how durations are written.
Duration = Annotated[str, BeforeValidator(_as_text)]


def check_tag(tag: str | None) -> None:
    """Raise ValueError if this is not one tag or several, such as <2de> or <2de> <news>."""
    if tag is None:
        return
    if not re.fullmatch(r"<[^\s<>\u2581]+>( <[^\s<>\u2581]+>)*", tag):
        raise ValueError(
            f"tag={tag}: must be angle brackets around a name without spaces, such as <2de>; or several, with a space "
            "between, such as <2de> <news>"
        )
    for one in tags_of(tag):
        if re.fullmatch(r"<(pad|unk|s|/s|0x[0-9A-F]{2})>", one):
            raise ValueError(f"tag={tag}: every tokenizer has a piece {one}; choose another name")


def tags_of(tag: str | None) -> list[str]:
    """The single tags of a key that may hold none, one, or several with spaces between."""
    return (tag or "").split()


class CorpusFiles(Section):
    """Parallel text: two files of equal line count, or one file of tab-separated columns. `.gz` is read as such."""

    src: ConfigPath | None = Field(None, description="source text, one sentence a line")
    tgt: ConfigPath | None = Field(None, description="target text; line n translates line n of src")
    tsv: ConfigPath | None = Field(
        None, description="instead of src and tgt: source, tab, target on each line; further columns are ignored"
    )
    tag: str | None = Field(
        None,
        description="first token of each source sentence, such as <2de> or <news>: the language or domain wanted; "
        "several with spaces between, such as <2de> <bt>",
    )

    @model_validator(mode="after")
    def _two_files_or_one(self) -> Self:
        check_tag(self.tag)
        pair, tsv = (self.src is not None, self.tgt is not None), self.tsv is not None
        if pair == (True, True) and not tsv:
            return self
        if pair == (False, False) and tsv:
            return self
        raise ValueError("give either both src and tgt, or tsv")


class TrainCorpus(CorpusFiles):
    """Parallel text to learn from."""

    weight: float = Field(
        1.0, gt=0, description="how often an epoch sees each pair: 2 is twice, 0.5 every other epoch (another half)"
    )


class DataConfig(Section):
    """Which text is learnt from, which is watched, which is kept for the end."""

    src_lang: str = Field(
        "src", min_length=1, description="source language, such as en: for reports, and for telling sentences apart"
    )
    tgt_lang: str = Field(
        "tgt",
        min_length=1,
        description="target language, such as fr: also for BLEU, which cuts zh, ja, th and their like into characters, "
        "and for seeing lost numbers; default: the ending of dev's target file",
    )
    train: list[TrainCorpus] = Field(min_length=1, description="what the model learns from: one or several corpora")
    dev: CorpusFiles = Field(description="watched during training: early stopping, choice of checkpoints")
    test: CorpusFiles | None = Field(None, description="never looked at in training; default of `mtkit evaluate`")
    max_tokens: int = Field(
        128, ge=1, description="training pairs with a side of more tokens are left out (and counted)"
    )
    max_length_ratio: float | None = Field(
        None,
        ge=1,
        description="training pairs whose token counts, tags aside, differ by more than this factor are left out",
    )

    @property
    def source_language(self) -> str:
        """src_lang, or, where that says nothing, what dev's source file is named by: en of dev.en.gz."""
        return _language(self.src_lang, "src", self.dev.src)

    @property
    def target_language(self) -> str:
        """tgt_lang, or, where that says nothing, what dev's target file is named by: zh of dev.zh.gz."""
        return _language(self.tgt_lang, "tgt", self.dev.tgt)


def _language(name: str, unnamed: str, dev: Path | None) -> str:
    if name != unnamed or dev is None:
        return name
    return name_ending(dev) or name


class DistillConfig(Section):
    """Sequence-level knowledge distillation (Kim and Rush 2016): learn what teachers make of the training text."""

    teachers: list[ConfigPath] = Field(
        [],
        description="runs or bundles (several are an ensemble) whose translations of the source sides of data.train "
        "take the place of its target sides; none: the text is learnt from as it is",
    )
    beam_size: int = Field(5, ge=1, description="hypotheses that the teachers keep; for the rest their own config says")
    n_best: int = Field(1, ge=1, description="translations of each line to learn from, or to choose from")
    choose: Literal["all", "bleu", "chrf"] = Field(
        "all", description="learn from all n_best, or from the one most like the given target side by that metric"
    )
    tag: str | None = Field(
        None,
        description="what the teachers read before each sentence, such as <2de>; default: of the corpus' own tags "
        "those that they were trained with, or else what their own config says",
    )
    original_weight: float = Field(
        0.0, ge=0, description="the text as it was, besides: its weights are multiplied by this; 0: without it"
    )
    workers: int = Field(1, ge=1, description="processes that translate side by side; changes the speed only")

    @model_validator(mode="after")
    def _the_beam_holds_them(self) -> Self:
        check_tag(self.tag)
        if self.n_best > self.beam_size:
            raise ValueError(f"n_best={self.n_best} is more than beam_size={self.beam_size} finds")
        if self.choose != "all" and self.n_best == 1:
            raise ValueError(f"choose={self.choose} has no choice with n_best=1: raise n_best, say to 5")
        return self


class TokenizerConfig(Section):
    """One side's SentencePiece model."""

    type: Literal["unigram", "bpe", "char"] = Field("unigram", description="how text is cut into pieces")
    vocab_size: int = Field(
        8000, ge=264, description="pieces, the four special ones and the 256 bytes included; lowered if text is short"
    )
    character_coverage: float = Field(
        0.9995,
        ge=0.98,
        le=1,
        description="share of the text's characters that get a piece of their own; others are bytes",
    )
    byte_fallback: bool = Field(True, description="spell characters without a piece as UTF-8 bytes: nothing is unknown")
    normalization: Literal["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"] = Field(
        "nmt_nfkc", description="clean-up before cutting; _cf also lower-cases, identity keeps every character"
    )
    max_sentences: int = Field(
        1_000_000, ge=1, description="lines the pieces are learnt from; an even sample if the text has more"
    )
    sampling: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="subword regularisation: training text is cut anew each epoch, at random; bpe: the probability of "
        "leaving out a merge (BPE-dropout); unigram: alpha, the smaller the more random; 0: off. With "
        "tokenizer.shared, src's serves both",
    )

    @model_validator(mode="after")
    def _sampling_has_a_choice(self) -> Self:
        if self.sampling and self.type == "char":
            raise ValueError(
                f"sampling={self.sampling} needs several ways to cut a word, and type=char has one: set type to bpe or "
                "unigram, or sampling to 0"
            )
        return self


class TokenizersConfig(Section):
    """Source and target tokenizers, or a single one for both."""

    src: TokenizerConfig = Field(TokenizerConfig(), description="the source side's")
    tgt: TokenizerConfig = Field(TokenizerConfig(), description="the target side's")
    shared: bool = Field(False, description="one model, learnt on both sides with the settings of src, serves both")


class ModelConfig(Section):
    """The encoder-decoder Transformer (Vaswani et al. 2017) and its choices."""

    d_model: int = Field(256, ge=8, description="width of every residual stream")
    d_ff: int = Field(1024, ge=8, description="width inside the feed-forward layers")
    n_heads: int = Field(4, ge=1, description="heads per attention; must divide d_model")
    n_encoder_layers: int = Field(3, ge=1, description="layers of the encoder")
    n_decoder_layers: int = Field(3, ge=1, description="layers of the decoder")
    activation: Literal["relu", "gelu", "silu", "swiglu"] = Field(
        "relu", description="non-linearity of the feed-forward; silu is also called swish"
    )
    decoder: Literal["attention", "ssru"] = Field(
        "attention",
        description="how a target position sees those before it: self-attention, or a recurrent unit (fast to decode)",
    )
    norm: Literal["layernorm", "rmsnorm"] = Field("layernorm", description="kind of normalisation")
    norm_position: Literal["pre", "post"] = Field(
        "pre", description="before each sublayer (stable), or after it (as in the paper; needs a longer warm-up)"
    )
    positions: Literal["sinusoidal", "marian", "learned", "rotary"] = Field(
        "sinusoidal", description="how order is told; marian: sinusoids with the rates of that toolkit, for its models"
    )
    max_positions: int = Field(1024, ge=8, description="longest sentence in tokens that learned positions can tell")
    embedding_dropout: float = Field(0.1, ge=0, lt=1, description="dropout after embeddings and positions")
    residual_dropout: float = Field(0.1, ge=0, lt=1, description="dropout of each sublayer's output")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="dropout of attention weights")
    ffn_dropout: float = Field(0.0, ge=0, lt=1, description="dropout inside the feed-forward, after the activation")
    word_dropout: float = Field(
        0.0, ge=0, lt=1, description="probability that a token's embedding is left out in training, on either side"
    )
    tie: Literal["none", "decoder", "all"] = Field(
        "decoder",
        description="shared matrices: decoder input and output; or encoder input too (needs tokenizer.shared)",
    )

    @model_validator(mode="after")
    def _heads_divide_width(self, info: ValidationInfo) -> Self:
        if _is_part(info):
            return self
        if self.d_model % self.n_heads:
            raise ValueError(f"d_model={self.d_model} does not split into {self.n_heads} heads")
        if self.positions == "rotary" and (self.d_model // self.n_heads) % 2:
            raise ValueError(f"rotary positions need an even head width, not {self.d_model // self.n_heads}")
        if self.positions in ("sinusoidal", "marian") and self.d_model % 2:
            raise ValueError(f"sinusoidal positions need an even d_model, not {self.d_model}")
        return self


class TrainConfig(Section):
    """How the model learns, when it is looked at, and when it stops."""

    init_from: ConfigPath | None = Field(
        None,
        description="run or bundle whose weights and tokenizers to start from; keys of model and tokenizer that are "
        "left out are then taken from it",
    )
    freeze: list[str] = Field(
        [], description="weights whose names begin like this are not trained, such as encoder or tgt_embedding"
    )
    batch_tokens: Literal["auto"] | Annotated[int, Field(ge=16)] = Field(
        4096,
        description="size of a batch: sentences times longest sentence, on the longer side, padding counted; auto: "
        "what this machine does best with, tried when the run begins and kept in its config.yaml",
    )
    accumulate: int = Field(1, ge=1, description="batches per update; the gradient is that of one large batch")
    max_steps: int | None = Field(None, ge=1, description="stop after this many updates")
    max_epochs: int | None = Field(None, ge=1, description="stop after this many passes over the training data")
    max_minutes: float | None = Field(
        None, gt=0, description="stop after this many minutes of training, validation included, all starts added up"
    )
    budget: Duration | None = Field(
        None,
        description="wall time for the whole command, such as 90s, 30m, 2h or 1h30m: training ends early enough to "
        "validate, average and write the model within it; instead of the three limits above",
    )
    lr: float = Field(1e-3, gt=0, description="highest learning rate, reached at the end of the warm-up")
    schedule: Literal["auto", "inverse_sqrt", "cosine", "constant"] = Field(
        "auto",
        description="after warm-up: lr x sqrt(warmup_steps/step); half a cosine down to lr x lr_floor over the run "
        "(its length is whichever limit, steps, epochs, minutes or budget, is nearest); or lr kept. auto: cosine with "
        "a budget, else inverse_sqrt",
    )
    lr_floor: float = Field(0.0, ge=0, le=1, description="where the cosine ends, as a share of lr")
    warmup_steps: int = Field(
        1000,
        ge=0,
        description="updates in which the learning rate rises from 0 to lr; with a budget, at most a tenth of the run",
    )
    adam_betas: tuple[Share, Share] = Field((0.9, 0.98), description="decay of Adam's two running means")
    adam_eps: float = Field(1e-9, gt=0, description="Adam's guard against division by zero")
    weight_decay: float = Field(0.0, ge=0, description="decoupled (AdamW); on weight matrices only")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="probability taken from the true token, spread evenly")
    r_drop: float = Field(
        0.0,
        ge=0,
        description="R-Drop: weight of the distance between two passes with different dropout, 1 to 5 are usual; "
        "doubles the work; 0: off",
    )
    r_drop_from: float = Field(
        0.0, ge=0, lt=1, description="share of the run after which R-Drop begins; 0.3: the first 30 % go without"
    )
    ema: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="decay of a running mean of the weights, which is what is validated and kept; 0: off",
    )
    max_grad_norm: float = Field(1.0, gt=0, description="a longer gradient is scaled down to this length")
    precision: Literal["auto", "fp32", "bf16", "fp16"] = Field(
        "auto",
        description="of matrix products; weights stay fp32. auto: bf16 where the device has it, else fp32 (CUDA: fp16)",
    )
    compile: bool = Field(
        False,
        description="compile the layers when training begins: faster on a GPU, slower on a CPU; needs a C++ compiler",
    )
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$",
        description="auto (a GPU if there is one), cpu, cuda, cuda:N or mps",
    )
    threads: int | None = Field(None, ge=1, description="CPU threads; by default one per core")
    shard_above_gib: float | None = Field(
        None,
        ge=0,
        description="several processes: spread weights, gradients and optimizer over them (FSDP2) if these take more "
        "GiB than this; default: half of the GPU's memory, and on CPUs never",
    )
    log_every: int = Field(50, ge=1, description="updates between lines in metrics.jsonl")
    validate_every: Literal["auto"] | Annotated[int, Field(ge=1)] = Field(
        "auto",
        description="updates between validations; each also writes a checkpoint. auto: with a budget, some 15 times in "
        "all and more often near the end; else 500",
    )
    validate_sentences: int | None = Field(
        None, ge=1, description="translate only this many dev sentences, evenly chosen; default: all"
    )
    suite: ConfigPath | None = Field(
        None, description="behaviour checks made at each validation, besides the scores; see `mtkit check`"
    )
    metric: Literal["bleu", "chrf", "loss"] = Field(
        "bleu",
        description="what decides which checkpoint is the best; it replaces the mean of several only if its loss is "
        "better, too",
    )
    patience: int | None = Field(None, ge=1, description="stop after this many validations without improvement")
    average_best: int = Field(4, ge=1, description="the bundle averages the weights of this many best checkpoints")
    average_last: int | None = Field(
        None, ge=1, description="average this many last validated checkpoints instead of the best ones"
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
                raise ValueError(f"budget={self.budget} and {key}={value} would both end this run: set one to null")
        elif not ends and self.patience is None:
            raise ValueError("nothing stops this run: set max_steps, max_epochs, max_minutes, budget or patience")
        elif not ends and self.schedule == "cosine":
            raise ValueError("schedule=cosine needs to know the end: set max_steps, max_epochs, max_minutes or budget")
        elif not ends and self.r_drop_from:
            raise ValueError(
                f"r_drop_from={self.r_drop_from} needs to know the end: "
                "set max_steps, max_epochs, max_minutes or budget"
            )
        if self.r_drop_from and self.patience is not None:
            raise ValueError(
                f"r_drop_from={self.r_drop_from} and patience={self.patience}: the run could end before R-Drop begins; "
                "set patience to null"
            )
        if self.r_drop_from and not self.r_drop:
            raise ValueError(f"r_drop_from={self.r_drop_from} does nothing without r_drop: set r_drop, 3 for example")
        if self.max_steps is not None and self.warmup_steps >= self.max_steps:
            raise ValueError(f"warmup_steps={self.warmup_steps} is not below max_steps={self.max_steps}")
        return self

    @property
    def decay(self) -> Literal["inverse_sqrt", "cosine", "constant"]:
        """schedule, with what auto stands for."""
        if self.schedule == "auto":
            return "inverse_sqrt" if self.budget is None else "cosine"
        return self.schedule

    @property
    def n_batch_tokens(self) -> int:
        """batch_tokens as a number: the way to it wherever there is a run, whose number is known."""
        if self.batch_tokens == "auto":
            raise ValueError("batch_tokens=auto: the number is chosen when a run begins")
        return self.batch_tokens


class DecodeConfig(Section):
    """How a trained model translates; `mtkit translate --set decode.KEY=VALUE` changes any of it for one call."""

    beam_size: int = Field(4, ge=1, description="hypotheses kept; 1 is greedy")
    length_normalization: Literal["gnmt", "average", "none"] = Field(
        "gnmt", description="what a score is divided by: ((5 + n) / 6)^length_penalty (Wu et al. 2016), n, or nothing"
    )
    length_penalty: float = Field(0.6, ge=0, description="alpha of gnmt; 0: none")
    coverage_penalty: float = Field(
        0.0, ge=0, description="beta: what source tokens that got little attention cost (Wu et al. 2016); 0: nothing"
    )
    max_len_factor: float = Field(2.0, gt=0, description="at most factor x source tokens + constant target tokens")
    max_len_constant: int = Field(20, ge=0, description="see max_len_factor")
    max_len: int | None = Field(None, ge=1, description="at most this many target tokens, whatever the source's length")
    min_len_factor: float = Field(0.0, ge=0, description="at least factor x source tokens target tokens")
    min_len: int = Field(0, ge=0, description="at least this many target tokens, unless the upper limit is lower")
    no_repeat_ngram: int = Field(0, ge=0, description="no n-gram of so many target tokens comes twice; 0: any may")
    repetition_penalty: float = Field(
        1.0, ge=1, description="log-probabilities of tokens already used are multiplied by this; 1: none"
    )
    beam_groups: int = Field(
        1, ge=1, description="diverse beam search (Vijayakumar et al. 2018): groups that must differ; divides beam_size"
    )
    diversity_penalty: float = Field(
        0.5, ge=0, description="nats that a token costs for each hypothesis of an earlier group that has just chosen it"
    )
    sampling: bool = Field(False, description="draw tokens at random instead of searching; n-best: so many draws")
    temperature: float = Field(1.0, gt=0, description="sampling: log-probabilities are divided by this first")
    top_k: int = Field(0, ge=0, description="sampling: only among the k likeliest tokens; 0: all")
    top_p: float = Field(1.0, gt=0, le=1, description="sampling: only among the likeliest that hold this probability")
    epsilon: float = Field(0.0, ge=0, lt=1, description="sampling: only among tokens of at least this probability")
    seed: int = Field(1, ge=0, lt=2**32, description="sampling: fixes the draws of each sentence, whatever the batch")
    mbr_samples: int = Field(
        0,
        ge=0,
        description="so many samples a line, with epsilon=0.02 unless limited otherwise; the one most like the others "
        "(chrF) is taken; 0: off",
    )
    terminology: ConfigPath | None = Field(
        None, description="TSV with the columns source, target, forbidden: phrases that must, or must not, appear"
    )
    tag: str | None = Field(
        None, description="first token of each text to be translated: of the tags that the model was trained with"
    )
    on_suspect: Literal["retry", "warn", "mark", "off"] = Field(
        "retry",
        description="translations that look broken (empty, looping, far too short or long, copied, a number or URL "
        "lost): translate again with another setting and warn; only warn; mark them in the output; or do not look",
    )
    engine: Literal["auto", "native", "ctranslate2"] = Field(
        "auto", description="auto: CTranslate2 where the bundle has its model and all options are known to it"
    )
    precision: Literal["fp32", "bf16", "int8"] = Field(
        "fp32",
        description="of the native engine's matrix products: fp32 is exact, int8 the fastest on a CPU with VNNI or "
        "AMX; what a device lacks is computed in the next better one, with a warning",
    )
    threads: int | None = Field(None, ge=1, description="CPU threads, however many training had; default: one per core")
    workers: int = Field(
        1, ge=1, description="processes that translate files side by side, each with its share of the threads"
    )
    shortlist: bool = Field(
        False, description="choose only among target tokens that the bundle's lexicon knows for the source; faster"
    )
    batch_sentences: int = Field(64, ge=1, description="most sentences translated together")
    batch_tokens: int = Field(
        4096, ge=1, description="most source tokens translated together, padding counted: bounds the memory"
    )
    max_src_tokens: int = Field(
        200, ge=8, description="longer input is split at sentence ends or clauses and rejoined, never cut"
    )

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        check_tag(self.tag)
        if self.beam_size % self.beam_groups:
            raise ValueError(f"beam_groups={self.beam_groups} does not divide beam_size={self.beam_size}")
        if self.sampling and self.mbr_samples:
            raise ValueError("mbr_samples draws its own samples: leave sampling out")
        if self.terminology and (self.sampling or self.mbr_samples):
            raise ValueError("terminology is kept to by a search, not by draws: leave sampling and mbr_samples out")
        if self.terminology and (self.coverage_penalty or self.beam_groups > 1):
            raise ValueError(
                "the search that keeps to terminology knows no coverage_penalty, no beam_groups: leave them out"
            )
        return self


class Config(Section):
    """Everything that shapes a run."""

    run_dir: ConfigPath | None = Field(
        None, description="folder of the run; default: runs/NAME in the current folder, NAME being this file's name"
    )
    seed: int = Field(1, ge=0, lt=2**32, description="fixes initial weights, order of data and dropout")
    data: DataConfig = Field(description="parallel text to learn from and to be measured on")
    distill: DistillConfig = Field(DistillConfig(), description="what teachers do to the text before it is learnt from")
    tokenizer: TokenizersConfig = Field(TokenizersConfig(), description="how text becomes token ids")
    model: ModelConfig = Field(ModelConfig(), description="the shape of the network")
    train: TrainConfig = Field(description="how the model learns, and when it stops")
    decode: DecodeConfig = Field(DecodeConfig(), description="how the model translates")

    @model_validator(mode="after")
    def _sections_fit(self, info: ValidationInfo) -> Self:
        if _is_part(info):
            return self
        if self.model.tie == "all" and not self.tokenizer.shared:
            raise ValueError("model.tie=all shares one embedding between both sides: set tokenizer.shared: true")
        if self.model.positions == "learned" and self.data.max_tokens + 1 > self.model.max_positions:
            raise ValueError(
                f"data.max_tokens={self.data.max_tokens} (and <end>) does not fit "
                f"model.max_positions={self.model.max_positions}"
            )
        return self
