"""The nouns of the sample corpus, grouped by what they are; a group's tags are shared by all its nouns."""

from dataclasses import replace
from functools import cache

from sample_grammar.entries import Noun


def _group(tags: str, *nouns: Noun) -> tuple[Noun, ...]:
    return tuple(replace(noun, tags=f"{tags} {noun.tags}".strip()) for noun in nouns)


FOODS = _group(  # can be counted: an apple
    "food edible buyable portable",
    Noun("apple", "pomme", "f", "fruit"),
    Noun("orange", "orange", "f", "fruit"),
    Noun("pear", "poire", "f", "fruit"),
    Noun("banana", "banane", "f", "fruit"),
    Noun("cherry", "cerise", "f", "fruit"),
    Noun("strawberry", "fraise", "f", "fruit"),
    Noun("tomato", "tomate", "f", "fruit", en_plural="tomatoes"),
    Noun("carrot", "carotte", "f"),
    Noun("potato", "pomme de terre", "f", en_plural="potatoes", fr_plural="pommes de terre"),
    Noun("onion", "oignon", "m"),
    Noun("mushroom", "champignon", "m"),
    Noun("egg", "œuf", "m"),
    Noun("cake", "gâteau", "m", "gift"),
    Noun("sandwich", "sandwich", "m"),
)

DISHES = _group(  # cannot be counted: bread
    "mass edible buyable",
    Noun("bread", "pain", "m", "perishable"),
    Noun("cheese", "fromage", "m"),
    Noun("butter", "beurre", "m", "perishable"),
    Noun("meat", "viande", "f", "perishable"),
    Noun("fish", "poisson", "m", "perishable"),
    Noun("rice", "riz", "m", "served_hot"),
    Noun("salad", "salade", "f"),
    Noun("soup", "soupe", "f", "served_hot"),
    Noun("chocolate", "chocolat", "m"),
    Noun("jam", "confiture", "f"),
)

DRINKS = _group(
    "mass drinkable buyable",
    Noun("water", "eau", "f", "bottled"),
    Noun("milk", "lait", "m", "bottled perishable"),
    Noun("coffee", "café", "m", "by_cup served_hot"),
    Noun("tea", "thé", "m", "by_cup served_hot"),
    Noun("lemonade", "limonade", "f", "bottled"),
    Noun("orange juice", "jus d'orange", "m", "bottled"),
    Noun("apple juice", "jus de pomme", "m", "bottled"),
)

INGREDIENTS = _group(
    "mass buyable",
    Noun("sugar", "sucre", "m"),
    Noun("flour", "farine", "f"),
    Noun("oil", "huile", "f"),
)

MATERIALS = _group(  # needed, and there is some or none
    "mass",
    Noun("money", "argent", "m"),
)

ANIMALS = _group(
    "animal visible drawable",
    Noun("dog", "chien", "m", "pet furry big old fine"),
    Noun("cat", "chat", "m", "pet furry old fine"),
    Noun("horse", "cheval", "m", "farm furry big old fine"),
    Noun("rabbit", "lapin", "m", "pet furry fine"),
    Noun("bird", "oiseau", "m", "pet coloured fine"),
    Noun("hamster", "hamster", "m", "pet"),
    Noun("cow", "vache", "f", "farm furry"),
    Noun("goat", "chèvre", "f", "farm furry"),
    Noun("duck", "canard", "m", "farm"),
    Noun("mouse", "souris", "f", "furry", en_plural="mice"),
    Noun("lion", "lion", "m", "big old"),
    Noun("elephant", "éléphant", "m", "big old"),
    Noun("monkey", "singe", "m"),
    Noun("owl", "hibou", "m", fr_plural="hiboux"),
)

THINGS = _group(
    "thing portable losable buyable priced small new visible",
    Noun("book", "livre", "m", "lendable gift readable writable old"),
    Noun("novel", "roman", "m", "lendable gift readable writable"),
    Noun("dictionary", "dictionnaire", "m", "lendable gift readable old"),
    Noun("notebook", "cahier", "m", "coloured old"),
    Noun("pen", "stylo", "m", "lendable gift coloured"),
    Noun("phone", "téléphone", "m", "gift coloured old repairable"),
    Noun("computer", "ordinateur", "m", "bulky gift old repairable"),
    Noun("camera", "appareil photo", "m", "gift old repairable", fr_plural="appareils photo"),
    Noun("bag", "sac", "m", "bulky gift coloured big old closable container"),
    Noun("suitcase", "valise", "f", "bulky coloured big old closable container"),
    Noun("box", "boîte", "f", "bulky coloured big old closable container"),
    Noun("umbrella", "parapluie", "m", "lendable bulky gift coloured big old closable"),
    Noun("watch", "montre", "f", "gift fine old repairable"),
    Noun("ring", "bague", "f", "gift fine old"),
    Noun("lamp", "lampe", "f", "bulky gift coloured fine old repairable breakable"),
    Noun("mirror", "miroir", "m", "bulky fine old big breakable"),
    Noun("toy", "jouet", "m", "gift old repairable breakable"),
    Noun("ball", "ballon", "m", "gift coloured"),
    Noun("guitar", "guitare", "f", "bulky gift fine old repairable"),
    Noun("map", "carte", "f", "lendable old big"),
    Noun("wallet", "portefeuille", "m", "gift coloured old closable"),
)

