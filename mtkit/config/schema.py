"""Define the config file: a class per YAML section, each key with its meaning, unit and range.

Nothing here reads or writes files; `mtkit.config.loading` turns YAML into a `Config`.
"""

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from mtkit.config.cleaning import CleanConfig
from mtkit.config.durations import seconds_of
from mtkit.config.section import ConfigPath, Section
from mtkit.languages import language_in_name, languages_in_name


def _is_part(info: ValidationInfo) -> bool:
    """Return whether train.init_from will provide missing keys, so that sections cannot be checked yet."""
    return bool((info.context or {}).get("is_part"))


Share = Annotated[float, Field(ge=0, lt=1)]

DEFAULT_BATCH_TOKENS = 4096


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int | float) else value


# Accepts a number without unit as text, so that the check of the text can explain how to write durations.
Duration = Annotated[str, BeforeValidator(_as_text)]


def check_tag(tag: str | None) -> None:
    """Raise ValueError if this is not one tag or several, such as <2de> or <2de> <news>."""
    if tag is None:
        return
    if not re.fullmatch(r"<[^\s<>\u2581]+>( <[^\s<>\u2581]+>)*", tag):
        raise ValueError(
            f"tag={tag}: must be a name without spaces in angle brackets, such as <2de>; several are separated by "
            "spaces, such as <2de> <news>"
        )
    for single in tags_of(tag):
        if re.fullmatch(r"<(pad|unk|s|/s|0x[0-9A-F]{2})>", single):
            raise ValueError(f"tag={tag}: every tokenizer has a special piece {single}; choose another name")


def tags_of(tag: str | None) -> list[str]:
    """Return the tags in a value with none, one, or several separated by spaces."""
    return (tag or "").split()


class CorpusFiles(Section):
    """Parallel text: two files with equal numbers of lines, or one file with both sides; `.gz`, `.xz`, `.zst`, too."""

    src: ConfigPath | None = Field(None, description="source text, one sentence per line")
    tgt: ConfigPath | None = Field(None, description="target text; line n translates line n of src")
    tsv: ConfigPath | None = Field(
        None,
        description="instead of src and tgt: one file with source, tab, target on each line; more columns are ignored",
    )
    file: ConfigPath | None = Field(
        None,
        description="instead of src and tgt: one file with both sides, whose name tells its format: .tsv, .csv, "
        ".jsonl, .tmx, .xlf, .xliff, .po, or .zip (as from OPUS)",
    )
    langs: tuple[str, str] | None = Field(
        None,
        description="source and target language in `file`, such as [en, de], if its format tells languages; default: "
        "data.src_lang and data.tgt_lang, else the file's own two",
    )
    tag: str | None = Field(
        None,
        description="token put before each source sentence, such as <2de> or <news>: names the target language or "
        "the domain; several tags are separated by spaces, such as <2de> <bt>",
    )

    @model_validator(mode="after")
    def _two_files_or_one(self) -> Self:
        check_tag(self.tag)
        given = tuple(key for key in ("src", "tgt", "tsv", "file") if getattr(self, key) is not None)
        if given not in (("src", "tgt"), ("tsv",), ("file",)):
            raise ValueError("must have either both src and tgt, or tsv, or file")
        if self.langs and not self.file:
            raise ValueError("langs needs file: only formats such as TMX tell their languages")
        if self.langs and self.langs[0] == self.langs[1]:
            raise ValueError(f"langs: source and target are both {self.langs[0]}")
        return self

    @property
    def paths(self) -> list[Path]:
        """The files, the source side's first."""
        return [path for path in (self.src, self.tgt, self.tsv, self.file) if path is not None]


class TrainCorpus(CorpusFiles):
    """Parallel text to train on."""

    weight: float = Field(
        1.0,
        gt=0,
        le=1000,
        description="how often an epoch uses each pair: 2 is twice; 0.5 uses one half of the pairs, the next epoch "
        "the other",
    )


