"""Plant tags around words of sentences, translate them, and measure whether the tags end around the right words.

    .venv/bin/python scripts/bench/alignment/markup.py --model runs/en-fr --src dev.en.gz --lines 2000

The right words are those that the model's guide links to the tagged words: two lexicons, learnt from the training text
of the run, that know nothing of the model's attention. A pair of tags counts if all of its words have sure links (a
probability of --sure in both directions), to target words between which no word links to another source word. It is
right if it encloses all of these words, and besides them only words without a link, such as articles.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch

from mtkit.config.loading import load_config
from mtkit.data.special_ids import EOS_ID
from mtkit.documents.marked_lines import MarkedLines
from mtkit.formats.lines import read_lines
from mtkit.training import alignment_guide
from mtkit.training.alignment_guide import AlignmentGuide
from mtkit.training.parallel_text import prepare_pairs
from mtkit.translation.translator import Translator

_TAG = re.compile(r"</?[a-c]>")
Links = set[tuple[int, int]]  # source word, target word; words are what white space separates


def plant(line: str, rng: random.Random) -> tuple[str, dict[str, range]]:
    """Return the line with one to three pairs of tags around one to three words each, and their words."""
    words = line.split()
    places: dict[str, range] = {}
    for tag in "abc"[: rng.randint(1, 3)]:
        size = rng.randint(1, min(3, len(words)))
        start = rng.randrange(len(words) - size + 1)
        if all(set(range(start, start + size)).isdisjoint(other) for other in places.values()):
            places[tag] = range(start, start + size)
    for tag, where in places.items():
        words[where[0]] = f"<{tag}>{words[where[0]]}"
        words[where[-1]] = f"{words[where[-1]]}</{tag}>"
    return " ".join(words), places


def tagged_words(text: str, tag: str) -> set[int]:
    """Return the words that stand, at least in part, between the tags, without those of which only a mark does."""
    start, end = text.index(f"<{tag}>"), text.index(f"</{tag}>")
    found = set()
    for index, word in enumerate(re.finditer(r"\S+", text)):
        inside = "".join(
            text[place] for place in range(max(word.start(), start), min(word.end(), end)) if text[place].isalnum()
        )
        if _TAG.sub("", inside):
            found.add(index)
    return found


class Judge:
    """Links of the lexicons between words."""

    def __init__(self, run: Path, sure: float) -> None:
        alignment_guide._LEAST = sure
        cfg = load_config(run / "config.yaml")
        text = prepare_pairs(cfg, run, is_verified=True)
        self.tokenizers = text.tokenizers
        sizes = [tokenizer.vocab_size for tokenizer in self.tokenizers]
        self.guide = AlignmentGuide.learn(text.train.src, text.train.tgt, sizes[0], sizes[1])

    def links(self, src: str, tgt: str) -> Links:
        """Return the links between words that any of their tokens have."""
        src_tokenizer, tgt_tokenizer = self.tokenizers
        ids = [torch.tensor([[*t.encode(text), EOS_ID]]) for t, text in zip(self.tokenizers, (src, tgt), strict=True)]
        rows = self.guide.links(ids[0], ids[1])[0, :-1, :-1].nonzero().tolist()
        words = _words(src, src_tokenizer.spans(src)), _words(tgt, tgt_tokenizer.spans(tgt))
        names = [[any(map(str.isalnum, word)) for word in text.split()] for text in (src, tgt)]
        links = {(words[0][s], words[1][t]) for t, s in rows}
        return {(s, t) for s, t in links if names[0][s] and names[1][t]}


def _words(text: str, spans: Sequence[tuple[int, int]]) -> list[int]:
    return [len(text[: max(start + 1, end)].split()) - 1 for start, end in spans]


def expected(links: Links, words: range) -> tuple[set[int], set[int]] | None:
    """Return the target words that belong to these source words, and those that do not, if there is no doubt."""
    own = {t for s, t in links if s in words}
    others = {t for s, t in links if s not in words}
    if not own or any(not any(s == word for s, _ in links) for word in words):
        return None
    return None if any(min(own) <= t <= max(own) for t in others) else (own, others)


def main() -> None:
    """Print one line of figures, and examples of what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="run folder")
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--sure", type=float, default=0.7)
    args = parser.parse_args()
    rng = random.Random(1)
    lines = [line for line in read_lines(args.src) if len(line.split()) > 2][: args.lines]
    planted = [plant(line, rng) for line in lines]
    marked = MarkedLines(Translator.load(args.model, engine="native"))
    judge = Judge(args.model, args.sure)
    counts: Counter[str] = Counter()
    wrong = []
    for start in range(0, len(planted), 200):
        part = planted[start : start + 200]
        for (source, places), line, found in zip(
            part, lines[start : start + 200], marked.translate([text for text, _ in part]), strict=True
        ):
            counts["lines"] += 1
            counts["valid"] += Counter(_TAG.findall(found)) == Counter(_TAG.findall(source)) and _is_nested(found)
            plain = _TAG.sub("", found)
            links = judge.links(line, plain)
            for tag, words in places.items():
                counts["pairs"] += 1
                right = expected(links, words)
                if right is None:
                    continue
                counts["sure"] += 1
                tagged, (own, others) = tagged_words(found, tag), right
                is_right = own <= tagged and not tagged & others
                counts["right"] += is_right
                if not is_right:
                    wrong.append(f"{source}\n  {found}  <{tag}> expected around {sorted(own)}")
    print("\n".join(rng.sample(wrong, min(20, len(wrong)))))
    print(
        f"{counts['lines']:,} lines, structure valid in {counts['valid'] / counts['lines']:.2%}; {counts['pairs']:,} "
        f"pairs of tags, {counts['sure']:,} without doubt, {counts['right'] / max(1, counts['sure']):.1%} of these "
        f"right; {marked.n_guessed:,} places were guesses"
    )


def _is_nested(text: str) -> bool:
    waiting: list[str] = []
    for tag in _TAG.findall(text):
        if not tag.startswith("</"):
            waiting.append(tag.strip("<>"))
        elif not waiting or waiting.pop() != tag.strip("</>"):
            return False
    return not waiting


if __name__ == "__main__":
    main()
