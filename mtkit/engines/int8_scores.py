"""The quality that a model loses in int8: its loss and BLEU on dev in fp32 and int8, stored in its bundle."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from mtkit.bundle import BundleFiles, add_to_bundle, bundle_file
from mtkit.errors import BundleError
from mtkit.files import parse_json, write_text

INT8_SCORES = "int8.json"  # the file's name in a bundle
# The loss decides, because BLEU varies too much: between translations that are equally good, its standard deviation was
# 0.1 on 2,000 sentences. In training, a loss lower by 0.005 came with a BLEU higher by less than 0.1.
EQUAL_LOSS = 0.005  # nats per target token that int8 may add to the loss on a dev set to count as equal
_MOST_BLEU = 0.5  # points that int8 may lose all the same; more is not chance
_EQUAL_BLEU = 0.1  # points that int8 may lose in bundles of earlier versions, which have no loss

Scores = Mapping[str, float]  # by precision, fp32 and int8


@dataclass(frozen=True)
class Int8Loss:
    """What a model loses in int8, on the dev set where it loses most."""

    bleu: float  # points
    nats: float | None  # per target token; None: not measured

    @property
    def is_negligible(self) -> bool:
        """Whether the model counts as equally good in int8."""
        if self.nats is None:
            return self.bleu <= _EQUAL_BLEU
        return self.nats <= EQUAL_LOSS and self.bleu <= _MOST_BLEU


def save_int8_scores(files: BundleFiles, bleu: Mapping[str, Scores], loss: Mapping[str, Scores]) -> None:
    """Add the scores to the bundle, by the label of each dev set. loss: nats per target token."""
    text = json.dumps({"bleu": bleu, "loss": loss}, indent=2, ensure_ascii=False) + "\n"
    add_to_bundle(files, INT8_SCORES, lambda path: write_text(path, text))


def int8_loss(files: BundleFiles) -> Int8Loss | None:
    """Return what the model loses in int8; None without measurements.

    Raises BundleError if the file is damaged.
    """
    path = bundle_file(files, INT8_SCORES)
    if path is None:
        return None
    try:
        stored = parse_json(path.read_text(encoding="utf-8"))
        bleu, loss = stored["bleu"].values(), stored.get("loss", {}).values()
        if not bleu:
            return None
        # rounded, because 30.0 - 29.9 is a little more than 0.1
        most_bleu = round(max(score["fp32"] - score["int8"] for score in bleu), 6)
        return Int8Loss(most_bleu, max((score["int8"] - score["fp32"] for score in loss), default=None))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"{path}: not the scores of a model in int8 ({error}); remove it and its entry") from None
