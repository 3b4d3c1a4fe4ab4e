#!/usr/bin/env python3
"""Makes the sample corpus in mtkit/data from its grammar. Run it after a change of the grammar; a test compares."""

import gzip
import hashlib
import io

from sample_grammar.corpus import sample_pairs, split

from mtkit.data.sample import SAMPLE_FILE


def sample_text() -> str:
    """Return the lines of the file: part, English and French, separated by tabs."""
    splits = split(sample_pairs())._asdict()
    return "".join(f"{part}\t{en}\t{fr}\n" for part, pairs in splits.items() for en, fr in pairs)


def compress(text: str) -> bytes:
    """Return the text as a gzip file without name and time, so that the same text gives the same bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as file:
        file.write(text.encode("utf-8"))
    return buffer.getvalue()


def main() -> None:
    """Write the file and print the checksum that belongs into mtkit/data/sample.py."""
    content = compress(sample_text())
    SAMPLE_FILE.write_bytes(content)
    print(f'SAMPLE_SHA256 = "{hashlib.sha256(content).hexdigest()}"')


if __name__ == "__main__":
    main()
