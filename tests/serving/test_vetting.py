"""What a suggested correction must not do by itself."""

import pytest

from mtkit.serving.vetting import doubts_about

pytest.importorskip("py3langid")

SOURCE = "The small cat sleeps under the kitchen table."
GOOD = "Le petit chat dort sous la table de la cuisine."


@pytest.mark.parametrize(
    ("source", "suggestion"),
    [
        (SOURCE, GOOD),
        ("Cat", "Chat"),
        ("It costs $3.50 on https://example.org/a.", "Cela coûte 3,50 $ sur https://example.org/a."),
        ("Hello {name}, welcome back.", "Bonjour {name}, bon retour parmi nous."),
        ("See the <b>red</b> house.", "Voyez la maison <b>rouge</b>."),
        ("The cat sleeps.\nThe dog eats.", "Le chat dort.\nLe chien mange."),
    ],
)
def test_a_good_correction_is_not_doubted(source, suggestion):
    assert doubts_about(source, suggestion, "en", "fr") == []


@pytest.mark.parametrize(
    ("source", "suggestion", "rule"),
    [
        ("There are 25 cats here.", "Il y a 52 chats ici.", "numbers"),
        ("Write to me@example.org today.", "Écrivez à toi@example.org aujourd'hui.", "urls"),
        ("The cat sleeps under the table.", "Le chat dort, voyez www.example.com ici.", "urls"),
        ("Hello {name}, welcome back.", "Bonjour {nom}, bon retour parmi nous.", "placeholders"),
        ("Hello.", "Bonjour. Venez chez nous, nous avons les meilleurs prix de toute la région parisienne.", "length"),
        (SOURCE, SOURCE, "copies"),
        (SOURCE, "Die kleine Katze schläft unter dem Küchentisch.", "language"),
        (SOURCE, "Маленькая кошка спит под кухонным столом.", "min_script_share"),
        (SOURCE, "...", "empty"),
        ("See the red house.", "Voyez la maison <script>rouge</script>.", "tags"),
        ('Click <a href="/a">here</a> now.', 'Cliquez <a href="/a" onclick="x()">ici</a> maintenant.', "tags"),
        (SOURCE, GOOD.replace("chat", "ch\u202eat"), "control"),
        (SOURCE, GOOD.replace("chat", "ch\x00at"), "control"),
        (SOURCE, "Le chat le chat le chat le chat le chat dort.", "repetition"),
    ],
)
def test_what_is_wrong_with_a_suggestion_is_named(source, suggestion, rule):
    assert rule in [doubt.partition(":")[0] for doubt in doubts_about(source, suggestion, "en", "fr")]
