"""Everything in the lexicon that is neither noun nor verb: adjectives, pronouns, names, numbers, times, countries."""

from sample_grammar.entries import Adjective, Name, Phrase, Profession, Pronoun

I = Pronoun("I", "je", "me", "me", "me", "moi", "my", ("mon", "ma", "mes"), 1, False, "m")  # noqa: E741
YOU = Pronoun("you", "tu", "you", "te", "te", "toi", "your", ("ton", "ta", "tes"), 2, False, "m")
HE = Pronoun("he", "il", "him", "le", "lui", "lui", "his", ("son", "sa", "ses"), 3, False, "m")
SHE = Pronoun("she", "elle", "her", "la", "lui", "elle", "her", ("son", "sa", "ses"), 3, False, "f")
WE = Pronoun("we", "nous", "us", "nous", "nous", "nous", "our", ("notre", "notre", "nos"), 1, True, "m")
THEY = Pronoun("they", "ils", "them", "les", "leur", "eux", "their", ("leur", "leur", "leurs"), 3, True, "m")
PRONOUNS = (I, YOU, HE, SHE, WE, THEY)

NAMES = (
    Name("Paul", "m"),
    Name("Thomas", "m"),
    Name("Pierre", "m"),
    Name("Marie", "f"),
    Name("Julie", "f"),
    Name("Sophie", "f"),
    Name("Alice", "f"),
    Name("Emma", "f"),
)


def _colour(
    en: str, fr: str, tags: str = "coloured", feminine: str | None = None, invariable: bool = False
) -> Adjective:
    return Adjective(en, fr, tags, feminine, invariable=invariable, gradable=False)


def _state(en: str, fr: str, tags: str, gradable: bool = False) -> Adjective:
    return Adjective(en, fr, tags, attributive=False, gradable=gradable)


COLOURS = (
    _colour("red", "rouge"),
    _colour("blue", "bleu"),
    _colour("green", "vert"),
    _colour("yellow", "jaune"),
    _colour("pink", "rose"),
    _colour("purple", "violet", feminine="violette"),
    _colour("black", "noir", "coloured furry"),
    _colour("white", "blanc", "coloured furry", feminine="blanche"),
    _colour("brown", "marron", "coloured furry", invariable=True),
    _colour("grey", "gris", "coloured furry"),
)
BEAUTIFUL = Adjective("beautiful", "beau", "fine moving", feminine="belle", before=True, before_vowel="bel")
OLD = Adjective("old", "vieux", "old", feminine="vieille", before=True, before_vowel="vieil")
NEW = Adjective("new", "nouveau", "new", feminine="nouvelle", before=True, before_vowel="nouvel")
EXPENSIVE = Adjective("expensive", "cher", "priced", attributive=False)
ADJECTIVES = (  # of nouns
    *COLOURS,
    BEAUTIFUL,
    OLD,
    NEW,
    EXPENSIVE,
    Adjective("small", "petit", "small animal", before=True),
    Adjective("big", "grand", "big", before=True),
    Adjective("young", "jeune", "young", before=True),
    Adjective("good", "bon", "food", feminine="bonne", before=True, gradable=False),
    Adjective("modern", "moderne", "modern"),
    Adjective("comfortable", "confortable", "comfortable"),
    Adjective("interesting", "intéressant", "readable watchable", gradable=False),
    _state("clean", "propre", "washable cleanable", gradable=True),
    _state("dirty", "sale", "washable cleanable", gradable=True),
    _state("broken", "cassé", "breakable repairable"),
    _state("empty", "vide", "container"),
    _state("full", "plein", "container"),
    _state("open", "ouvert", "closable shop"),
    _state("closed", "fermé", "closable shop"),
    _state("ripe", "mûr", "fruit"),
    _state("hot", "chaud", "served_hot", gradable=True),
    _state("cold", "froid", "served_hot drinkable", gradable=True),
    _state("delicious", "délicieux", "edible drinkable"),
    Adjective("fresh", "frais", "perishable", feminine="fraîche", attributive=False),
)
TRAITS = (  # of people, after "to be"
    Adjective("happy", "heureux", comparative="happier"),
    Adjective("sad", "triste", comparative="sadder"),
    Adjective("rich", "riche", comparative="richer"),
    Adjective("tall", "grand", comparative="taller"),
    Adjective("strong", "fort", comparative="stronger"),
    Adjective("kind", "gentil", feminine="gentille", comparative="kinder"),
    Adjective("young", "jeune", comparative="younger"),
    Adjective("funny", "drôle", comparative="funnier"),
    Adjective("lazy", "paresseux", comparative="lazier"),
    Adjective("intelligent", "intelligent"),
    Adjective("serious", "sérieux"),
    Adjective("patient", "patient"),
    Adjective("polite", "poli"),
    Adjective("jealous", "jaloux", feminine="jalouse"),
)
MOODS = (  # of people, for a while: not compared
    Adjective("tired", "fatigué"),
    Adjective("sick", "malade"),
    Adjective("proud", "fier"),
    Adjective("busy", "occupé"),
    Adjective("worried", "inquiet", feminine="inquiète"),
    Adjective("ready", "prêt", gradable=False),
)
NATIONALITIES = (
    Adjective("French", "français"),
    Adjective("English", "anglais"),
    Adjective("Italian", "italien"),
    Adjective("German", "allemand"),
    Adjective("Spanish", "espagnol"),
    Adjective("American", "américain"),
    Adjective("Canadian", "canadien"),
)
LANGUAGES = NATIONALITIES[:5]  # these are also spoken: le français
SENSATIONS = (  # I am hungry: j'ai faim
    Phrase("hungry", "faim"),
    Phrase("thirsty", "soif"),
    Phrase("cold", "froid"),
    Phrase("hot", "chaud"),
    Phrase("afraid", "peur"),
    Phrase("sleepy", "sommeil"),
)