class DataConfig(Section):
    """The text for training, validation and test."""

    src_lang: str = Field(
        "src",
        min_length=1,
        description="source language code, such as en: for reports and for sorting test sentences (negation, names); "
        "default: the ending of dev's source file, or else of the training files (en for dev.en.gz)",
    )
    tgt_lang: str = Field(
        "tgt",
        min_length=1,
        description="target language code, such as fr: for reports, for BLEU (which splits zh, ja, th and similar "
        "languages into characters) and for finding lost numbers; default: as for src_lang",
    )
    train: list[TrainCorpus] = Field(min_length=1, description="training text: one or several corpora")
    dev: CorpusFiles = Field(description="validation text: decides when to stop early and which checkpoints to keep")
    test: CorpusFiles | None = Field(
        None, description="test text: never used in training; the default of `mtkit evaluate`"
    )
    max_tokens: int = Field(
        128,
        ge=1,
        le=100_000,
        description="training pairs with more tokens than this on a side are left out (and counted)",
    )
    max_length_ratio: float | None = Field(
        None,
        ge=1,
        description="training pairs are left out if one side has more than this many times the tokens of the other; "
        "tags do not count",
    )

    @model_validator(mode="after")
    def _languages_from_names(self) -> Self:
        """Set languages that are not named to the codes in the files' names."""
        for side in ("src", "tgt"):
            if getattr(self, f"{side}_lang") == side:
                in_dev, *in_train = (_language(files, side) for files in (self.dev, *self.train))
                code = in_dev or (in_train[0] if len(set(in_train)) == 1 else None)
                object.__setattr__(self, f"{side}_lang", code or side)  # the section is not in use yet
        if self.src_lang not in ("src", self.tgt_lang) and self.tgt_lang != "tgt":
            for corpus in filter(None, (*self.train, self.dev, self.test)):
                if corpus.file and not corpus.langs:
                    corpus.__dict__["langs"] = self.src_lang, self.tgt_lang  # likewise
        return self


def _language(files: CorpusFiles, side: Literal["src", "tgt"]) -> str | None:
    """Return the language of a side in the files' names."""
    if files.file:
        return (languages_in_name(files.file) or (None, None))[side == "tgt"]
    path = files.src if side == "src" else files.tgt
    return language_in_name(path) if path else None


class DistillConfig(Section):
    """Sequence-level knowledge distillation (Kim and Rush 2016): train on the teachers' translations."""

    teachers: list[ConfigPath] = Field(
        [],
        description="runs or bundles (several form an ensemble) that translate the source sides of data.train; "
        "their translations replace the target sides; none: no distillation",
    )
    beam_size: int = Field(
        5, ge=1, le=1000, description="beam size of the teachers; their own configs give all other decode settings"
    )
    n_best: int = Field(1, ge=1, le=1000, description="translations of each line to train on, or to choose from")
    choose: Literal["all", "bleu", "chrf"] = Field(
        "all",
        description="train on all n_best translations, or on the one closest to the original target side by this "
        "metric",
    )
    tag: str | None = Field(
        None,
        description="tag before each sentence for the teachers, such as <2de>; default: those of the corpus' tags "
        "that the teachers know, or else the tag in their own config",
    )
    original_weight: float = Field(
        0.0,
        ge=0,
        le=1000,
        description="also train on the original text, its weights multiplied by this; 0: translations only",
    )
    workers: int = Field(1, ge=1, le=1024, description="processes that translate in parallel; changes only the speed")

    @model_validator(mode="after")
    def _the_beam_holds_them(self) -> Self:
        check_tag(self.tag)
        self._give_way(beam_size=max(self.beam_size, self.n_best))
        if self.n_best > self.beam_size:
            raise ValueError(f"n_best={self.n_best} is more than beam_size={self.beam_size} returns: raise beam_size")
        if self.choose != "all" and self.n_best == 1:
            raise ValueError(
                f"choose={self.choose} needs several translations, but n_best=1: raise n_best, for example to 5"
            )
        return self


