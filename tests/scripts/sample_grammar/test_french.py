"""French word forms against a grammar book, word by word."""

import pytest
from sample_grammar import french
from sample_grammar.entries import Adjective, Gender, Noun, Verb
from sample_grammar.nouns import NOUNS
from sample_grammar.verbs import FORGET, OPEN, TAKE, WOULD_LIKE
from sample_grammar.words import ADJECTIVES, NATIONALITIES, TRAITS


@pytest.mark.parametrize(
    ("words", "spelled"),
    [
        ("je aime", "j'aime"),
        ("je ne ai pas", "je n'ai pas"),
        ("le orange", "l'orange"),
        ("la eau", "l'eau"),
        ("le homme", "l'homme"),
        ("la huile", "l'huile"),
        ("le œuf", "l'œuf"),
        ("le éléphant", "l'éléphant"),
        ("est-ce que il", "est-ce qu'il"),
        ("il ne y a pas de œufs", "il n'y a pas d'œufs"),
        ("ils te ont vu", "ils t'ont vu"),
        ("je ne les ai pas vus", "je ne les ai pas vus"),
        ("plus grand que Alice", "plus grand qu'Alice"),
        ("de le jardin", "du jardin"),
        ("de le hôtel", "de l'hôtel"),
        ("de la eau", "de l'eau"),
        ("de les enfants", "des enfants"),
        ("à le marché", "au marché"),
        ("à le hôpital", "à l'hôpital"),
        ("à la école", "à l'école"),
        ("à les échecs", "aux échecs"),
        ("de une voiture", "d'une voiture"),
    ],
)
def test_words_that_meet_are_elided_and_contracted(words: str, spelled: str) -> None:
    assert french.join(words) == spelled


@pytest.mark.parametrize("words", ["le hibou", "le hamster", "que huit", "de onze", "de hiboux", "la voiture"])
def test_nothing_is_elided_before_an_aspirated_h_a_number_or_a_consonant(words: str) -> None:
    assert french.join(words) == words


def test_contraction_knows_the_aspirated_h() -> None:
    assert french.join("à le hamster de le hibou") == "au hamster du hibou"


@pytest.mark.parametrize(
    ("text", "mark", "written"),
    [
        ("je ai faim", ".", "J'ai faim."),
        ("est-ce que tu as faim", "?", "Est-ce que tu as faim ?"),
        ("ouvre la porte", "!", "Ouvre la porte !"),
        ("  elle   dort ", ".", "Elle dort."),
        ("écoute", "!", "Écoute !"),
        ("où est-il", "?", "Où est-il ?"),
    ],
)
def test_a_sentence_has_a_capital_and_french_spacing(text: str, mark: str, written: str) -> None:
    assert french.sentence(text, mark) == written


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("pomme", "pommes"),
        ("gâteau", "gâteaux"),
        ("oiseau", "oiseaux"),
        ("cheval", "chevaux"),
        ("journal", "journaux"),
        ("hôpital", "hôpitaux"),
        ("souris", "souris"),
        ("fils", "fils"),
        ("hibou", "hiboux"),
        ("pomme de terre", "pommes de terre"),
        ("appareil photo", "appareils photo"),
        ("salle de bains", "salles de bains"),
        ("grand-père", "grands-pères"),
        ("œuf", "œufs"),
    ],
)
def test_nouns_have_their_plural(singular: str, plural: str) -> None:
    assert french.noun_plural(_noun(singular)) == plural


# masculine singular: feminine singular, masculine plural, feminine plural
AGREEMENT = {
    "rouge": ("rouge", "rouges", "rouges"),
    "bleu": ("bleue", "bleus", "bleues"),
    "gris": ("grise", "gris", "grises"),
    "blanc": ("blanche", "blancs", "blanches"),
    "violet": ("violette", "violets", "violettes"),
    "marron": ("marron", "marron", "marron"),
    "beau": ("belle", "beaux", "belles"),
    "nouveau": ("nouvelle", "nouveaux", "nouvelles"),
    "vieux": ("vieille", "vieux", "vieilles"),
    "bon": ("bonne", "bons", "bonnes"),
    "cher": ("chère", "chers", "chères"),
    "frais": ("fraîche", "frais", "fraîches"),
    "mûr": ("mûre", "mûrs", "mûres"),
    "plein": ("pleine", "pleins", "pleines"),
    "délicieux": ("délicieuse", "délicieux", "délicieuses"),
    "heureux": ("heureuse", "heureux", "heureuses"),
    "jaloux": ("jalouse", "jaloux", "jalouses"),
    "gentil": ("gentille", "gentils", "gentilles"),
    "poli": ("polie", "polis", "polies"),
    "italien": ("italienne", "italiens", "italiennes"),
    "français": ("française", "français", "françaises"),
    "espagnol": ("espagnole", "espagnols", "espagnoles"),
    "américain": ("américaine", "américains", "américaines"),
}