TABLEWARE = _group(
    "tableware portable losable buyable priced small new visible",
    Noun("cup", "tasse", "f", "coloured fine old washable breakable"),
    Noun("plate", "assiette", "f", "coloured fine old big washable breakable"),
    Noun("bottle", "bouteille", "f", "coloured openable breakable container"),
    Noun("knife", "couteau", "m", "old big washable", en_plural="knives"),
)

KEEPSAKES = _group(  # like things, but nobody would call them expensive
    "thing portable losable small visible",
    Noun("key", "clé", "f", "new old"),
    Noun("letter", "lettre", "f", "sendable readable writable openable"),
    Noun("photo", "photo", "f", "sendable fine old"),
    Noun("newspaper", "journal", "m", "lendable readable buyable old"),
    Noun("gift", "cadeau", "m", "sendable gift fine buyable openable"),
    Noun("painting", "tableau", "m", "bulky gift fine buyable old big"),
    Noun("flower", "fleur", "f", "drawable gift fine buyable coloured plant"),
)

CLOTHES = _group(
    "clothes portable losable buyable priced small new old fine coloured washable wearable visible gift",
    Noun("hat", "chapeau", "m", "big"),
    Noun("coat", "manteau", "m", "big"),
    Noun("jacket", "veste", "f"),
    Noun("shirt", "chemise", "f"),
    Noun("sweater", "pull", "m"),
    Noun("cap", "casquette", "f"),
    Noun("belt", "ceinture", "f"),
    Noun("scarf", "écharpe", "f", "big", en_plural="scarves"),
    Noun("tie", "cravate", "f"),
)

SHOES = _group(  # worn in pairs
    "shoes portable losable buyable priced new old coloured washable",
    Noun("shoe", "chaussure", "f"),
    Noun("sock", "chaussette", "f"),
    Noun("glove", "gant", "m"),
)

VEHICLES = _group(
    "vehicle buyable priced small new old coloured big washable repairable visible modern fine",
    Noun("car", "voiture", "f"),
    Noun("bicycle", "vélo", "m"),
    Noun("boat", "bateau", "m", "drawable"),
    Noun("lorry", "camion", "m", en_plural="lorries"),
)

TRANSPORT = _group(  # it has a timetable
    "scheduled visible",
    Noun("train", "train", "m"),
    Noun("bus", "bus", "m"),
    Noun("plane", "avion", "m"),
)

FURNITURE = _group(
    "furniture buyable priced small new old fine big visible modern",
    Noun("table", "table", "f", "paintable surface shelter"),
    Noun("chair", "chaise", "f", "paintable surface shelter comfortable coloured"),
    Noun("sofa", "canapé", "m", "surface shelter comfortable coloured"),
    Noun("bed", "lit", "m", "surface shelter comfortable"),
    Noun("desk", "bureau", "m", "paintable surface shelter"),
    Noun("shelf", "étagère", "f", "paintable surface", en_plural="shelves"),
    Noun("cupboard", "placard", "m", "paintable container closable"),
    Noun("wardrobe", "armoire", "f", "paintable container closable"),
    Noun("fridge", "frigo", "m", "container closable"),
)

PARTS = _group(  # of a house or garden
    "part visible old",
    Noun("drawer", "tiroir", "m", "container closable small big"),
    Noun("door", "porte", "f", "closable paintable coloured landmark back"),
    Noun("window", "fenêtre", "f", "closable washable big landmark"),
    Noun("wall", "mur", "m", "outdoors paintable coloured big landmark back"),
    Noun("tree", "arbre", "m", "outdoors drawable big fine landmark back shelter plant"),
)

ROOMS = _group(
    "room cleanable small big",
    Noun("kitchen", "cuisine", "f", "inside modern"),
    Noun("bedroom", "chambre", "f", "inside"),
    Noun("bathroom", "salle de bains", "f", "inside modern", fr_plural="salles de bains"),
    Noun("living room", "salon", "m", "inside modern"),
    Noun("garage", "garage", "m", "inside"),
    Noun("cellar", "cave", "f", "inside"),
    Noun("garden", "jardin", "m", "inside fine"),
)

