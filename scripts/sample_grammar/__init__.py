"""Grammar of the built-in English-French corpus: a lexicon, rules and a seed give sentences in both languages.

scripts/make_sample.py writes what it generates into the package, as mtkit/data/sample.tsv.gz. Bottom up:
- `nouns`, `verbs`, `words` are the lexicon: words with their translation, gender and irregular forms (`entries`
  defines which), and tags that tell which words go together, so that no sentence eats a chair.
- `english` and `french` inflect words and spell them next to each other: je + aime gives j'aime, à + le gives au.
- `phrases` makes noun phrases (these old trees: ces vieux arbres), `clauses` makes clauses in every tense, as
  statement, negation or question, both languages from one description.
- `choices` draws people and things that suit each other; `frames` has a function for each kind of sentence;
  `grammar` lists them with their weights.
- `corpus` draws distinct pairs and splits them.

An English sentence has one translation. Where English is ambiguous, the grammar decides: "I" is a man, "you" is one
man whom the speaker calls tu, "they" and "them" are masculine unless they refer to feminine nouns, the past is the
passé composé, questions use est-ce que, and ? and ! have an ordinary space before them.
"""