@pytest.mark.parametrize("masculine", AGREEMENT)
def test_adjectives_agree(masculine: str) -> None:
    adjective = _adjective(masculine)
    wanted: list[tuple[Gender, bool]] = [("f", False), ("m", True), ("f", True)]
    forms = [french.agree(adjective, gender, plural) for gender, plural in wanted]
    assert tuple(forms) == AGREEMENT[masculine]
    assert french.agree(adjective, "m", False) == masculine


# je, tu, il, nous, ils; past participle
CONJUGATION = {
    "être": ("suis es est sommes sont", "été"),
    "avoir": ("ai as a avons ont", "eu"),
    "aller": ("vais vas va allons vont", "allé"),
    "parler": ("parle parles parle parlons parlent", "parlé"),
    "manger": ("mange manges mange mangeons mangent", "mangé"),
    "voyager": ("voyage voyages voyage voyageons voyagent", "voyagé"),
    "acheter": ("achète achètes achète achetons achètent", "acheté"),
    "préférer": ("préfère préfères préfère préférons préfèrent", "préféré"),
    "appeler": ("appelle appelles appelle appelons appellent", "appelé"),
    "nettoyer": ("nettoie nettoies nettoie nettoyons nettoient", "nettoyé"),
    "envoyer": ("envoie envoies envoie envoyons envoient", "envoyé"),
    "étudier": ("étudie étudies étudie étudions étudient", "étudié"),
    "choisir": ("choisis choisis choisit choisissons choisissent", "choisi"),
    "vendre": ("vends vends vend vendons vendent", "vendu"),
    "attendre": ("attends attends attend attendons attendent", "attendu"),
    "prendre": ("prends prends prend prenons prennent", "pris"),
    "venir": ("viens viens vient venons viennent", "venu"),
    "boire": ("bois bois boit buvons boivent", "bu"),
    "lire": ("lis lis lit lisons lisent", "lu"),
    "écrire": ("écris écris écrit écrivons écrivent", "écrit"),
    "voir": ("vois vois voit voyons voient", "vu"),
    "vouloir": ("veux veux veut voulons veulent", "voulu"),
    "pouvoir": ("peux peux peut pouvons peuvent", "pu"),
    "ouvrir": ("ouvre ouvres ouvre ouvrons ouvrent", "ouvert"),
    "dormir": ("dors dors dort dormons dorment", "dormi"),
    "connaître": ("connais connais connaît connaissons connaissent", "connu"),
    "mettre": ("mets mets met mettons mettent", "mis"),
    "peindre": ("peins peins peint peignons peignent", "peint"),
}


@pytest.mark.parametrize("infinitive", CONJUGATION)
def test_verbs_are_conjugated(infinitive: str) -> None:
    present, participle = CONJUGATION[infinitive]
    verb = Verb("", infinitive)
    persons = ((1, False), (2, False), (3, False), (1, True), (3, True))
    assert [french.present(verb, *person) for person in persons] == present.split()
    assert french.participle(verb) == participle


def test_would_like_is_the_conditional_of_to_want() -> None:
    assert french.present(WOULD_LIKE, 1, False) == "voudrais"
    assert french.present(WOULD_LIKE, 1, True) == "voudrions"


def test_participles_agree() -> None:
    assert french.participle(FORGET, "f", True) == "oubliées"
    assert french.participle(OPEN, "f", False) == "ouverte"
    assert french.participle(TAKE, "m", True) == "pris"


def test_the_imperative_of_tu_loses_its_s_after_e() -> None:
    assert [french.imperative(verb) for verb in (FORGET, OPEN, TAKE)] == ["oublie", "ouvre", "prends"]


def _noun(fr: str) -> Noun:
    return next(noun for noun in NOUNS if noun.fr == fr)


def _adjective(fr: str) -> Adjective:
    return next(adjective for adjective in (*ADJECTIVES, *TRAITS, *NATIONALITIES) if adjective.fr == fr)
