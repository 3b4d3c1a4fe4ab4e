"""What a run records about its training text."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from mtkit.bundle import LETTERS_RATIO, SHARE_OF_SMALL
from mtkit.runs.plan import _changes
from mtkit.tokens.openings import missing_mark
from mtkit.training.preparation.parallel_text import ParallelText, prepare_pairs

ANIMALS = ["cat", "dog", "bird", "horse", "cow", "goat", "hen", "duck"]


def text_with_tags(config_of, folder: Path) -> ParallelText:
    """Questions with a tag in one corpus and statements with another tag in a second one; the targets equal them."""
    for name, line in (("asked", "do you see the {} here?"), ("told", "this is the old {}.")):
        texts = [line.format(animal) for animal in ANIMALS]
        (folder / f"{name}.tsv").write_text("".join(f"{text}\t{text}\n" for text in texts), encoding="utf-8")
    asked, told = ({"tsv": str(folder / f"{name}.tsv"), "tag": f"<{name.upper()}>"} for name in ("asked", "told"))
    data = {"src_lang": "en", "tgt_lang": "de", "train": [asked, told], "dev": asked}
    cfg = config_of(folder / "run", data=data, augment={"capitals": 1.0})
    return prepare_pairs(cfg, folder / "run", is_verified=False)


def test_the_facts_about_the_text_do_not_count_its_tags(config_of, tmp_path):
    text = text_with_tags(config_of, tmp_path)
    assert text.facts[SHARE_OF_SMALL] == 1.0
    assert text.facts[LETTERS_RATIO] == 1.0
    assert text.words is not None
    assert missing_mark("do you see me", text.words.openings) == "?"
    assert missing_mark("this is a fox", text.words.openings) == "."


def test_the_examples_of_a_plan_change_the_text_without_its_tag(config_of, tmp_path):
    text = text_with_tags(config_of, tmp_path)
    trainer = SimpleNamespace(cfg=text.cfg, corpus=text.train, run=SimpleNamespace(text=text))
    [example] = [one for one in _changes(cast(Any, trainer)) if one.name == "capitals"]
    assert (example.src, example.tgt) == ("DO YOU SEE THE CAT HERE?", "DO YOU SEE THE CAT HERE?")
