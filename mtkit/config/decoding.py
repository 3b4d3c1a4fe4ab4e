"""The `decode` section of the config: how a trained model translates."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from mtkit.config.section import ConfigPath, Section
from mtkit.config.tags import Tag

LEAST_MATCH = 50  # percent: what has less in common with a text is of no use for its translation


class DecodeConfig(Section):
    """How a trained model translates; `mtkit translate --set decode.KEY=VALUE` changes a key for one call."""

    beam_size: int = Field(
        4, ge=1, le=1000, description="number of hypotheses to keep at each step; 1 is greedy search"
    )
    length_normalization: Literal["gnmt", "average", "none"] = Field(
        "gnmt",
        description="divisor of a log-probability of n tokens. gnmt: ((5 + n) / 6)^length_penalty (Wu et al. 2016); "
        "average: n; none: 1",
    )
    length_penalty: float = Field(0.6, ge=0, le=100, description="gnmt: the exponent alpha; 0: no normalisation")
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
        False, description="draw tokens at random instead of searching; for an n-best list, draw n times"
    )
    temperature: float = Field(
        1.0, gt=0, le=1000, description="sampling: divisor of the log-probabilities; above 1 is more random"
    )
    top_k: int = Field(0, ge=0, le=10**9, description="sampling: draw among the k likeliest tokens; 0: all")
    top_p: float = Field(
        1.0, gt=0, le=1, description="sampling: draw among the likeliest tokens with this total probability"
    )
    seed: int = Field(
        1, ge=0, lt=2**32, description="sampling: random seed; a sentence's draws do not depend on its batch"
    )
    mbr_samples: int = Field(
        0,
        ge=0,
        le=1000,
        description="minimum Bayes risk decoding: draw this many samples per line (only tokens of at least 2 % "
        "probability, unless top_k or top_p limits them) and return the one closest to the others (chrF); 0: off",
    )
    terminology: ConfigPath | None = Field(
        None, description="TSV with the columns source, target, forbidden: phrases that must or must not appear"
    )
    memory: ConfigPath | None = Field(
        None,
        description="translation memory (.tmx, another format with both sides, or a file from mtkit memory build); the "
        "translation of a sentence that it has exactly, with the same numbers and placeholders, is used unchanged",
    )
    memory_threshold: int = Field(
        70,
        ge=LEAST_MATCH,
        le=100,
        description="lowest score, in percent, of a match in the memory to report; 100: only exact ones",
    )
    tag: Tag | None = Field(
        None, description="tag before each text, such as <2de>: one or several of the tags in the training text"
    )
    src_lang: str | None = Field(
        None,
        description="language to translate from, if the model has several, such as M2M-100 and NLLB; `mtkit inspect "
        "model` lists them; default: data.src_lang",
    )
    tgt_lang: str | None = Field(None, description="language to translate to; see src_lang; default: data.tgt_lang")
    as_typed: bool = Field(
        False,
        description="true: read text exactly as it is; false: read text in capitals or small letters, titles, words "
        "with a typo and sentences without a final mark as the training text writes them, if it has no such text",
    )
    on_suspect: Literal["retry", "warn", "mark", "off"] = Field(
        "retry",
        description="how to handle translations that look wrong (empty, looping, far too short or long, copied, or "
        "without a number or URL of the source): translate again with other settings and warn (retry), only "
        "warn (warn), mark them in the output (mark), or do not check (off)",
    )
    engine: Literal["auto", "native", "ctranslate2"] = Field(
        "auto",
        description="auto: the fastest engine of equal quality; for sentences on the command line and lines from a "
        "pipe, the one that starts soonest: CTranslate2, if the bundle holds its model and it supports all options",
    )
    precision: Literal["auto", "fp32", "bf16", "int8"] = Field(
        "auto",
        description="number format of the native engine's matrix products. fp32 is exact, int8 is the fastest on a "
        "CPU with VNNI or AMX, and with AVX2 for translators with compiled loops (extra fast); where a format is not "
        "fast, mtkit warns and uses the next more precise one. "
        "auto: int8 if engine is auto, too, and the loss on dev rises by at most 0.005 nats; else fp32",
    )
    threads: int | None = Field(
        None, ge=1, le=1024, description="number of CPU threads; default: one for each core that mtkit may use"
    )
    workers: int = Field(
        1,
        ge=1,
        le=1024,
        description="number of processes that translate a file in parallel, each with its share of the threads",
    )
    shortlist: bool = Field(
        False, description="consider only the target tokens that the bundle's shortlist has for the source; faster"
    )
    batch_sentences: int = Field(64, ge=1, le=100_000, description="most sentences in a batch")
    batch_tokens: int = Field(
        4096, ge=1, le=10_000_000, description="most source tokens in a batch, including padding; limits the memory"
    )
    max_src_tokens: int = Field(
        200,
        ge=8,
        le=10_000,
        description="most source tokens to translate at once; mtkit splits longer input at ends of sentences or "
        "clauses, and joins the translations without losing text",
    )

    @property
    def languages(self) -> list[str]:
        """The chosen languages as overrides, such as decode.tgt_lang=fr, for another process that reads the bundle."""
        chosen = {"src_lang": self.src_lang, "tgt_lang": self.tgt_lang}
        return [f"decode.{key}={code}" for key, code in chosen.items() if code is not None]

    @property
    def draws(self) -> bool:
        """Whether tokens are drawn at random instead of searched for."""
        return self.sampling or self.mbr_samples > 0

    @property
    def exact_precision(self) -> str:
        """The precision, with fp32 for auto, for work without a measured alternative."""
        return "fp32" if self.precision == "auto" else self.precision

    @property
    def files(self) -> dict[str, Path | None]:
        """The files that translations depend on, by key."""
        return {"terminology": self.terminology, "memory": self.memory}

    @property
    def plain(self) -> "DecodeConfig":
        """The settings without second attempts, terminology and memory, to measure the model itself."""
        return self.model_copy(update={"on_suspect": "off", "terminology": None, "memory": None})

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
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
