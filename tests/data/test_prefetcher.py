import itertools
import threading
import time
from contextlib import closing

import pytest

from mtkit.data.prefetcher import Prefetcher

DEADLINE_S = 300


def eventually(condition):
    end = time.monotonic() + DEADLINE_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    return condition()


def test_items_come_in_order_and_no_more_than_depth_are_made_ahead():
    made = []

    def items():
        for number in itertools.count():
            made.append(number)
            yield number

    with closing(Prefetcher(items(), depth=3)) as prefetcher:
        assert eventually(lambda: len(made) == 3)
        assert [next(prefetcher) for _ in range(5)] == [0, 1, 2, 3, 4]
        assert eventually(lambda: len(made) == 8)
        time.sleep(0.02)
        assert len(made) == 8


def test_items_are_made_in_another_thread():
    with closing(Prefetcher((threading.get_ident() for _ in itertools.count()), depth=1)) as prefetcher:
        assert next(prefetcher) != threading.get_ident()


def test_the_items_end_with_the_generator():
    with closing(Prefetcher((i for i in range(5)), depth=2)) as prefetcher:
        assert list(prefetcher) == [0, 1, 2, 3, 4]


def test_an_error_is_raised_when_its_turn_comes():
    def items():
        yield 1
        yield 2
        raise OSError("the disk is gone")

    with closing(Prefetcher(items(), depth=4)) as prefetcher:
        assert [next(prefetcher), next(prefetcher)] == [1, 2]
        with pytest.raises(OSError, match="the disk is gone"):
            next(prefetcher)


def test_closing_ends_the_thread_and_the_generator():
    ended = []

    def items():
        try:
            yield from itertools.count()
        finally:
            ended.append(True)

    before = threading.active_count()
    with closing(Prefetcher(items(), depth=2)) as prefetcher:
        next(prefetcher)
        assert threading.active_count() == before + 1
    assert ended == [True]
    assert threading.active_count() == before
