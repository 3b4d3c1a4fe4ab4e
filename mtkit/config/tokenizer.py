"""The `tokenizer` section of the config: how to split text into pieces."""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from mtkit.config.section import Section
from mtkit.languages import Side

Normalization = Literal["nfc", "nfc_forms", "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"]


class TokenizerConfig(Section):
    """One side's SentencePiece model."""

    type: Literal["unigram", "bpe", "char"] = Field("unigram", description="algorithm that splits text into pieces")
    vocab_size: int = Field(
        8000,
        ge=264,
        le=1_000_000,
        description="number of pieces, including 4 special ones and 256 bytes; mtkit lowers it if the text is too "
        "short. Default with a budget that leaves few updates on a CPU: 4000, unless one tokenizer is shared or the "
        "text has more than 1,000 different characters",
    )
    character_coverage: float = Field(
        0.9995,
        ge=0.98,
        le=1,
        description="share of the text's characters that become pieces; the others become bytes",
    )
    byte_fallback: bool = Field(
        True, description="split characters without a piece into UTF-8 bytes, so that no text is unknown"
    )
    normalization: Normalization = Field(
        "nfc",
        description="how to normalise text. nfc: compose letters and accents, turn all white space into spaces, drop "
        "invisible characters; nfc_forms: also full-width, half-width and ligature forms of letters, the default of a "
        "source with its own tokenizer; nmt_nfkc and nfkc: all compatibility forms, which changes what a translation "
        "can contain (№ becomes No); _cf: also lower-case; identity: change nothing",
    )
    max_sentences: int = Field(
        1_000_000,
        ge=1,
        le=10**9,
        description="lines to train the tokenizer on; mtkit samples them evenly if the text has more",
    )
    sampling: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="subword regularisation: split training text at random in each epoch. bpe: probability of "
        "skipping a merge (BPE-dropout), such as 0.1; unigram: alpha, such as 0.5, smaller is more random; 0: off. "
        "With tokenizer.shared, src's value applies to both sides",
    )

    @model_validator(mode="after")
    def _sampling_has_a_choice(self) -> Self:
        if self.sampling and self.type == "char":
            raise ValueError(
                f"sampling={self.sampling} needs several ways to split a word, but type=char has only one: set type "
                "to bpe or unigram, or sampling to 0"
            )
        return self


class TokenizersConfig(Section):
    """The source and target tokenizers, or one for both."""

    src: TokenizerConfig = Field(TokenizerConfig(), description="tokenizer of the source side")
    tgt: TokenizerConfig = Field(TokenizerConfig(), description="tokenizer of the target side")
    shared: bool = Field(
        False, description="use one tokenizer for both sides, trained on both sides with the settings of src"
    )

    def with_sizes(self, sizes: Mapping[Side, int]) -> Self:
        """Return the section with these sizes, which do not count as written in the file."""
        sized = self.model_copy()
        for side, size in sizes.items():
            one = getattr(self, side).model_copy()
            one.__dict__["vocab_size"] = size
            sized.__dict__[side] = one
        return sized

    def with_source_rule(self) -> Self:
        """Return the section with the normalisation rule of the source, if the file leaves it out.

        A shared tokenizer keeps what the target needs, so it never has `nfc_forms`.
        """
        if self.shared:
            needs_other, rule = self.src.normalization == "nfc_forms", "nfc"
        else:
            needs_other, rule = "normalization" not in self.src.model_fields_set, "nfc_forms"
        if not needs_other:
            return self
        other = self.model_copy()
        other.__dict__["src"] = self.src.model_copy(update={"normalization": rule})  # not to be taken for written
        return other
