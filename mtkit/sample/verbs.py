"""The verbs of the sample corpus.

French present forms are those of je, tu, il, nous, ils: "you" is one person, tu, so that vous never occurs.
"""

from mtkit.sample.entries import Verb

BE = Verb("be", "être", past="was", present="suis es est sommes sont", participle="été", stative=True)
HAVE = Verb("have", "avoir", past="had", present="ai as a avons ont", participle="eu", stative=True)
BE_WITH_AVOIR = Verb("be", "avoir", present="ai as a avons ont", stative=True)  # I am hungry: j'ai faim
BE_WITH_FAIRE = Verb("be", "faire", present="fais fais fait faisons font", stative=True)  # it is cold: il fait froid
NEED = Verb("need", "avoir", present="ai as a avons ont", stative=True)  # j'ai besoin de
GO = Verb("go", "aller", past="went", present="vais vas va allons vont", with_etre=True)
COME = Verb(
    "come", "venir", past="came", present="viens viens vient venons viennent", participle="venu", with_etre=True
)
COME_BACK = Verb(
    "come back",
    "revenir",
    past="came",
    present="reviens reviens revient revenons reviennent",
    participle="revenu",
    with_etre=True,
)
GO_OUT = Verb(
    "go out", "sortir", past="went", present="sors sors sort sortons sortent", participle="sorti", with_etre=True
)
GO_HOME = Verb("go home", "rentrer", past="went", with_etre=True)
LEAVE = Verb(
    "leave", "partir", past="left", present="pars pars part partons partent", participle="parti", with_etre=True
)
ARRIVE = Verb("arrive", "arriver", with_etre=True)
STAY = Verb("stay", "rester", with_etre=True)
FALL = Verb("fall", "tomber", past="fell", with_etre=True)
BE_BORN = Verb("be born", "naître", past="was", participle="né", with_etre=True)
LIVE = Verb("live", "habiter", stative=True)

LIKE = Verb("like", "aimer", stative=True)
LOVE = Verb("love", "aimer", stative=True, objects="kin")
HATE = Verb("hate", "détester", stative=True)
PREFER = Verb("prefer", "préférer", stem="préfèr", stative=True)
KNOW_THAT = Verb("know", "savoir", present="sais sais sait savons savent", stative=True)
UNDERSTAND = Verb(
    "understand",
    "comprendre",
    past="understood",
    present="comprends comprends comprend comprenons comprennent",
    participle="compris",
    stative=True,
)
THINK = Verb("think", "penser", stative=True)
SAY = Verb("say", "dire", present="dis dis dit disons disent", stative=True)
HOPE = Verb("hope", "espérer", stem="espèr", stative=True)
SPEAK = Verb("speak", "parler", past="spoke", stative=True)
LEARN = Verb("learn", "apprendre", present="apprends apprends apprend apprenons apprennent", participle="appris")
COST = Verb("cost", "coûter", past="cost", stative=True)
PLAY = Verb("play", "jouer")
PUT = Verb("put", "mettre", past="put", ing="putting", present="mets mets met mettons mettent", participle="mis")
PREPARE = Verb("prepare", "préparer")

WANT = Verb("want", "vouloir", present="veux veux veut voulons veulent", stative=True)
WOULD_LIKE = Verb("would like", "vouloir", present="voudrais voudrais voudrait voudrions voudraient", stative=True)
CAN = Verb("can", "pouvoir", present="peux peux peut pouvons peuvent", stative=True)
MUST = Verb("must", "devoir", present="dois dois doit devons doivent", stative=True)

