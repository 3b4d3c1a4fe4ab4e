"""The quality that a model loses in int8: BLEU on its dev sets in fp32 and int8, stored in its bundle."""

import json
from collections.abc import Mapping

from mtkit.bundle import BundleFiles, add_to_bundle, bundle_file
from mtkit.errors import BundleError
from mtkit.files import parse_json, write_text

INT8_SCORES = "int8.json"  # the file's name in a bundle
EQUAL_BLEU = 0.1  # points that int8 may lose on a dev set to count as equal


def save_int8_scores(files: BundleFiles, bleu: Mapping[str, Mapping[str, float]]) -> None:
    """Add the scores to the bundle. bleu: by the label of each dev set, with the keys fp32 and int8."""
    text = json.dumps({"bleu": bleu}, indent=2, ensure_ascii=False) + "\n"
    add_to_bundle(files.folder, INT8_SCORES, lambda path: write_text(path, text))


def int8_loss(files: BundleFiles) -> float | None:
    """Return the points of BLEU that int8 loses on the dev set where it loses most; None without measurements.

    Raises BundleError if the file is damaged.
    """
    path = bundle_file(files, INT8_SCORES)
    if path is None:
        return None
    try:
        scores = parse_json(path.read_text(encoding="utf-8"))["bleu"].values()
        # rounded, because 30.0 - 29.9 is a little more than 0.1
        return round(max(score["fp32"] - score["int8"] for score in scores), 6) if scores else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BundleError(f"{path}: not the scores of a model in int8 ({error}); remove it and its entry") from None
