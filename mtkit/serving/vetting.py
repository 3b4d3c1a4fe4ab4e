"""Vet a suggested correction by rule: what `mtkit data clean` would drop must not act by itself."""

import unicodedata
from collections import Counter
from collections.abc import Iterator

from mtkit.config.cleaning import CleanConfig
from mtkit.corpora.rules import RULES, active_rules
from mtkit.corpora.window import Lines, Window
from mtkit.documents.html_text import TAG
from mtkit.quality.faults import find_faults

_SETTINGS = CleanConfig()


def doubts_about(source: str, suggestion: str, src: str, tgt: str) -> list[str]:
    """Return why a person should look at a suggested translation before it acts; [] if nothing is wrong with it."""
    return list(_doubts(source, suggestion, src, tgt))


def _doubts(source: str, suggestion: str, src: str, tgt: str) -> Iterator[str]:
    if control := next((c for c in suggestion if _is_control(c) and c not in source), None):
        yield f"control: U+{ord(control):04X}"
    # Stricter than the rule `tags`: an attribute may hold a program.
    if Counter(tag[0] for tag in TAG.finditer(source)) != Counter(tag[0] for tag in TAG.finditer(suggestion)):
        yield "tags: not those of the source"
    # Of a text of several lines each rule sees one, as in a corpus.
    window = Window(Lines([" ".join(source.split())], src), Lines([" ".join(suggestion.split())], tgt), [1])
    for name in active_rules(_SETTINGS):
        if name != "tags" and (verdict := RULES[name](window, _SETTINGS).get(0)) is not None:
            yield f"{name}: {verdict}"
    if any(fault.kind == "length" for fault in find_faults(source, suggestion, tgt_lang=tgt)):
        yield "length: unlikely for a translation"


def _is_control(character: str) -> bool:
    """Return whether a character controls how text is shown or read, without being seen."""
    return (
        unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") and character not in "\n\t\u200c\u200d"
    )