class TokenizerConfig(Section):
    """One side's SentencePiece model."""

    type: Literal["unigram", "bpe", "char"] = Field("unigram", description="algorithm that splits text into pieces")
    vocab_size: int = Field(
        8000,
        ge=264,
        le=1_000_000,
        description="number of pieces, including 4 special ones and 256 bytes; lowered if the text is too short for it",
    )
    character_coverage: float = Field(
        0.9995,
        ge=0.98,
        le=1,
        description="share of the text's characters that get their own pieces; the others become bytes",
    )
    byte_fallback: bool = Field(
        True, description="split characters without a piece into UTF-8 bytes, so that nothing is unknown"
    )
    normalization: Literal["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"] = Field(
        "nmt_nfkc",
        description="SentencePiece rule for cleaning text; _cf also lower-cases it, identity changes nothing",
    )
    max_sentences: int = Field(
        1_000_000, ge=1, le=10**9, description="lines to train the tokenizer on; evenly sampled if the text has more"
    )
    sampling: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="subword regularisation: split training text at random in each epoch. bpe: probability of "
        "skipping a merge (BPE-dropout); unigram: alpha, smaller is more random; 0: off. With tokenizer.shared, "
        "src's value applies to both sides",
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
    """The source and target tokenizers, or one for both."""

    src: TokenizerConfig = Field(TokenizerConfig(), description="tokenizer of the source side")
    tgt: TokenizerConfig = Field(TokenizerConfig(), description="tokenizer of the target side")
    shared: bool = Field(
        False, description="use one tokenizer for both sides, trained on both with the settings of src"
    )


