"""A process that indexes an uploaded translation memory; requests on standard input, replies on standard output.

Like a document, an upload may take seconds to read or be designed to harm, so a separate process reads it.
"""

import io
import json
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtkit.errors import MtkitError
from mtkit.memory.index import TooManyUnits, write_memory
from mtkit.pair_files import one_file
from mtkit.pair_files.pairs import Tally
from mtkit.serving.workers import frames


def build(settings: Mapping[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
    """Index the TMX file `source`, uploaded as `name`, into the file `result`; return its languages and counts.

    The reply is "too_many" if the memory would have more than `most` units. It has an "error" if the file cannot be
    read, and our "fault" if indexing fails.
    """
    try:
        raw, name = Path(settings["source"]).read_bytes(), f"{settings['name'].removesuffix('.tmx')}.tmx"
        langs = one_file.own_languages(io.BytesIO(raw), ".tmx", name)
        if langs is None:
            return {"error": "the file must have exactly two languages"}
        tally = Tally()
        pairs = one_file.pairs(io.BytesIO(raw), ".tmx", name, langs, tally)
        n_units = write_memory(Path(settings["result"]), pairs, langs, settings["most"])
        return {"langs": langs, "n_units": n_units, "n_skipped": tally.left_out.total()}
    except TooManyUnits:
        return {"too_many": True}
    except MtkitError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "needs too much memory; divide the file"}
    except Exception:
        return {"fault": traceback.format_exc()}


def main() -> None:
    """Answer messages until standard input ends. The argument is JSON: source, name, result and most."""
    settings = json.loads(sys.argv[1])
    frames.answer_about_files(lambda message: build(settings, message))


if __name__ == "__main__":
    main()
