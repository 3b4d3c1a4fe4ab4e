"""The work for workers as a message."""

from pathlib import Path

import pytest

from mtkit.serving.workers.work import ModelVersion, Work
from mtkit.text.placeholders import PROSE, STRINGS


@pytest.mark.parametrize("patterns", [PROSE, STRINGS, ()])
def test_work_is_the_same_after_its_way_to_a_worker(patterns):
    work = Work("translate", ModelVersion(Path("en-fr"), "1"), 2, patterns, ("source\ttarget", "cat\tchat"))
    assert Work.from_json(work.as_json()) == work


def test_the_message_of_a_sentence_is_not_much_longer_than_the_sentence():
    work = Work("translate", ModelVersion(Path("en-fr"), "1"))
    assert len(str(work.as_json())) < 300 < len("".join(PROSE))
