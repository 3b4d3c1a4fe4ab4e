"""Read labelled text: TSV files with text, label or source, target, label on each line."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mtkit.config.classification import MOST_LABELS
from mtkit.config.data import CorpusFiles, DataConfig
from mtkit.console import log, shortened
from mtkit.data.corpus import require_files
from mtkit.errors import DataError, did_you_mean
from mtkit.pair_files.lines import read_lines

_N_LISTED = 10


class Example(NamedTuple):
    """A text or a pair of texts, with its label and its place."""

    texts: tuple[str, ...]
    label: str
    file: str
    line: int  # from 1

    @property
    def place(self) -> str:
        """The file and the line, for messages."""
        return f"{self.file}: line {self.line}"


@dataclass(frozen=True)
class Labelling:
    """The labels of the rows of some files, and the number of texts in each row."""

    labels: tuple[str, ...]
    n_texts: int  # 1, or 2: source and target

    @property
    def row(self) -> str:
        """The word for a row in messages."""
        return "text, tab, label" if self.n_texts == 1 else "source, tab, target, tab, label"


def read_examples(corpora: Sequence[CorpusFiles], n_texts: int | None = None) -> Iterator[Example]:
    """Yield every row of every file, in order.

    n_texts: texts in each row; default: as in the first row. Raises DataError for a row with other columns, or without
    a label.
    """
    is_given = n_texts is not None
    for corpus in corpora:
        assert corpus.tsv is not None  # the schema ensures it
        for number, line in enumerate(read_lines(corpus.tsv), start=1):
            *texts, label = line.split("\t")
            if n_texts is None and len(texts) in (1, 2):
                n_texts = len(texts)
            example = Example(tuple(texts), label.strip(), str(corpus.tsv), number)
            if len(texts) != n_texts:
                raise DataError(_wrong_columns(example, line, n_texts, is_given=is_given))
            if not example.label:
                raise DataError(f"{example.place}: the label, the last column, is empty; write one, or remove the line")
            yield example


def _wrong_columns(example: Example, line: str, n_texts: int | None, *, is_given: bool) -> str:
    n_columns = len(example.texts) + 1
    has = "is empty" if not line else f"has {n_columns} column{'s' if n_columns > 1 else ''}"
    if n_texts is None:
        return f"{example.place} {has}; write text, tab, label, or source, tab, target, tab, label"
    reader = f"a classifier of {'single texts' if n_texts == 1 else 'pairs'} (data.pairs)"
    why = f"which {reader} reads" if is_given else "like the rows before it"
    return f"{example.place} {has}, not {n_texts + 1} ({Labelling((), n_texts).row}), {why}; correct it"


def find_labelling(corpora: Sequence[CorpusFiles], pairs: bool | None = None) -> Labelling:
    """Read the sorted labels and the number of texts in a row. pairs: whether each row must have two texts.

    Raises DataError if the text cannot be read, or if the last column does not hold labels (one value, or very many).
    """
    counts: Counter[str] = Counter()
    n_texts = None if pairs is None else 1 + pairs
    for example in read_examples(corpora, n_texts):
        counts[example.label] += 1
        if len(counts) > MOST_LABELS:
            raise DataError(
                f"{example.place}: the {MOST_LABELS + 1:,}th different label, {_shown(example.label)}; a classifier "
                f"can have at most {MOST_LABELS:,} labels. The label must be the last column: check the order of the "
                "columns"
            )
        n_texts = len(example.texts)
    files = ", ".join(str(corpus.tsv) for corpus in corpora)
    if n_texts is None or not counts:
        raise DataError(f"{files}: no text; write text, tab, label on each line")
    if len(counts) == 1:
        [label] = counts
        raise DataError(
            f"{files}: every line has the label {_shown(label)}; a classifier needs at least two labels. The label "
            "must be the last column"
        )
    if rare := sorted(label for label, n in counts.items() if n == 1):
        listed = ", ".join(map(_shown, rare[:_N_LISTED])) + (", ..." if len(rare) > _N_LISTED else "")
        log.warning(
            f"{files}: {len(rare)} of {len(counts)} labels have a single line, which is too few to learn from "
            f"({listed}); check whether one of them is the heading of the column"
        )
    return Labelling(tuple(sorted(counts)), n_texts)


def with_found_labels(data: DataConfig) -> DataConfig:
    """Return a classifier's data section, with missing labels and pairs filled in from its training text.

    Raises DataError if there is no such text, or if the last column does not hold labels.
    """
    if data.labels and data.pairs is not None:
        return data
    require_files("data.train", data.train)
    found = find_labelling(data.train, data.pairs)
    return data.model_copy(update={"labels": data.labels or list(found.labels), "pairs": found.n_texts == 2})


def label_ids(labelling: Labelling) -> dict[str, int]:
    """Return the id of each label as a target, from 1: 0 is padding."""
    return {label: index for index, label in enumerate(labelling.labels, start=1)}


def label_id(example: Example, ids: dict[str, int]) -> int:
    """Return the id of the example's label. Raises DataError, with its place, if there is none."""
    found = ids.get(example.label)
    if found is None:
        hint = (
            did_you_mean(example.label, ids, shown={label: _shown(label) for label in ids})
            or f"it has {listed(list(ids))}"
        )
        raise DataError(
            f"{example.place}: the label {_shown(example.label)} is not one of the classifier's {len(ids)}; {hint}"
        )
    return found


def listed(labels: Sequence[str]) -> str:
    """Return labels for a message: the first ten in quotes."""
    return ", ".join(map(_shown, labels[:_N_LISTED])) + (", ..." if len(labels) > _N_LISTED else "")


def _shown(label: str) -> str:
    return repr(shortened(label, 60))