PROFESSIONS = (
    Profession("student", "étudiant", "étudiante"),
    Profession("doctor", "médecin", "médecin"),
    Profession("dentist", "dentiste", "dentiste"),
    Profession("nurse", "infirmier", "infirmière"),
    Profession("lawyer", "avocat", "avocate"),
    Profession("baker", "boulanger", "boulangère"),
    Profession("singer", "chanteur", "chanteuse"),
    Profession("musician", "musicien", "musicienne"),
    Profession("journalist", "journaliste", "journaliste"),
    Profession("cook", "cuisinier", "cuisinière"),
)

CITIES = (
    Phrase("Paris", "Paris"),
    Phrase("Lyon", "Lyon"),
    Phrase("Marseille", "Marseille"),
    Phrase("Rome", "Rome"),
    Phrase("Berlin", "Berlin"),
    Phrase("London", "Londres"),
    Phrase("Geneva", "Genève"),
)
COUNTRIES = (  # English name; in or to it; from it
    ("France", "en France", "de France"),
    ("Italy", "en Italie", "d'Italie"),
    ("Spain", "en Espagne", "d'Espagne"),
    ("Germany", "en Allemagne", "d'Allemagne"),
    ("England", "en Angleterre", "d'Angleterre"),
    ("Canada", "au Canada", "du Canada"),
    ("Japan", "au Japon", "du Japon"),
    ("Portugal", "au Portugal", "du Portugal"),
    ("the United States", "aux États-Unis", "des États-Unis"),
)

NUMBERS = (  # from two
    Phrase("two", "deux"),
    Phrase("three", "trois"),
    Phrase("four", "quatre"),
    Phrase("five", "cinq"),
    Phrase("six", "six"),
    Phrase("seven", "sept"),
    Phrase("eight", "huit"),
    Phrase("nine", "neuf"),
    Phrase("ten", "dix"),
    Phrase("eleven", "onze"),
    Phrase("twelve", "douze"),
)
LARGE_NUMBERS = (
    Phrase("thirteen", "treize"),
    Phrase("fifteen", "quinze"),
    Phrase("twenty", "vingt"),
    Phrase("thirty", "trente"),
    Phrase("forty", "quarante"),
    Phrase("fifty", "cinquante"),
)

