"""Measure how well `mtkit data align` pairs the sentences of documents whose alignment is known.

The documents are the pages of a Debian manual in two languages. Pages whose HTML has the same blocks in both are cut
into sentences; the blocks say which belong together. Where a block has as many sentences in both languages, they are
taken for pairs; where it has one more in one language, and only one in the other, for two-one. Other blocks are left
out of the count. To have every kind, some blocks are removed from one side, and some sentences joined.

    python scripts/bench/data/align.py installation-guide-amd64/en installation-guide-amd64/fr --peer PYTHON

--peer: a Python with galechurch (PyPI), which aligns the same sentences. F1 is of whole beads, by kind.

--model: a bundle that translates the source; mtkit aligns with its translations, too, and with random words instead of
them, as the worst of models would give. --disguise replaces each letter of the source (not for the model), so
that the languages share no words, and --blocks takes the first blocks only: there a model helps.
"""

import argparse
import codecs
import html.parser
import json
import random
import re
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from mtkit.corpora.alignment.document_pairs import align_documents
from mtkit.text.sentences import sentences
from mtkit.translation.translator import Translator

TEXT_BLOCKS = {"p", "li", "dt", "dd", "td", "th", "h1", "h2", "h3", "h4", "h5", "h6", "title"}
BLOCKS = TEXT_BLOCKS | {"pre", "div", "ul", "ol", "dl", "table", "tr", "body", "blockquote", "hr", "br"}
NAVIGATION = re.compile(r"navheader|navfooter|navigation|toc")
PEER = """
import json, sys, galechurch
src, tgt = json.load(sys.stdin)
print(json.dumps([[b.source_start, b.source_end, b.target_start, b.target_end] for b in
                  galechurch.align(src, tgt, max_block_size=10**9).beads]))
"""

Bead = tuple[tuple[int, int], tuple[int, int]]
Block = tuple[str, str]  # tag, text
Translations = dict[str, str]


class Page(html.parser.HTMLParser):
    """The blocks of a page, in order, without navigation and listings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.blocks: list[Block] = []
        self._open: list[tuple[str, bool]] = []  # tag, and whether its text is left out
        self._text: list[str] = []
        self.feed(text)
        self._flush()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag, and whether what it holds is left out."""
        if tag in BLOCKS:
            self._flush()
        if tag not in ("br", "hr", "img", "meta", "link", "input", "col"):
            outside = any(hidden for _, hidden in self._open)
            navigation = NAVIGATION.search(dict(attrs).get("class") or "")
            self._open.append((tag, outside or bool(navigation) or tag in ("pre", "head", "script", "style")))

    def handle_endtag(self, tag: str) -> None:
        """Close the tag, and the open ones inside it."""
        if tag in BLOCKS:
            self._flush()
        if tag in [name for name, _ in self._open]:
            while self._open.pop()[0] != tag:
                pass

    def handle_data(self, data: str) -> None:
        """Note text."""
        self._text.append(data)

    def _flush(self) -> None:
        text = " ".join("".join(self._text).split())
        self._text = []
        if text and self._open and not self._open[-1][1]:
            tag = next((name for name, _ in reversed(self._open) if name in BLOCKS), "")
            self.blocks.append((tag, text))


def blocks_of(files: Sequence[Path]) -> list[list[Block]]:
    """Return the blocks of pages."""
    return [Page(path.read_text(encoding="utf-8", errors="replace")).blocks for path in files]


def parallel_blocks(folders: Sequence[Path], patterns: Sequence[str]) -> list[tuple[str, str]]:
    """Return the blocks of the pages that have the same ones in both folders, and say how many pages those are."""
    names = [
        {path.name.replace(pattern.replace("*", ""), ""): path for path in folder.glob(pattern)}
        for folder, pattern in zip(folders, patterns, strict=True)
    ]
    common = sorted(names[0].keys() & names[1].keys())
    found: list[tuple[str, str]] = []
    n_equal = 0
    for name in common:
        src, tgt = blocks_of([names[0][name], names[1][name]])
        if [tag for tag, _ in src] == [tag for tag, _ in tgt]:
            n_equal += 1
            found += [(a, b) for (_, a), (_, b) in zip(src, tgt, strict=True)]
    print(f"{n_equal} of {len(common)} pages have the same blocks in both languages: {len(found)} blocks")
    return found


