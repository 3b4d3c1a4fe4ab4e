"""What a suggested correction must not do by itself."""

import pytest

from mtkit.serving.records.vetting import doubts_about

pytest.importorskip("py3langid")

SOURCE = "The small cat sleeps under the kitchen table."
GOOD = "Le petit chat dort sous la table de la cuisine."


@pytest.mark.parametrize(
    ("source", "suggestion"),
    [
        (SOURCE, GOOD),
        ("Cat", "Chat"),
        ("In 2024.", "En 2024."),
        ("It costs $3.50 on https://example.org/a.", "Cela coûte 3,50 $ sur https://example.org/a."),
        ("Hello {name}, welcome back.", "Bonjour {name}, bon retour parmi nous."),
        ("See the <b>red</b> house.", "Voyez la maison <b>rouge</b>."),
        ("The cat sleeps.\nThe dog eats.", "Le chat dort.\nLe chien mange."),
    ],
)
def test_a_good_correction_is_not_doubted(source, suggestion):
    assert doubts_about(source, suggestion, "en", "fr") == []


@pytest.mark.parametrize(
    ("source", "suggestion", "objection"),
    [
        (
            "There are 25 cats here.",
            "Il y a 52 chats ici.",
            "its numbers differ (source only: 25; target only: 52)",
        ),
        ("Write to me@example.org today.", "Écrivez à toi@example.org aujourd'hui.", "its addresses differ"),
        ("The cat sleeps under the table.", "Le chat dort, voyez www.example.com ici.", "its addresses differ"),
        ("Hello {name}, welcome back.", "Bonjour {nom}, bon retour parmi nous.", "its variables differ"),
        (
            "Hello.",
            "Bonjour. Venez chez nous, nous avons les meilleurs prix de toute la région parisienne.",
            "its length is unlikely",
        ),
        (SOURCE, SOURCE, "it is a copy of the text"),
        (SOURCE, "Die kleine Katze schläft unter dem Küchentisch.", "it looks like another language"),
        (SOURCE, "Маленькая кошка спит под кухонным столом.", "it is in a different script"),
        (SOURCE, "...", "it says nothing"),
        ("See the red house.", "Voyez la maison <script>rouge</script>.", "its tags differ"),
        (
            'Click <a href="/a">here</a> now.',
            'Cliquez <a href="/a" onclick="x()">ici</a> maintenant.',
            "its tags differ",
        ),
        (SOURCE, GOOD.replace("chat", "ch\u202eat"), "it has a control character"),
        (SOURCE, GOOD.replace("chat", "ch\x00at"), "it has a control character"),
        (SOURCE, "Le chat le chat le chat le chat le chat dort.", "it repeats itself"),
    ],
)
def test_what_is_wrong_with_a_suggestion_is_named(source, suggestion, objection):
    assert any(doubt.startswith(objection) for doubt in doubts_about(source, suggestion, "en", "fr"))
