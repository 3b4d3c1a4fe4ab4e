"""French verbs that the rules of `sample_grammar.french` do not conjugate.

Present forms are those of je, tu, il, nous, ils: "you" is one person, tu, so that vous never occurs.
"""

IRREGULAR = {  # infinitive: present, past participle
    "être": ("suis es est sommes sont", "été"),
    "avoir": ("ai as a avons ont", "eu"),
    "dire": ("dis dis dit disons disent", "dit"),
    "aller": ("vais vas va allons vont", "allé"),
    "venir": ("viens viens vient venons viennent", "venu"),
    "revenir": ("reviens reviens revient revenons reviennent", "revenu"),
    "partir": ("pars pars part partons partent", "parti"),
    "sortir": ("sors sors sort sortons sortent", "sorti"),
    "dormir": ("dors dors dort dormons dorment", "dormi"),
    "courir": ("cours cours court courons courent", "couru"),
    "ouvrir": ("ouvre ouvres ouvre ouvrons ouvrent", "ouvert"),
    "naître": ("nais nais naît naissons naissent", "né"),
    "connaître": ("connais connais connaît connaissons connaissent", "connu"),
    "prendre": ("prends prends prend prenons prennent", "pris"),
    "apprendre": ("apprends apprends apprend apprenons apprennent", "appris"),
    "comprendre": ("comprends comprends comprend comprenons comprennent", "compris"),
    "mettre": ("mets mets met mettons mettent", "mis"),
    "peindre": ("peins peins peint peignons peignent", "peint"),
    "conduire": ("conduis conduis conduit conduisons conduisent", "conduit"),
    "lire": ("lis lis lit lisons lisent", "lu"),
    "écrire": ("écris écris écrit écrivons écrivent", "écrit"),
    "boire": ("bois bois boit buvons boivent", "bu"),
    "rire": ("ris ris rit rions rient", "ri"),
    "sourire": ("souris souris sourit sourions sourient", "souri"),
    "voir": ("vois vois voit voyons voient", "vu"),
    "savoir": ("sais sais sait savons savent", "su"),
    "vouloir": ("veux veux veut voulons veulent", "voulu"),
    "pouvoir": ("peux peux peut pouvons peuvent", "pu"),
    "devoir": ("dois dois doit devons doivent", "dû"),
}

STRONG_STEMS = {  # -er verbs whose stem changes for je, tu, il, ils: achèt-e, but achet-ons
    "acheter": "achèt",
    "appeler": "appell",
    "envoyer": "envoi",
    "espérer": "espèr",
    "nettoyer": "nettoi",
    "préférer": "préfèr",
}
