"""Write each pair as a line of JSON, so that a job that reads lines can process pairs."""

import json
from collections.abc import Iterator, Sequence
from functools import partial

from mtkit.config.data import CorpusFiles
from mtkit.data.corpus import read_pairs
from mtkit.files import parse_json
from mtkit.jobs.line_job import Text


def pair_text(corpora: Sequence[CorpusFiles]) -> Text:
    """Return the pairs of corpora as lines for `pair_of`."""
    return Text(partial(_lines, corpora), [path for corpus in corpora for path in corpus.paths])


def pair_of(line: str) -> tuple[str, str]:
    """Return the source and the target of a line."""
    src, tgt = parse_json(line)
    return src, tgt


def _lines(corpora: Sequence[CorpusFiles]) -> Iterator[str]:
    return (json.dumps([pair.src, pair.tgt], ensure_ascii=False) for pair in read_pairs(corpora))