PLACES = _group(  # one goes there, à la, au: to the market
    "place",
    Noun("market", "marché", "m", "fine"),
    Noun("school", "école", "f", "landmark visible old new big small modern no_article"),
    Noun("station", "gare", "f", "landmark visible old new big small modern"),
    Noun("beach", "plage", "f", "fine"),
    Noun("restaurant", "restaurant", "m", "landmark visible old new big small modern shop"),
    Noun("hospital", "hôpital", "m", "landmark visible old new big small modern"),
    Noun("cinema", "cinéma", "m", "landmark visible old new small shop"),
    Noun("library", "bibliothèque", "f", "landmark visible old new fine big small modern shop visitable"),
    Noun("museum", "musée", "m", "landmark visible old new fine big small modern shop visitable"),
    Noun("park", "parc", "m", "landmark visible fine big small"),
    Noun("swimming pool", "piscine", "f", "new big small shop"),
    Noun("airport", "aéroport", "m", "landmark visible new big small modern"),
    Noun("hotel", "hôtel", "m", "landmark visible old new fine big small modern shop"),
    Noun("bakery", "boulangerie", "f", "landmark visible old new small shop"),
    Noun("church", "église", "f", "outdoors landmark visible old fine big small visitable"),
    Noun("office", "bureau", "m"),
    Noun("castle", "château", "m", "drawable landmark visible old fine big small visitable"),
)

SIGHTS = _group(  # seen and visited
    "sight visible fine old big small",
    Noun(
        "house",
        "maison",
        "f",
        "drawable building landmark buyable priced new modern coloured paintable visitable cleanable",
    ),
    Noun("flat", "appartement", "m", "buyable priced new modern visitable cleanable"),
    Noun("bridge", "pont", "m", "drawable landmark visible new"),
    Noun("village", "village", "m", "visitable"),
    Noun("city", "ville", "f", "visitable modern"),
)

PEOPLE = _group(
    "person",
    Noun("man", "homme", "m", "adult young old", en_plural="men"),
    Noun("woman", "femme", "f", "adult young old", en_plural="women"),
    Noun("boy", "garçon", "m", "child small"),
    Noun("girl", "fille", "f", "child small"),
    Noun("child", "enfant", "m", "child", en_plural="children"),
    Noun("baby", "bébé", "m", "baby"),
    Noun("doctor", "médecin", "m", "adult young old"),
    Noun("teacher", "professeur", "m", "adult young old"),
    Noun("student", "étudiant", "m", "adult young"),
    Noun("baker", "boulanger", "m", "adult young old"),
    Noun("lawyer", "avocat", "m", "adult young old"),
    Noun("singer", "chanteur", "m", "adult young old audible"),
)

KIN = _group(  # always somebody's: my sister
    "kin",
    Noun("mother", "mère", "f"),
    Noun("father", "père", "m"),
    Noun("brother", "frère", "m", "countable"),
    Noun("sister", "sœur", "f", "countable"),
    Noun("son", "fils", "m", "countable"),
    Noun("daughter", "fille", "f", "countable"),
    Noun("uncle", "oncle", "m", "countable"),
    Noun("aunt", "tante", "f", "countable"),
    Noun("cousin", "cousin", "m", "countable"),
    Noun("grandfather", "grand-père", "m", fr_plural="grands-pères"),
    Noun("grandmother", "grand-mère", "f", fr_plural="grands-mères"),
    Noun("friend", "ami", "m", "countable"),
    Noun("neighbour", "voisin", "m", "countable"),
    Noun("parent", "parent", "m", "couple"),
)

WORKS = _group(  # watched or listened to
    "work new",
    Noun("film", "film", "m", "watchable old"),
    Noun("match", "match", "m", "watchable"),
    Noun("song", "chanson", "f", "audible old moving"),
    Noun("story", "histoire", "f", "audible readable writable old moving"),
)

NOUNS = (
    *(*FOODS, *DISHES, *DRINKS, *INGREDIENTS, *MATERIALS),
    *(*ANIMALS, *PEOPLE, *KIN),
    *(*THINGS, *TABLEWARE, *KEEPSAKES, *CLOTHES, *SHOES, *VEHICLES, *TRANSPORT, *FURNITURE, *WORKS),
    *(*PARTS, *ROOMS, *PLACES, *SIGHTS),
)


@cache
def nouns_with(tags: str) -> tuple[Noun, ...]:
    """The nouns that carry at least one of these tags, in the order of the lexicon."""
    return tuple(noun for noun in NOUNS if noun.has(tags))
