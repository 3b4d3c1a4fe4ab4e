"""Classify texts: predict labels with their probabilities."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mtkit.bundle import BundleFiles, find_model, read_bundle
from mtkit.config.reading.overrides import decode_overrides
from mtkit.console import counted, log
from mtkit.data.labelled import joined, most_tokens_read
from mtkit.engines.labels import LabelEngine, label_engine
from mtkit.errors import DataError
from mtkit.pair_files.lines import check_text, windows

_BATCHES_A_WINDOW = 16

Text = str | tuple[str, str]  # a text, or a source and a target


@dataclass(frozen=True)
class Classification:
    """The labels of a text, or of a pair of texts."""

    label: str | None  # the likeliest; None for a blank text, or a pair with a blank side
    probabilities: Mapping[str, float]  # of each label, with four decimals; empty for a blank text
    is_cut: bool = False  # whether only the first decode.max_src_tokens tokens of a text were read

    @property
    def probability(self) -> float | None:
        """The probability of the label."""
        return None if self.label is None else self.probabilities[self.label]


class Classifier:
    """A model that gives each text, or each pair of texts, one of some labels."""

    def __init__(self, engine: LabelEngine, files: BundleFiles) -> None:
        self.engine = engine
        self.files = files
        self.tokenizer = files.src_tokenizer
        self.labels = tuple(files.config.data.labels)
        self.reads_pairs = bool(files.config.data.pairs)
        self.decode = files.config.decode
        self.n_texts = self.n_cut = self.n_blank = 0  # so far

    @classmethod
    def load(
        cls,
        path: str | Path | None = None,
        *,
        device: str = "auto",
        overrides: Sequence[str] = (),
        threads: int | None = None,
        **decode: object,
    ) -> "Classifier":
        """Load the classifier in a run or bundle folder; by default $MTKIT_MODEL, else the newest run in ./runs.

        threads: for torch, in the whole process; default: one a core. decode: keys of the config's decode section, such
        as precision="int8". overrides: the same as text, such as "decode.precision=int8".
        Raises BundleError if there is no such model, or if it is a translator, ConfigError for a wrong key or value.
        """
        folder = find_model(None if path is None else Path(path))
        files = read_bundle(folder, [*overrides, *decode_overrides(decode)], task="classify")
        return cls(label_engine(files, device, threads or files.config.decode.threads), files)

    def __repr__(self) -> str:
        return f"Classifier({str(self.files.folder)!r}, labels={list(self.labels)})"

    def classify(self, texts: Sequence[Text]) -> list[Classification]:
        """Return the labels of each text, in order; of a classifier of pairs, each text is (source, target).

        Raises MtkitError, which names its number, for a text that is not one.
        """
        if isinstance(texts, str | bytes):
            raise TypeError("classify() takes a list of texts, not one string")
        return list(self.stream(texts))

    def stream(self, texts: Iterable[Text], *, window: int | None = None) -> Iterator[Classification]:
        """Yield the labels in order; read and classify one window of texts before reading the next."""
        for some in windows(texts, window or self.window):
            yield from self.classify_window(some)

    @property
    def window(self) -> int:
        """How many texts to read at once: enough for batches of similar length, with little padding."""
        return self.decode.batch_sentences * _BATCHES_A_WINDOW

    def classify_window(self, texts: Sequence[Text]) -> list[Classification]:
        """Classify the next texts, and count them, for `report`."""
        columns = self._columns(texts)
        encoded = [self.tokenizer.encode_batch(column) for column in columns]
        limit = self.longest_text
        rows = list(zip(*encoded, strict=True))
        readable = [index for index, row in enumerate(rows) if all(row)]
        decisions = self.engine.decide([joined([ids[:limit] for ids in rows[index]]) for index in readable])
        found = [Classification(None, {})] * len(texts)
        for index, best, row in zip(readable, decisions.best, decisions.probs.tolist(), strict=True):
            is_cut = any(len(ids) > limit for ids in rows[index])
            found[index] = Classification(self.labels[best], dict(zip(self.labels, row, strict=True)), is_cut)
        self.n_texts += len(texts)
        self.n_blank += len(texts) - len(readable)
        self.n_cut += sum(one.is_cut for one in found)
        return found

    @property
    def longest_text(self) -> int:
        """The number of tokens of a text that the classifier reads."""
        return most_tokens_read(self.files.config)

    def report(self) -> None:
        """Log how many texts were not read, or not to their end, if any."""
        if self.n_cut:
            log.warning(
                f"{self.n_cut:,} of {counted(self.n_texts, 'text')} have more than {self.longest_text} tokens and were "
                "judged by their beginning (decode.max_src_tokens)"
            )
        if self.n_blank and self.reads_pairs:
            log.info(f"{self.n_blank:,} of {counted(self.n_texts, 'pair')} have a blank side and get no label")

    def _columns(self, texts: Sequence[Text]) -> list[list[str]]:
        columns: list[list[str]] = [[] for _ in range(1 + self.reads_pairs)]
        for number, text in enumerate(texts, start=self.n_texts + 1):
            parts = text if isinstance(text, tuple | list) else (text,)
            if len(parts) != len(columns):
                wanted = "a source and a target" if self.reads_pairs else "one text"
                raise DataError(f"text {number}: {len(parts)} texts, but this classifier reads {wanted}")
            for column, part in zip(columns, parts, strict=True):
                check_text(part, number)
                column.append(part)
        return columns