class ModelConfig(Section):
    """The encoder-decoder Transformer (Vaswani et al. 2017) and its variants."""

    d_model: int = Field(256, ge=8, le=65_536, description="width of embeddings and of the residual stream")
    d_ff: int = Field(1024, ge=8, le=1_048_576, description="inner width of the feed-forward layers")
    n_heads: int = Field(4, ge=1, le=4096, description="attention heads per layer; must divide d_model")
    n_encoder_layers: int = Field(3, ge=1, le=256, description="layers of the encoder")
    n_decoder_layers: int = Field(3, ge=1, le=256, description="layers of the decoder")
    activation: Literal["relu", "gelu", "silu", "swiglu"] = Field(
        "relu", description="activation function of the feed-forward layers; silu is also called swish"
    )
    decoder: Literal["attention", "ssru"] = Field(
        "attention",
        description="how the decoder uses earlier target positions: self-attention, or a recurrent unit (SSRU), "
        "which decodes faster",
    )
    norm: Literal["layernorm", "rmsnorm"] = Field("layernorm", description="type of layer normalisation")
    norm_position: Literal["pre", "post"] = Field(
        "pre",
        description="normalise before each sublayer (stable), or after it (as in the paper; needs a longer warm-up)",
    )
    positions: Literal["sinusoidal", "marian", "learned", "rotary"] = Field(
        "sinusoidal",
        description="position encoding; marian: sinusoids at Marian's rates and a decoder that starts from zeros, for "
        "models imported from Marian or to be exported to it",
    )
    max_positions: int = Field(
        1024,
        ge=8,
        le=1_000_000,
        description="learned positions: number of positions, and so the longest sentence in tokens, including <end>",
    )
    embedding_dropout: float = Field(0.1, ge=0, lt=1, description="dropout on the sum of embeddings and positions")
    residual_dropout: float = Field(0.1, ge=0, lt=1, description="dropout on the output of each sublayer")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="dropout on attention weights")
    ffn_dropout: float = Field(0.0, ge=0, lt=1, description="dropout in the feed-forward layers, after the activation")
    word_dropout: float = Field(
        0.0, ge=0, lt=1, description="probability of dropping a token's whole embedding in training, on both sides"
    )
    tie: Literal["none", "decoder", "all"] = Field(
        "decoder",
        description="share one matrix between decoder embedding and output (decoder), and encoder embedding, too "
        "(all; needs tokenizer.shared)",
    )

    @model_validator(mode="after")
    def _heads_divide_width(self, info: ValidationInfo) -> Self:
        if _is_part(info):
            return self
        if self.d_model % self.n_heads:
            raise ValueError(f"d_model={self.d_model} is not divisible by n_heads={self.n_heads}")
        if self.positions == "rotary" and (self.d_model // self.n_heads) % 2:
            raise ValueError(f"positions=rotary needs an even d_model / n_heads, not {self.d_model // self.n_heads}")
        if self.positions in ("sinusoidal", "marian") and self.d_model % 2:
            raise ValueError(f"positions={self.positions} needs an even d_model, not {self.d_model}")
        return self


class TrainConfig(Section):
    """How to train: batches, optimizer, validation, and when to stop."""

    init_from: ConfigPath | None = Field(
        None,
        description="run or bundle to start from, with its weights and tokenizers; it also provides all keys of "
        "model and tokenizer that this file does not set",
    )
    freeze: list[str] = Field(
        [], description="do not train weights with names that begin with one of these, such as encoder or tgt_embedding"
    )
    batch_tokens: Literal["auto"] | Annotated[int, Field(ge=16, le=10_000_000)] | None = Field(
        None,
        description="most tokens in a batch: sentences times the longest sentence of either side, padding included; "
        "auto: the fastest size on this machine. Default: 4096; with a budget 1024 if 2048 or 4096 would leave it "
        "fewer than 8,000 updates. Both are measured at the start of the run and recorded in its config.yaml",
    )
    accumulate: int = Field(
        1, ge=1, le=100_000, description="batches per update; gives the gradient of one large batch"
    )
    max_steps: int | None = Field(None, ge=1, le=10**12, description="stop after this many updates")
    max_epochs: int | None = Field(
        None, ge=1, le=10**12, description="stop after this many passes over the training text"
    )
    max_minutes: float | None = Field(
        None,
        gt=0,
        le=10**9,
        description="stop after this many minutes of training and validation, added over all restarts of the run",
    )
    budget: Duration | None = Field(
        None,
        description="wall time of the whole command, such as 90s, 30m, 2h or 1h30m: training ends early enough to "
        "validate, average and write the model in time; replaces max_steps, max_epochs and max_minutes",
    )
    lr: float = Field(
        1e-3,
        gt=0,
        description="peak learning rate, reached at the end of the warm-up; the default is 2e-3 with a budget that "
        "leaves fewer than 2,000 updates, for d_model up to 256",
    )
    schedule: Literal["auto", "inverse_sqrt", "cosine", "constant"] = Field(
        "auto",
        description="learning rate after the warm-up. inverse_sqrt: lr x sqrt(warmup_steps / step); cosine: half a "
        "cosine from lr to lr x lr_floor at the end of the run (by whichever limit comes first); constant: lr. "
        "auto: cosine with a budget, else inverse_sqrt",
    )
    lr_floor: float = Field(0.0, ge=0, le=1, description="cosine: final learning rate as a share of lr")
    warmup_steps: int = Field(
        1000,
        ge=0,
        le=10**12,
        description="updates over which the learning rate rises from 0 to lr; with a budget, at most a tenth of the "
        "run; the default is at most a quarter of max_steps",
    )
    adam_betas: tuple[Share, Share] = Field(
        (0.9, 0.98), description="Adam's beta1 and beta2: decay of its two running means"
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
        "doubles the work; 0: off",
    )
    r_drop_from: float = Field(
        0.0, ge=0, lt=1, description="share of the run after which R-Drop begins; 0.3: none in the first 30 %"
    )
    ema: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="decay per update of a running mean of the weights, which is validated and saved; 0: off",
    )
    max_grad_norm: float = Field(1.0, gt=0, description="gradients with a larger norm are scaled down to this norm")
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
        None, ge=1, le=1024, description="CPU threads; default: one per core that mtkit may use"
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
        description="translate only this many dev sentences, evenly sampled; default: all; with a budget as many as "
        "a hundredth of it allows, but at least 200",
    )
    suite: ConfigPath | None = Field(
        None, description="YAML file of behaviour checks to run at each validation; see `mtkit check`"
    )
    metric: Literal["bleu", "chrf", "loss"] = Field(
        "bleu",
        description="score that ranks the checkpoints; the best single one replaces the average only if its loss is "
        "better, too",
    )
    patience: int | None = Field(
        None, ge=1, le=10**12, description="stop after this many validations without improvement"
    )
    average_best: int = Field(
        4, ge=1, le=1000, description="average the weights of this many best checkpoints in the bundle"
    )
    average_last: int | None = Field(
        None, ge=1, le=1000, description="average this many of the last checkpoints instead of the best ones"
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
        elif not ends and self.patience is None:
            raise ValueError("nothing stops this run: set max_steps, max_epochs, max_minutes, budget or patience")
        elif not ends and (self.schedule == "cosine" or self.r_drop_from):
            key = "schedule=cosine" if self.schedule == "cosine" else f"r_drop_from={self.r_drop_from}"
            raise ValueError(f"{key} needs a fixed end: set max_steps, max_epochs, max_minutes or budget")
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
    def decay(self) -> Literal["inverse_sqrt", "cosine", "constant"]:
        """schedule, with auto resolved."""
        if self.schedule == "auto":
            return "inverse_sqrt" if self.budget is None else "cosine"
        return self.schedule

    @property
    def n_batch_tokens(self) -> int:
        """batch_tokens of a run that has begun, where auto is resolved. Raises ValueError for auto."""
        if self.batch_tokens == "auto":
            raise ValueError("batch_tokens=auto is only resolved when a run begins")
        return self.batch_tokens or DEFAULT_BATCH_TOKENS


class DecodeConfig(Section):
    """How a trained model translates; `mtkit translate --set decode.KEY=VALUE` changes a key for one call."""

    beam_size: int = Field(4, ge=1, le=1000, description="hypotheses kept per step; 1 is greedy search")
    length_normalization: Literal["gnmt", "average", "none"] = Field(
        "gnmt",
        description="divisor of a log-probability of n tokens. gnmt: ((5 + n) / 6)^length_penalty (Wu et al. 2016); "
        "average: n; none: 1",
    )
    length_penalty: float = Field(0.6, ge=0, le=100, description="gnmt: its exponent alpha; 0: no normalisation")
    coverage_penalty: float = Field(
        0.0, ge=0, le=1000, description="beta: penalty for source tokens with little attention (Wu et al. 2016); 0: off"
    )
    max_len_factor: float = Field(
        2.0,
        gt=0,
        le=100,
        description="longest translation: max_len_factor x source tokens + max_len_constant, in tokens",
    )
    max_len_constant: int = Field(20, ge=0, le=10_000, description="see max_len_factor; in tokens")
    max_len: int | None = Field(
        None, ge=1, le=100_000, description="longest translation in tokens, whatever the length of the source"
    )
    min_len_factor: float = Field(
        0.0, ge=0, le=100, description="shortest translation: min_len_factor x source tokens, in tokens"
    )
    min_len: int = Field(
        0, ge=0, le=100_000, description="shortest translation in tokens, unless the upper limit is lower"
    )
    no_repeat_ngram: int = Field(
        0, ge=0, le=1000, description="forbid a repeated n-gram of this many target tokens; 0: off"
    )
    repetition_penalty: float = Field(
        1.0, ge=1, le=1000, description="factor on the log-probabilities of tokens already in the translation; 1: off"
    )
    beam_groups: int = Field(
        1,
        ge=1,
        le=1000,
        description="diverse beam search (Vijayakumar et al. 2018): number of groups; must divide beam_size",
    )
    diversity_penalty: float = Field(
        0.5,
        ge=0,
        le=1000,
        description="penalty in nats on a token for each hypothesis of earlier groups with the same token at this step",
    )
    sampling: bool = Field(
        False, description="draw tokens at random instead of searching; for n-best lists, draw n times"
    )
    temperature: float = Field(
        1.0, gt=0, le=1000, description="sampling: divisor of the log-probabilities; above 1 is more random"
    )
    top_k: int = Field(0, ge=0, le=10**9, description="sampling: draw among the k likeliest tokens; 0: all")
    top_p: float = Field(
        1.0, gt=0, le=1, description="sampling: draw among the likeliest tokens with this total probability"
    )
    epsilon: float = Field(0.0, ge=0, lt=1, description="sampling: draw among tokens of at least this probability")
    seed: int = Field(
        1, ge=0, lt=2**32, description="sampling: random seed; a sentence's draws do not depend on its batch"
    )
    mbr_samples: int = Field(
        0,
        ge=0,
        le=1000,
        description="minimum Bayes risk decoding: draw this many samples a line (with epsilon=0.02 unless top_k, "
        "top_p or epsilon limits them) and return the one closest to the others (chrF); 0: off",
    )
    terminology: ConfigPath | None = Field(
        None, description="TSV with the columns source, target, forbidden: phrases that must or must not appear"
    )
    tag: str | None = Field(
        None, description="tag before each text, such as <2de>: one or several that the model was trained with"
    )
    on_suspect: Literal["retry", "warn", "mark", "off"] = Field(
        "retry",
        description="translations that look wrong (empty, looping, far too short or long, copied, or without a "
        "number or URL of the source): translate again with other settings and warn (retry), only warn, mark them "
        "in the output, or do not check (off)",
    )
    engine: Literal["auto", "native", "ctranslate2"] = Field(
        "auto", description="auto: CTranslate2 if the bundle holds its model and it supports all options, else native"
    )
    precision: Literal["fp32", "bf16", "int8"] = Field(
        "fp32",
        description="number format of the native engine's matrix products: fp32 is exact, int8 the fastest on a CPU "
        "with VNNI or AMX; if the device lacks a format, the next more precise one is used, with a warning",
    )
    threads: int | None = Field(
        None, ge=1, le=1024, description="CPU threads; default: one per core that mtkit may use"
    )
    workers: int = Field(
        1, ge=1, le=1024, description="processes that translate files in parallel, each with its share of the threads"
    )
    shortlist: bool = Field(
        False, description="consider only the target tokens that the bundle's lexicon lists for the source; faster"
    )
    batch_sentences: int = Field(64, ge=1, le=100_000, description="most sentences in a batch")
    batch_tokens: int = Field(
        4096, ge=1, le=10_000_000, description="most source tokens in a batch, padding included; limits the memory"
    )
    max_src_tokens: int = Field(
        200,
        ge=8,
        le=10_000,
        description="most source tokens to translate at once; longer input is split at sentence ends or clauses and "
        "rejoined, never cut off",
    )

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        check_tag(self.tag)
        self._give_way(beam_size=-(-self.beam_size // self.beam_groups) * self.beam_groups)
        if self.beam_size % self.beam_groups:
            raise ValueError(f"beam_groups={self.beam_groups} does not divide beam_size={self.beam_size}")
        if self.sampling and self.mbr_samples:
            raise ValueError(f"mbr_samples={self.mbr_samples} draws its own samples: set sampling to false")
        if self.terminology and (self.sampling or self.mbr_samples):
            raise ValueError(
                f"terminology={self.terminology} needs a search: set sampling to false and mbr_samples to 0"
            )
        if self.terminology and (self.coverage_penalty or self.beam_groups > 1):
            raise ValueError(
                f"terminology={self.terminology} does not work with coverage_penalty or beam_groups: leave both out"
            )
        return self


class Config(Section):
    """All settings of a run."""

    run_dir: ConfigPath | None = Field(
        None, description="folder of the run; default: runs/NAME in the current folder, NAME from the name of this file"
    )
    seed: int = Field(1, ge=0, lt=2**32, description="random seed of initial weights, data order and dropout")
    data: DataConfig = Field(description="parallel text for training, validation and test")
    clean: CleanConfig = Field(CleanConfig(), description="which pairs `mtkit data clean` keeps")
    distill: DistillConfig = Field(DistillConfig(), description="train on the translations of teacher models")
    tokenizer: TokenizersConfig = Field(TokenizersConfig(), description="how to split text into tokens")
    model: ModelConfig = Field(ModelConfig(), description="architecture of the network")
    train: TrainConfig = Field(description="how to train, and when to stop")
    decode: DecodeConfig = Field(DecodeConfig(), description="how to translate")

    @model_validator(mode="after")
    def _sections_fit(self, info: ValidationInfo) -> Self:
        if _is_part(info):
            return self
        if self.model.tie == "all":
            self._replace("tokenizer", shared=True)
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
        """Like _give_way, in a section, which other configs may share: replace it by a copy."""
        old: Section = getattr(self, section)
        changed = {key: value for key, value in values.items() if key not in old.model_fields_set}
        if any(getattr(old, key) != value for key, value in changed.items()):
            self.__dict__[section] = old.model_copy(update=changed)
