"""A built-in English-French corpus, so that the demo needs no download: a lexicon, a grammar and a seed give sentences.

    from mtkit.sample import write_corpus
    corpus = write_corpus(Path("data/sample"))    # train, dev and test, .en and .fr

Bottom up:
- `nouns`, `verbs`, `words` are the lexicon: words with their translation, gender and irregular forms (`entries` says
  which), and tags that tell what goes with what, so that nobody eats a chair.
- `english` and `french` inflect words and spell them next to each other: je + aime gives j'aime, à + le gives au.
- `phrases` makes noun phrases (these old trees: ces vieux arbres), `clauses` makes clauses in every tense, as
  statement, negation or question, both languages from one description.
- `choices` draws people and things that suit each other; `frames` has a function for each kind of sentence;
  `grammar` says how often each is used.
- `corpus` draws distinct pairs, splits and writes them.

An English sentence has one translation. What English leaves open is settled thus: "I" is a man, "you" is one man whom
the speaker calls tu, "they" and "them" are masculine unless they stand for feminine nouns, the past is the passé
composé, questions are asked with est-ce que, and ? and ! have an ordinary space before them.
"""

from mtkit.sample.corpus import DEMO_PAIRS, SampleCorpus, SplitFiles, Splits, sample_pairs, split, write_corpus

__all__ = ["DEMO_PAIRS", "SampleCorpus", "SplitFiles", "Splits", "sample_pairs", "split", "write_corpus"]
