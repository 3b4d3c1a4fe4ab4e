"""The verbs of the sample corpus, grouped by what they take; `conjugations` has the irregular French forms."""

from sample_grammar.entries import Verb

BE = Verb("be", "être", past="was", stative=True)
HAVE = Verb("have", "avoir", past="had", stative=True)
BE_WITH_AVOIR = Verb("be", "avoir", stative=True)  # I am hungry: j'ai faim
NEED = Verb("need", "avoir", stative=True)  # j'ai besoin de
GO = Verb("go", "aller", past="went", with_etre=True)
COME = Verb("come", "venir", past="came", with_etre=True)
COME_BACK = Verb("come back", "revenir", past="came", with_etre=True)
GO_OUT = Verb("go out", "sortir", past="went", with_etre=True)
GO_HOME = Verb("go home", "rentrer", past="went", with_etre=True)
LEAVE = Verb("leave", "partir", past="left", with_etre=True)
ARRIVE = Verb("arrive", "arriver", with_etre=True)
STAY = Verb("stay", "rester", with_etre=True)
FALL = Verb("fall", "tomber", past="fell", with_etre=True)
BE_BORN = Verb("be born", "naître", past="was", with_etre=True)
LIVE = Verb("live", "habiter", stative=True)

LIKE = Verb("like", "aimer", stative=True)
LOVE = Verb("love", "aimer", stative=True, objects="kin")
HATE = Verb("hate", "détester", stative=True)
PREFER = Verb("prefer", "préférer", stative=True)
KNOW_THAT = Verb("know", "savoir", stative=True)
UNDERSTAND = Verb("understand", "comprendre", past="understood", stative=True)
THINK = Verb("think", "penser", stative=True)
SAY = Verb("say", "dire", stative=True)
HOPE = Verb("hope", "espérer", stative=True)
SPEAK = Verb("speak", "parler", past="spoke", stative=True)
LEARN = Verb("learn", "apprendre")
COST = Verb("cost", "coûter", past="cost", stative=True)
PLAY = Verb("play", "jouer")
PUT = Verb("put", "mettre", past="put", ing="putting")
PREPARE = Verb("prepare", "préparer")

WANT = Verb("want", "vouloir", stative=True)
WOULD_LIKE = Verb("would like", "vouloir", present="voudrais voudrais voudrait voudrions voudraient", stative=True)
CAN = Verb("can", "pouvoir", stative=True)
MUST = Verb("must", "devoir", stative=True)

EAT = Verb("eat", "manger", past="ate", objects="edible")
DRINK = Verb("drink", "boire", past="drank", objects="drinkable")
BUY = Verb("buy", "acheter", past="bought", objects="buyable")
SEE = Verb("see", "voir", past="saw", objects="visible", stative=True)
READ = Verb("read", "lire", past="read", objects="readable")
WRITE = Verb("write", "écrire", past="wrote", objects="writable")
WEAR = Verb("wear", "porter", past="wore", objects="wearable")
DRAW = Verb("draw", "dessiner", past="drew", objects="drawable")
WATCH = Verb("watch", "regarder", objects="watchable")
FIND = Verb("find", "trouver", past="found", objects="losable")
LOOK_FOR = Verb("look for", "chercher", objects="losable")
LOSE = Verb("lose", "perdre", past="lost", objects="losable")
FORGET = Verb("forget", "oublier", past="forgot", objects="losable")
SELL = Verb("sell", "vendre", past="sold", objects="priced")
CHOOSE = Verb("choose", "choisir", past="chose", objects="gift wearable")
CLEAN = Verb("clean", "nettoyer", objects="cleanable")
TAKE = Verb("take", "prendre", past="took", objects="losable")
VISIT = Verb("visit", "visiter", objects="visitable")
WAIT_FOR = Verb("wait for", "attendre")
MISS = Verb("miss", "rater")
OPEN = Verb("open", "ouvrir", objects="openable closable")

# Said of definite things: the door, my car, this letter.
DEFINITE_ACTIONS = (
    OPEN,
    LOOK_FOR,
    CHOOSE,
    Verb("close", "fermer", objects="closable"),
    Verb("wash", "laver", objects="washable"),
    CLEAN,
    Verb("repair", "réparer", objects="repairable"),
    Verb("paint", "peindre", objects="paintable"),
    SELL,
    TAKE,
    Verb("look at", "regarder", objects="fine"),
    Verb("listen to", "écouter", objects="audible"),
    VISIT,
)
# The same, but only of the past: one is not busy losing a key.
ACCIDENTS = (
    LOSE,
    FIND,
    FORGET,
    Verb("hide", "cacher", past="hid", objects="losable"),
    Verb("break", "casser", past="broke", objects="breakable"),
)

# Their object is a person: they also take me, you, him, her, us, them.
PERSON_ACTIONS = (
    Verb("call", "appeler"),
    Verb("help", "aider"),
    Verb("invite", "inviter"),
    Verb("thank", "remercier"),
    WAIT_FOR,
    Verb("look for", "chercher"),
    Verb("listen to", "écouter"),
)
PERSON_STATES = (
    SEE,
    Verb("hear", "entendre", past="heard", stative=True),
    Verb("know", "connaître", past="knew", stative=True),
    UNDERSTAND,
    LOVE,
)
MEET = Verb("meet", "rencontrer", past="met")

# They take a thing and a person: I am giving him a book.
GIVING = (
    Verb("give", "donner", past="gave", objects="gift"),
    Verb("show", "montrer", objects="gift"),
    Verb("send", "envoyer", past="sent", objects="sendable"),
    Verb("bring", "apporter", past="brought", objects="gift food"),
    Verb("lend", "prêter", past="lent", objects="lendable repairable"),
)

# Without an object.
ACTIVITIES = (
    Verb("sleep", "dormir", past="slept"),
    Verb("work", "travailler"),
    Verb("run", "courir", past="ran", ing="running"),
    Verb("walk", "marcher"),
    Verb("swim", "nager", past="swam", ing="swimming"),
    Verb("sing", "chanter", past="sang"),
    Verb("dance", "danser"),
    Verb("cook", "cuisiner"),
    Verb("study", "étudier"),
    Verb("travel", "voyager", past="travelled", ing="travelling"),
    Verb("laugh", "rire"),
    Verb("cry", "pleurer"),
    Verb("smile", "sourire"),
    Verb("drive", "conduire", past="drove"),
)
SLEEP, WORK, RUN, WALK, SWIM, SING, DANCE, COOK, STUDY, TRAVEL, LAUGH, CRY, SMILE, DRIVE = ACTIVITIES
SKILLS = (SWIM, SING, DANCE, COOK, DRIVE)
