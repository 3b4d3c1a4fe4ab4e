"""The `augment` section of the config: the shares of training pairs that a translator sees as people type them."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mtkit.config.section import Section

ModifierName = Literal["capitals", "lower_case", "title_case", "no_final_mark", "typos", "joined"]
_Share = Annotated[float, Field(ge=0, le=1)]


class AugmentConfig(Section):
    """The share of the training pairs that each change applies to, other ones in each epoch; dev stays unchanged."""

    capitals: _Share = Field(0.0, description="both sides in capitals")
    lower_case: _Share = Field(0.0, description="the source in lower case; the target stays")
    title_case: _Share = Field(0.0, description="the source With A Capital In Each Word; the target stays")
    no_final_mark: _Share = Field(0.0, description="both sides without the mark that ends them")
    typos: _Share = Field(
        0.0,
        description="a typo in the source: a neighbouring key, or a letter that is doubled, missing or swapped; only "
        "in alphabets, and never in a word that the target has, too",
    )
    joined: _Share = Field(
        0.0, description="two to four pairs of a corpus, joined to one; only pairs that end with a mark"
    )

    @model_validator(mode="after")
    def _one_case_for_a_pair(self) -> Self:
        total = self.capitals + self.lower_case + self.title_case
        if total > 1:
            raise ValueError(f"capitals, lower_case and title_case together are {total:g} of the pairs; at most 1")
        return self

    @property
    def rates(self) -> dict[ModifierName, float]:
        """The shares above 0, by name."""
        values: dict[ModifierName, float] = self.model_dump()  # type: ignore[assignment]
        return {name: rate for name, rate in values.items() if rate}


NOTHING = AugmentConfig(capitals=0, lower_case=0, title_case=0, no_final_mark=0, typos=0, joined=0)
