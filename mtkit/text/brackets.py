"""Match opening and closing brackets by name: tags, inline codes and the like."""

from collections import Counter
from collections.abc import Iterable

Bracket = tuple[str, str]  # "open", "close", or anything else for neither; and the name of the pair


def ends_of(brackets: Iterable[Bracket]) -> dict[int, int]:
    """Map the index of each opening bracket to that of its closing one; pairs of different names may cross.

    A closing bracket belongs to the last opening one of its name that is still open. Others have no partner.
    """
    ends: dict[int, int] = {}
    waiting: dict[str, list[int]] = {}
    for index, (kind, name) in enumerate(brackets):
        if kind == "open":
            waiting.setdefault(name, []).append(index)
        elif kind == "close" and waiting.get(name):
            ends[waiting[name].pop()] = index
    return ends


def nested_ends_of(brackets: Iterable[Bracket], most_levels: int) -> dict[int, int]:
    """Match brackets that must not cross: one that is opened within a pair but not closed in it has no partner.

    most_levels: maximal depth of nesting; brackets that open deeper have no partner.
    """
    ends: dict[int, int] = {}
    waiting: list[tuple[int, str]] = []
    n_waiting = Counter[str]()  # by name, so that a closing bracket without a partner costs nothing
    for index, (kind, name) in enumerate(brackets):
        if kind == "open" and len(waiting) < most_levels:
            waiting.append((index, name))
            n_waiting[name] += 1
        elif kind == "close" and n_waiting[name]:
            while True:
                opened, of_name = waiting.pop()
                n_waiting[of_name] -= 1
                if of_name == name:
                    break
            ends[opened] = index
    return ends
