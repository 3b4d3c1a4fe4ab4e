"""Negating words, by language."""

import pytest

from mtkit.quality.negation import LANGUAGES, has_negation

DENYING = {
    "en": ["I do not know.", "She isn't here.", "I can’t.", "No, thanks.", "Nobody came.", "Neither of us."],
    "de": ["Ich weiß es nicht.", "Keiner kam.", "Das ist keine Katze.", "Nein!", "Sie lügt nie."],
    "fr": ["Je ne sais pas.", "Il n'est plus là.", "C’est pas vrai.", "Rien.", "Il n’y a personne."],
    "es": ["No lo sé.", "Nunca.", "Ningún gato."],
    "pt": ["Não sei.", "Ninguém veio.", "Nem eu."],
    "it": ["Non lo so.", "Nessuno.", "Né io né tu."],
    "nl": ["Ik weet het niet.", "Geen kat.", "Nooit!"],
}
PLAIN = {
    "en": ["I know.", "The knot is tight.", "They noted it.", "Nowadays it rains."],
    "de": ["Ich weiß es.", "Die Nichte lacht.", "Das Knie schmerzt."],
    "fr": ["Je sais.", "Une personne est là, plus tard.", "Le passé est neuf.", "L'année passe."],
    "es": ["Lo sé.", "La noche es larga.", "El niño come."],
    "pt": ["Eu sei.", "No sábado.", "O nome."],
    "it": ["Lo so.", "Il nonno dorme."],
    "nl": ["Ik weet het.", "De nicht lacht."],
}


@pytest.mark.parametrize("lang", sorted(LANGUAGES))
def test_negating_words_are_found_and_similar_ones_are_not(lang):
    assert [text for text in DENYING[lang] if not has_negation(text, lang)] == []
    assert [text for text in PLAIN[lang] if has_negation(text, lang)] == []


def test_a_region_makes_no_difference_and_an_unknown_language_has_no_answer():
    assert has_negation("Não sei.", "pt-BR") is True
    assert has_negation("Não sei.", "pt_PT") is True
    assert has_negation("Não sei.", "EN") is False
    assert has_negation("Nem tudom.", "hu") is None
