"""No two modules of mtkit import each other, directly or through others, and no room has too many of them."""

from collections import Counter
from pathlib import Path

import grimp

import mtkit

MOST_MODULES = 15  # that a newcomer can hold in their head


def circles(imports: dict[str, set[str]]) -> set[frozenset[str]]:
    """The sets of modules of which each imports every other, directly or through others; single modules left out."""
    reached = {}
    for start in imports:
        seen: set[str] = set()
        ahead = [start]
        while ahead:
            new = imports[ahead.pop()] - seen
            seen |= new
            ahead += new
        reached[start] = seen
    groups = {frozenset(other for other in reached[one] if one in reached[other]) for one in reached}
    return {group for group in groups if group}


def test_circles_are_found():
    imports = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set(), "f": {"f"}}
    assert circles(imports) == {frozenset("abc"), frozenset("f")}


def test_no_module_imports_itself_through_others():
    graph = grimp.build_graph("mtkit", cache_dir=None)
    assert not circles({name: graph.find_modules_directly_imported_by(name) for name in graph.modules})


def test_no_room_has_more_modules_than_fit_in_a_head():
    root = Path(mtkit.__file__).parent
    sizes = Counter(path.parent.relative_to(root) for path in root.rglob("*.py") if path.name != "__init__.py")
    assert {str(room): size for room, size in sizes.items() if size > MOST_MODULES} == {}
