"""Write what the page for browsers needs to read lines as people type them: rules for its script, and a file of words.

The script, `mtkit/pages/templates/browser/reading.js`, decides as mtkit does. The patterns and tables are mtkit's own.
"""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.bundle import BundleFiles, bundle_file
from mtkit.pages.javascript import WORD_OF_REGEX, class_of, javascript_regex
from mtkit.text import capitals, lines, sentences
from mtkit.text.inline_tags import NUMBERED_TAG, TAG
from mtkit.text.placeholders import PROSE
from mtkit.text.templates import TEMPLATE
from mtkit.text.words import LONG_RUN, LONGEST_WORD
from mtkit.tokens.openings import LETTER_AT_END
from mtkit.tokens.openings import SHORTEST as SHORTEST_SENTENCE
from mtkit.tokens.protected import Protector
from mtkit.tokens.spelling import CLEARLY, SHORTEST, TYPED, checksum, frequent_words, neighbours
from mtkit.tokens.word_record import FILE as WORDS_FILE
from mtkit.tokens.word_record import WordRecord, load_words

_LAST_TYPED = 0x2000  # no letter of `TYPED` is beyond it


def words_of_bundle(files: BundleFiles) -> WordRecord | None:
    """Return the words of the training text of a model; None if they are unknown."""
    path = bundle_file(files, WORDS_FILE)
    return None if path is None else load_words(path)


def rules(files: BundleFiles) -> dict[str, Any]:
    """Return the rules for a model, as JSON."""
    protector = Protector(files.src_tokenizer, files.config.data.src_lang)
    patterns = {
        **capitals.patterns(),
        **sentences.PATTERNS,
        **lines.PATTERNS,
        "breakTag": re.compile(rf"\A{lines.BREAK_TAG.pattern}\Z", re.IGNORECASE),
        "template": TEMPLATE,
        "tag": TAG,
        "numberedTag": NUMBERED_TAG,
        "longRun": LONG_RUN,
        "typed": re.compile(rf"\A(?:{TYPED.pattern})\Z"),
        "letterAtEnd": LETTER_AT_END,
        "space": re.compile(r"\s+"),
        "spaceAtStart": re.compile(r"\A\s+"),
    }
    return {
        "patterns": {name: javascript_regex(pattern) for name, pattern in patterns.items()},
        # `Placeholders` searches with the package regex, whose \w has other characters.
        "prose": [javascript_regex(re.compile(pattern), WORD_OF_REGEX) for pattern in PROSE],
        "neighbours": neighbours(files.config.data.src_lang),
        "foreign": class_of(lambda c: bool(TYPED.fullmatch(c)) and protector.keeps_letter(c), range(_LAST_TYPED)),
        "digits": class_of(str.isdigit, range(0x20000)),
        "shortest": SHORTEST,
        "clearly": CLEARLY,
        "shortestSentence": SHORTEST_SENTENCE,
        "longestWord": LONGEST_WORD,
        "firstMask": sentences.MASKS[0],
        "lastMask": sentences.MASKS[-1],
        "sameEdges": lines.SAME_EDGES,
        "bySentence": files.has_one_sentence_a_line,
        **sentences.LIMITS,
    }


def write_words(path: Path, record: WordRecord) -> None:
    """Write the words that text is read by: a line of JSON, then checksums of 32 bits, packed together by gzip.

    In clear are only the words that others may be read as. Rare words, and first words, which may be names, are
    checksums.
    """
    frequent = frequent_words(record.counts)
    parts = {"rare": record.rare | {checksum(word) for word in record.counts if word not in frequent}}
    for mark in sorted(set(record.openings.values())):
        parts[mark] = {checksum(opening) for opening, its_mark in record.openings.items() if its_mark == mark}
    known = sorted(frequent, key=lambda word: (-frequent[word], word))
    sizes = {name: len(sums) for name, sums in parts.items()}
    head = {"words": " ".join(known), "counts": [frequent[word] for word in known], "sizes": sizes}
    sums = np.concatenate([np.array(sorted(part), "<u4") for part in parts.values()])
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":")) + "\n"
    path.write_bytes(gzip.compress(text.encode() + sums.tobytes(), mtime=0))