DAYS = (
    Phrase("Monday", "lundi"),
    Phrase("Tuesday", "mardi"),
    Phrase("Wednesday", "mercredi"),
    Phrase("Thursday", "jeudi"),
    Phrase("Friday", "vendredi"),
    Phrase("Saturday", "samedi"),
    Phrase("Sunday", "dimanche"),
)
HABITUAL_TIMES = (
    Phrase("every day", "tous les jours"),
    Phrase("every morning", "tous les matins"),
    Phrase("every evening", "tous les soirs"),
    Phrase("every week", "toutes les semaines"),
    Phrase("in summer", "en été"),
    Phrase("in winter", "en hiver"),
    Phrase("in spring", "au printemps"),
    Phrase("in autumn", "en automne"),
)
DAYS_AGO = tuple(Phrase(f"{number.en} days ago", f"il y a {number.fr} jours") for number in NUMBERS[:2])
RECENT_TIMES = (
    Phrase("yesterday", "hier"),
    Phrase("this morning", "ce matin"),
    *DAYS_AGO,
)
PAST_TIMES = (
    *RECENT_TIMES,
    Phrase("last week", "la semaine dernière"),
    Phrase("last month", "le mois dernier"),
    Phrase("last year", "l'année dernière"),
)
SOON_TIMES = (
    Phrase("tomorrow", "demain"),
    Phrase("tonight", "ce soir"),
    *(Phrase(f"on {day.en}", day.fr) for day in DAYS),
)
FUTURE_TIMES = (
    *SOON_TIMES,
    Phrase("next week", "la semaine prochaine"),
    Phrase("next month", "le mois prochain"),
)
HOURS = (  # after "it is" and "at"
    Phrase("one o'clock", "une heure"),
    *(Phrase(f"{number.en} o'clock", f"{number.fr} heures") for number in NUMBERS[:10]),
    Phrase("noon", "midi"),
    Phrase("midnight", "minuit"),
)
FREQUENCIES = (Phrase("often", "souvent"), Phrase("always", "toujours"), Phrase("sometimes", "parfois"))

PRICES = (*NUMBERS, *LARGE_NUMBERS, Phrase("a hundred", "cent"))
WEATHER = (
    Phrase("it is raining", "il pleut"),
    Phrase("it is snowing", "il neige"),
    Phrase("it is cold", "il fait froid"),
    Phrase("it is hot", "il fait chaud"),
    Phrase("the weather is nice", "il fait beau"),
    Phrase("the weather is bad", "il fait mauvais"),
    Phrase("it is windy", "il y a du vent"),
)
WEATHER_TIMES = (
    Phrase("", ""),
    Phrase("today", "aujourd'hui"),
    *(Phrase(f"in {city.en}", f"à {city.fr}") for city in CITIES),
    *(Phrase(f"in {city.en} today", f"à {city.fr} aujourd'hui") for city in CITIES),
    *(Phrase(f"in {name}", place) for name, place, _ in COUNTRIES),
)

SPORTS = (  # played à
    Phrase("football", "le football"),
    Phrase("tennis", "le tennis"),
    Phrase("chess", "les échecs"),
    Phrase("cards", "les cartes"),
)
INSTRUMENTS = (  # played de
    Phrase("the piano", "le piano"),
    Phrase("the violin", "le violon"),
    Phrase("the guitar", "la guitare"),
)
MEALS = (
    Phrase("breakfast", "le petit déjeuner"),
    Phrase("lunch", "le déjeuner"),
    Phrase("dinner", "le dîner"),
)
CONTAINERS = (  # with the tag of what they hold
    (Phrase("a glass of", "un verre de"), "bottled"),
    (Phrase("a bottle of", "une bouteille de"), "bottled"),
    (Phrase("a cup of", "une tasse de"), "by_cup"),
    (Phrase("a kilo of", "un kilo de"), "fruit"),
)