class Gold:
    """Two documents as sentences, the beads that are known, and the stretches where they are not."""

    def __init__(self, blocks: Sequence[tuple[str, str]], seed: int) -> None:
        rng = random.Random(seed)
        self.src: list[str] = []
        self.tgt: list[str] = []
        self.beads: list[Bead] = []
        self.unknown: list[Bead] = []
        for src_text, tgt_text in blocks:
            src, tgt = sentences(src_text), sentences(tgt_text)
            draw = rng.random()
            if draw < 0.02:
                self._gap(src, self.src, 0)
            elif draw < 0.04:
                self._gap(tgt, self.tgt, 1)
            elif len(src) != len(tgt):
                self._add(src, tgt)
            else:
                for group in _groups(len(src), rng):
                    self._add(*_joined(src, tgt, group, rng))

    def _gap(self, new: list[str], side: list[str], which: int) -> None:
        for sentence in new:
            a, b = len(self.src), len(self.tgt)
            self.beads.append(((a, a + 1), (b, b)) if which == 0 else ((a, a), (b, b + 1)))
            side.append(sentence)

    def _add(self, src: list[str], tgt: list[str]) -> None:
        a, b = len(self.src), len(self.tgt)
        bead = (a, a + len(src)), (b, b + len(tgt))
        known = (len(src), len(tgt)) in ((1, 1), (1, 2), (2, 1))
        (self.beads if known else self.unknown).append(bead)
        self.src += src
        self.tgt += tgt

    def without_chapter(self, which: int, place: float, share: float) -> "Gold":
        """Return the documents with a part of one side missing. which: 0 source, 1 target."""
        return self._changed(which, place, share, move=False)

    def out_of_order(self, place: float, share: float) -> "Gold":
        """Return the documents with a part of the target moved to its end."""
        return self._changed(1, place, share, move=True)

    def _changed(self, which: int, place: float, share: float, move: bool) -> "Gold":
        new = Gold([], 0)
        new.src, new.tgt = [*self.src], [*self.tgt]
        side = (new.src, new.tgt)[which]
        first = int(place * len(side))
        last = first + int(share * len(side))
        edges = {span[which][e] for span in self.beads + self.unknown for e in (0, 1)}
        first, last = (min(edges, key=lambda edge: abs(edge - at)) for at in (first, last))
        part = side[first:last]
        del side[first:last]
        n = len(side)
        if move:
            side += part

        def turned(span: tuple[int, int]) -> tuple[int, int] | None:
            if span[0] >= last:
                return span[0] - len(part), span[1] - len(part)
            if span[1] <= first:
                return span
            return (span[0] - first + n, span[1] - first + n) if move else None

        for beads, out in ((self.beads, new.beads), (self.unknown, new.unknown)):
            for bead in beads:
                spans = list(bead)
                if (span := turned(spans[which])) is not None:
                    spans[which] = span
                    out.append((spans[0], spans[1]))
                elif spans[1 - which][0] < spans[1 - which][1]:
                    for line in range(*spans[1 - which]):
                        gap = [(line, line + 1), (line, line + 1)]
                        gap[which] = (first, first)
                        new.beads.append((gap[0], gap[1]))
        return new


def _groups(n: int, rng: random.Random) -> list[tuple[int, int]]:
    """Return spans of one sentence, and of two now and then."""
    groups, place = [], 0
    while place < n:
        size = 2 if place + 1 < n and rng.random() < 0.08 else 1
        groups.append((place, place + size))
        place += size
    return groups


def _joined(src: list[str], tgt: list[str], group: tuple[int, int], rng: random.Random) -> tuple[list[str], list[str]]:
    """Return the sentences of a span; of two, those of one side joined."""
    a, b = src[slice(*group)], tgt[slice(*group)]
    if group[1] - group[0] == 2:
        return ([" ".join(a)], b) if rng.random() < 0.5 else (a, [" ".join(b)])
    return a, b


