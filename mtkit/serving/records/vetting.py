"""Check a suggested correction by the rules of `mtkit data clean`: a pair that it would drop must not act by itself."""

from collections import Counter
from collections.abc import Iterator

from mtkit.config.cleaning import CleanConfig
from mtkit.corpora.cleaning.rules import RULES, active_rules
from mtkit.corpora.cleaning.window import Lines, Window
from mtkit.quality.faults import find_faults
from mtkit.text.characters import is_control
from mtkit.text.inline_tags import NUMBERED_TAG, TAG

_SETTINGS = CleanConfig()
_WORDS = {  # what the rules object to, for the user who suggests
    "empty": "it says nothing",
    "encoding": "its characters are damaged",
    "max_letters": "it is very long",
    "max_word_letters": "a word is very long",
    "max_length_ratio": "its length is unlikely",
    "min_script_share": "it is in a different script",
    "language": "it looks like another language",
    "copies": "it is a copy of the text",
    "numbers": "its numbers differ",
    "urls": "its addresses differ",
    "placeholders": "its variables differ",
    "repetition": "it repeats itself",
}


def doubts_about(source: str, suggestion: str, src: str, tgt: str) -> list[str]:
    """Return why the operator should review a suggested translation before it acts; [] if it passes all checks."""
    return list(_doubts(source, suggestion, src, tgt))


def _tags_of(text: str) -> Counter[str]:
    return Counter(tag[0] for pattern in (TAG, NUMBERED_TAG) for tag in pattern.finditer(text))


def _doubts(source: str, suggestion: str, src: str, tgt: str) -> Iterator[str]:
    if control := next((c for c in suggestion if is_control(c) and c not in source), None):
        yield f"it has a control character (U+{ord(control):04X})"
    # Stricter than the rule `tags`: an attribute may hold a program.
    if _tags_of(source) != _tags_of(suggestion):
        yield "its tags differ"
    # Of a text of several lines each rule sees one, as in a corpus.
    window = Window(Lines([" ".join(source.split())], src), Lines([" ".join(suggestion.split())], tgt), [1])
    objections = [
        f"{_WORDS[name]} ({verdict})"
        for name in active_rules(_SETTINGS)
        if name in _WORDS and (verdict := RULES[name](window, _SETTINGS).get(0)) is not None
    ]
    yield from objections
    is_unlikely = any(fault.kind == "length" for fault in find_faults(source, suggestion, tgt_lang=tgt))
    if is_unlikely and not any(objection.startswith(_WORDS["max_length_ratio"]) for objection in objections):
        yield _WORDS["max_length_ratio"]