EAT = Verb("eat", "manger", past="ate", objects="edible")
DRINK = Verb(
    "drink", "boire", past="drank", present="bois bois boit buvons boivent", participle="bu", objects="drinkable"
)
BUY = Verb("buy", "acheter", past="bought", stem="achèt", objects="buyable")
SEE = Verb(
    "see", "voir", past="saw", present="vois vois voit voyons voient", participle="vu", objects="visible", stative=True
)
READ = Verb("read", "lire", past="read", present="lis lis lit lisons lisent", participle="lu", objects="readable")
WRITE = Verb(
    "write",
    "écrire",
    past="wrote",
    present="écris écris écrit écrivons écrivent",
    participle="écrit",
    objects="writable",
)
WEAR = Verb("wear", "porter", past="wore", objects="wearable")
DRAW = Verb("draw", "dessiner", past="drew", objects="drawable")
WATCH = Verb("watch", "regarder", objects="watchable")
FIND = Verb("find", "trouver", past="found", objects="losable")
LOOK_FOR = Verb("look for", "chercher", objects="losable")
LOSE = Verb("lose", "perdre", past="lost", objects="losable")
FORGET = Verb("forget", "oublier", past="forgot", objects="losable")
SELL = Verb("sell", "vendre", past="sold", objects="priced")
CHOOSE = Verb("choose", "choisir", past="chose", objects="gift wearable")
TAKE = Verb(
    "take",
    "prendre",
    past="took",
    present="prends prends prend prenons prennent",
    participle="pris",
    objects="losable",
)
WAIT_FOR = Verb("wait for", "attendre")
MISS = Verb("miss", "rater")
OPEN = Verb(
    "open", "ouvrir", present="ouvre ouvres ouvre ouvrons ouvrent", participle="ouvert", objects="openable closable"
)

# Said of definite things: the door, my car, this letter.
DEFINITE_ACTIONS = (
    OPEN,
    LOOK_FOR,
    CHOOSE,
    Verb("close", "fermer", objects="closable"),
    Verb("wash", "laver", objects="washable"),
    Verb("clean", "nettoyer", stem="nettoi", objects="cleanable"),
    Verb("repair", "réparer", objects="repairable"),
    Verb("paint", "peindre", present="peins peins peint peignons peignent", participle="peint", objects="paintable"),
    SELL,
    TAKE,
    Verb("look at", "regarder", objects="fine"),
    Verb("listen to", "écouter", objects="audible"),
    Verb("visit", "visiter", objects="visitable"),
)
# The same, but only of the past: one is not busy losing a key.
ACCIDENTS = (
    LOSE,
    FIND,
    FORGET,
    Verb("hide", "cacher", past="hid", objects="losable"),
    Verb("break", "casser", past="broke", objects="breakable"),
)
# Said of any one or of some: a letter, three apples.
INDEFINITE_ACTIONS = (EAT, DRINK, BUY, SEE, READ, WRITE, DRAW, WATCH)

# Their object is a person: they also take me, you, him, her, us, them.
PERSON_ACTIONS = (
    Verb("call", "appeler", stem="appell"),
    Verb("help", "aider"),
    Verb("invite", "inviter"),
    Verb("thank", "remercier"),
    WAIT_FOR,
    Verb("look for", "chercher"),
    Verb("look at", "regarder"),
    Verb("listen to", "écouter"),
)
PERSON_STATES = (
    SEE,
    Verb("hear", "entendre", past="heard", stative=True),
    Verb(
        "know",
        "connaître",
        past="knew",
        present="connais connais connaît connaissons connaissent",
        participle="connu",
        stative=True,
    ),
    UNDERSTAND,
    LOVE,
)
MEET = Verb("meet", "rencontrer", past="met")

# They take a thing and a person: I am giving him a book.
GIVING = (
    Verb("give", "donner", past="gave", objects="gift"),
    Verb("show", "montrer", objects="gift"),
    Verb("send", "envoyer", past="sent", stem="envoi", objects="sendable"),
    Verb("bring", "apporter", past="brought", objects="gift food"),
    Verb("lend", "prêter", past="lent", objects="lendable repairable"),
)

# Without an object.
ACTIVITIES = (
    Verb("sleep", "dormir", past="slept", present="dors dors dort dormons dorment", participle="dormi"),
    Verb("work", "travailler"),
    Verb("run", "courir", past="ran", ing="running", present="cours cours court courons courent", participle="couru"),
    Verb("walk", "marcher"),
    Verb("swim", "nager", past="swam", ing="swimming"),
    Verb("sing", "chanter", past="sang"),
    Verb("dance", "danser"),
    Verb("cook", "cuisiner"),
    Verb("study", "étudier"),
    Verb("travel", "voyager", past="travelled", ing="travelling"),
    Verb("laugh", "rire", present="ris ris rit rions rient", participle="ri"),
    Verb("cry", "pleurer"),
    Verb("smile", "sourire", present="souris souris sourit sourions sourient", participle="souri"),
    Verb(
        "drive", "conduire", past="drove", present="conduis conduis conduit conduisons conduisent", participle="conduit"
    ),
)
SLEEP, WORK, RUN, WALK, SWIM, SING, DANCE, COOK, STUDY, TRAVEL, LAUGH, CRY, SMILE, DRIVE = ACTIVITIES