def scores(gold: Gold, beads: Sequence[Bead]) -> dict[str, float]:
    """Return F1 by kind, and of all pairs."""

    def single(items: Sequence[Bead]) -> list[Bead]:
        """Return the beads with each gap as single sentences, at no particular place of the other side."""
        found: list[Bead] = []
        for src, tgt in items:
            if src[0] == src[1]:
                found += [((-1, -1), (line, line + 1)) for line in range(*tgt)]
            elif tgt[0] == tgt[1]:
                found += [((line, line + 1), (-1, -1)) for line in range(*src)]
            else:
                found.append((src, tgt))
        return found

    def kind(bead: Bead) -> str:
        fewer, more = sorted(span[1] - span[0] for span in bead)
        return {(0, 1): "gap", (1, 1): "1-1", (1, 2): "1-2, 2-1"}.get((fewer, more), "other")

    unknown_src = {line for src, _ in gold.unknown for line in range(*src)}
    unknown_tgt = {line for _, tgt in gold.unknown for line in range(*tgt)}

    def judged(bead: Bead) -> bool:
        """Whether a bead has a sentence whose partner is known."""
        lines = [(line, unknown_src) for line in range(*bead[0])] + [(line, unknown_tgt) for line in range(*bead[1])]
        return any(line not in unknown for line, unknown in lines)

    truth, answer = set(single(gold.beads)), {bead for bead in single(beads) if judged(bead)}
    result = {}
    for name in ("1-1", "1-2, 2-1", "gap", "pairs"):
        chosen = [{b for b in s if (kind(b) == name if name != "pairs" else kind(b) != "gap")} for s in (truth, answer)]
        both = len(chosen[0] & chosen[1])
        result[name] = 2 * both / max(1, len(chosen[0]) + len(chosen[1]))
    return result


def mtkit_beads(gold: Gold, translations: Translations | None = None, disguise: bool = False) -> list[Bead]:
    """Return mtkit's alignment."""
    src = [codecs.encode(line, "rot13") for line in gold.src] if disguise else gold.src
    known = None if translations is None else [translations[line] for line in gold.src]
    aligned = align_documents(src, gold.tgt, known)
    spans = zip(aligned.beads.src.tolist(), aligned.beads.tgt.tolist(), strict=True)
    beads: list[Bead] = [((a, b), (c, d)) for (a, b), (c, d) in spans]
    alone = aligned.unaligned()
    return beads + [((i, i + 1), (0, 0)) for i in alone[0]] + [((0, 0), (j, j + 1)) for j in alone[1]]


def translated(model: Path, lines: Sequence[str]) -> Translations:
    """Return the translation of each distinct line, by greedy search."""
    distinct = sorted(set(lines))
    return dict(zip(distinct, Translator.load(model, beam_size=1).translate(distinct), strict=True))


def at_random(translations: Translations, seed: int) -> Translations:
    """Return as many words for each line as its translation has, drawn from all translations."""
    rng = random.Random(seed)
    words = " ".join(translations.values()).split()
    return {line: " ".join(rng.choices(words, k=len(text.split()))) for line, text in translations.items()}


def peer_beads(gold: Gold, python: str) -> list[Bead]:
    """Return galechurch's alignment."""
    text = json.dumps([gold.src, gold.tgt])
    done = subprocess.run([python, "-c", PEER], input=text, capture_output=True, text=True, check=True)
    return [((a, b), (c, d)) for a, b, c, d in json.loads(done.stdout)]


def main() -> None:
    """Print a row for each version of the documents and each aligner."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs=2, type=Path)
    parser.add_argument("--pages", nargs=2, default=["*.html", "*.html"], help="such as *.en.html *.fr.html")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peer", help="a Python that has galechurch")
    parser.add_argument("--blocks", type=int, help="only the first ones")
    parser.add_argument("--model", type=Path, help="translates the source")
    parser.add_argument("--disguise", action="store_true", help="as languages that share no words")
    args = parser.parse_args()
    whole = Gold(parallel_blocks(args.folders, args.pages)[: args.blocks], args.seed)
    sizes = Counter(f"{b - a}-{d - c}" for (a, b), (c, d) in whole.beads)
    print(f"{len(whole.src)} and {len(whole.tgt)} sentences; known beads: {dict(sizes)}; unknown: {len(whole.unknown)}")
    versions = {
        "whole": whole,
        "a tenth missing in the source": whole.without_chapter(0, 0.3, 0.1),
        "a fifth missing in the target": whole.without_chapter(1, 0.5, 0.2),
        "a tenth of the target moved to its end": whole.out_of_order(0.4, 0.1),
    }
    aligners = {"mtkit": partial(mtkit_beads, disguise=args.disguise)}
    if args.model:
        good = translated(args.model, whole.src)
        for name, translations in {"a model": good, "random words": at_random(good, args.seed)}.items():
            aligners[f"mtkit with {name}"] = partial(mtkit_beads, translations=translations, disguise=args.disguise)
    if args.peer:
        aligners["galechurch"] = partial(peer_beads, python=args.peer)
    for name, gold in versions.items():
        for aligner, align in aligners.items():
            started = time.perf_counter()
            row = ", ".join(f"{kind} {value:.3f}" for kind, value in scores(gold, align(gold)).items())
            print(f"{name} | {aligner} | F1: {row} | {time.perf_counter() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main()
