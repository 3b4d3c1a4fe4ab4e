"""Rewrite corpora in another format, all into one file or one pair of files."""

from collections.abc import Sequence
from pathlib import Path

from mtkit.config.data import CorpusFiles
from mtkit.console import progress_bar
from mtkit.data.corpus import corpus_name, log_remark, read_corpus
from mtkit.errors import DataError
from mtkit.pair_files.corpus_files import check_distinct, check_outputs, writing
from mtkit.pair_files.pairs import EMPTY, Languages, Tally

_SHOWN_EVERY = 1000  # pairs


def convert(
    corpora: Sequence[CorpusFiles], langs: Languages, outputs: Sequence[Path], encodings: Sequence[str] = ()
) -> Tally:
    """Write the pairs of the corpora, in order, and return what was read and left out.

    langs: source and target, as the output names them. encodings: of the text that is read, if it is not UTF-8; of
    several, the first that fits each line. The outputs appear when all is written. Raises DataError if there is nothing
    to write.
    """
    check_outputs(outputs, langs)
    check_distinct([("--output", path) for path in outputs], [path for corpus in corpora for path in corpus.paths])
    total = Tally()
    sizes = [corpus.paths[0].stat().st_size for corpus in corpora]
    options = {"unit_scale": True, "unit_divisor": 1000}
    with writing(outputs, langs) as write, progress_bar(sum(sizes), "converting", "B", **options) as bar:
        for corpus, size in zip(corpora, sizes, strict=True):
            tally, n_bytes_before = Tally(), bar.n
            for n, pair in enumerate(read_corpus(corpus, tally, encodings), start=1):
                write(pair.src, pair.tgt)
                if n % _SHOWN_EVERY == 0:
                    bar.update(n_bytes_before + tally.n_bytes_read() - bar.n)
            bar.update(n_bytes_before + size - bar.n)
            if not tally.n_units and len(corpora) > 1:
                log_remark(corpus, EMPTY)
            total.add(tally)
        if total.n_units == total.left_out.total():
            found = str(total) if total.n_units else "empty: no line, no unit"
            raise DataError(f"{' '.join(map(corpus_name, corpora))}: {found}; nothing was written")
    return total
