import itertools
import threading
import time

import pytest

from mtkit.data.ahead import Ahead

PATIENCE_S = 60


def eventually(condition):
    end = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    return condition()


def test_items_come_in_order_and_no_more_than_depth_are_made_ahead():
    made = []

    def items():
        for number in itertools.count():
            made.append(number)
            yield number

    with Ahead(items(), depth=3) as ahead:
        assert eventually(lambda: len(made) == 3)
        assert [next(ahead) for _ in range(5)] == [0, 1, 2, 3, 4]
        assert eventually(lambda: len(made) == 8)
        time.sleep(0.02)
        assert len(made) == 8


def test_they_are_made_by_another_thread():
    with Ahead((threading.get_ident() for _ in itertools.count()), depth=1) as ahead:
        assert next(ahead) != threading.get_ident()


def test_a_generator_that_ends_ends_the_items():
    with Ahead((i for i in range(5)), depth=2) as ahead:
        assert list(ahead) == [0, 1, 2, 3, 4]


def test_an_error_is_raised_when_its_turn_comes():
    def items():
        yield 1
        yield 2
        raise OSError("the disk is gone")

    with Ahead(items(), depth=4) as ahead:
        assert [next(ahead), next(ahead)] == [1, 2]
        with pytest.raises(OSError, match="the disk is gone"):
            next(ahead)


def test_closing_ends_thread_and_generator():
    ended = []

    def items():
        try:
            yield from itertools.count()
        finally:
            ended.append(True)

    before = threading.active_count()
    with Ahead(items(), depth=2) as ahead:
        next(ahead)
        assert threading.active_count() == before + 1
    assert ended == [True]
    assert threading.active_count() == before
