"""What normalisation changes in a text is counted by line and named."""

from dataclasses import asdict

import pytest

from mtkit.tokens.changed_characters import ChangedCharacters, Changes
from mtkit.tokens.normalization import normalizer

LINES = [
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01",
    "\u597d\uff0c\uff0c\uff1f",
    "1\xbd m\xb2",
    "\u0645\u06cc\u200c\u0631",
    *["plain \xe9 e\u0301"] * 4,
]


def changes_of(lines, normalize):
    changed = ChangedCharacters(normalize)
    for line in lines:
        changed.add(line)
    return changed.all()


def test_the_old_default_changes_what_the_model_then_cannot_write():
    changes = changes_of(LINES, normalizer("nmt_nfkc"))
    assert (changes.n_lines, changes.n_changed) == (8, 4)
    assert {c.text: (c.becomes, c.n_lines) for c in changes.characters} == {
        "\uff0c": (",", 2),
        "\uff01": ("!", 1),
        "\uff1f": ("?", 1),
        "\xbd": ("1\u20442", 1),
        "\xb2": ("2", 1),
        "\u200c": (" ", 1),
    }
    assert str(changes).startswith("50 % of lines: \uff0c -> ,, ") and str(changes).endswith(", and 1 more")
    assert [c.text for c in changes.visible] == [c.text for c in changes.characters]  # a joiner has a meaning


def test_the_new_default_changes_nothing_there():
    changes = changes_of(LINES, normalizer("nfc"))
    assert (changes.n_changed, changes.characters, str(changes)) == (0, [], "none")


def test_spaces_and_invisible_characters_are_named_in_words():
    changes = changes_of(["Oui\xa0!", "so\xadft"] + ["x"] * 398, normalizer("nfc"))
    assert str(changes) == "0.5 % of lines: \\xa0 -> a space, \\xad -> nothing"
    assert changes.visible == []


@pytest.mark.parametrize("rule", ["nfc", "nmt_nfkc", "identity"])
def test_changes_survive_a_record(rule):
    changes = changes_of(LINES, normalizer(rule))
    assert Changes.from_json(asdict(changes)) == changes
