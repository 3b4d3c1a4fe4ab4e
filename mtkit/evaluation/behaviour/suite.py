"""A suite of behaviour checks: a YAML file in, its checks with all that they have translated out."""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ConfigDict, Field, ValidationError

from mtkit.config.loading import read_yaml
from mtkit.config.problems import Origin, Problem, explain, report
from mtkit.config.schema import Section
from mtkit.config.yaml_text import KeyPath, ParsedYaml
from mtkit.data.corpus import evenly_spaced, read_lines
from mtkit.errors import ConfigError, DataError
from mtkit.evaluation.behaviour.checks import (
    BlankCheck,
    Case,
    CaseCheck,
    Check,
    EmojiCheck,
    ExpectedCheck,
    Languages,
    LongCheck,
    NamesCheck,
    NegationCheck,
    NumbersCheck,
    PhraseCheck,
    PunctuationCheck,
    Row,
    SoundCheck,
    one_line,
)

KINDS: dict[str, type[Check]] = {
    "sound": SoundCheck,
    "numbers": NumbersCheck,
    "negation": NegationCheck,
    "names": NamesCheck,
    "case": CaseCheck,
    "punctuation": PunctuationCheck,
    "blank": BlankCheck,
    "long": LongCheck,
    "emoji": EmojiCheck,
    "phrase": PhraseCheck,
    "expected": ExpectedCheck,
}


@dataclass(frozen=True)
class PreparedCheck:
    """A check with its cases."""

    name: str  # no other check of the suite has it
    check: Check
    cases: tuple[Case, ...]
    n_left_out: int  # lines of its file that have nothing to check


@dataclass(frozen=True)
class Suite:
    """The checks of one file."""

    path: Path
    languages: Languages
    checks: tuple[PreparedCheck, ...]

    @property
    def sources(self) -> list[str]:
        """What is to be translated: every line once."""
        return list(dict.fromkeys(line for check in self.checks for case in check.cases for line in case.lines))


class _Entry(Section):
    """What is known of a check before its kind is."""

    model_config = ConfigDict(extra="allow")

    check: str = Field(description="the kind of check")


class _SuiteFile(Section):
    """The file as a whole."""

    src_lang: str = Field(min_length=1, description="language of the sentences, such as en")
    tgt_lang: str = Field(min_length=1, description="language of the translations, such as fr")
    checks: list[_Entry] = Field(min_length=1, description="what is checked, each after a dash")


def load_suite(path: Path) -> Suite:
    """The suite in a YAML file; paths in it start from the file's folder.

    Raises ConfigError, which lists all problems with their lines, and DataError for a text file that cannot be read.
    """
    parsed = read_yaml(path)
    problems = [Problem(line, key, what) for line, key, what in parsed.faults]
    if not isinstance(parsed.value, dict):
        wanted = "must hold src_lang, tgt_lang and checks"
        raise ConfigError(report(str(path), problems or [Problem(1, "", wanted)]))
    outline = _validated(_SuiteFile, parsed.value, parsed.lines, path, problems)
    checks = [
        check for number in _entries(parsed) if (check := _read_check(number, parsed, path, problems)) is not None
    ]
    if problems or not isinstance(outline, _SuiteFile):
        raise ConfigError(report(str(path), problems))
    languages = Languages(outline.src_lang, outline.tgt_lang)
    prepared = [
        _prepare(check, name, number, _Place(path, parsed.lines), languages, problems)
        for number, (check, name) in enumerate(zip(checks, _names(checks), strict=True))
    ]
    if problems:
        raise ConfigError(report(str(path), problems))
    return Suite(path, languages, tuple(prepared))


def _entries(parsed: ParsedYaml) -> Iterator[int]:
    """The numbers of the checks whose kind can be told."""
    entries = parsed.value.get("checks")
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict) and isinstance(entry.get("check"), str):
            yield number


def _read_check(number: int, parsed: ParsedYaml, path: Path, problems: list[Problem]) -> Check | None:
    entry, place = parsed.value["checks"][number], ("checks", number)
    kind = KINDS.get(entry["check"])
    if kind is None:
        near = difflib.get_close_matches(entry["check"], KINDS, n=1)
        what = f"unknown check; did you mean {near[0]}?" if near else f"unknown check; known are {', '.join(KINDS)}"
        problems.append(Problem(parsed.lines[(*place, "check")], f"checks.{number}.check={entry['check']}", what))
        return None
    lines = {key[2:]: line for key, line in parsed.lines.items() if key[:2] == place and len(key) > 2}
    found: list[Problem] = []
    check = _validated(kind, entry, lines, path, found)
    for problem in found:
        subject = ".".join(part for part in ("checks", str(number), problem.subject) if part)
        problems.append(replace(problem, origin=problem.origin or parsed.lines[place], subject=subject))
    return check if isinstance(check, Check) else None


def _validated(
    kind: type[Section], values: object, lines: Mapping[KeyPath, int], path: Path, problems: list[Problem]
) -> Section | None:
    """The values as a section; None, with what is wrong added to the problems, if they make none."""
    origins: dict[KeyPath, Origin] = dict(lines)
    context = {"base": path.absolute().parent}
    try:
        return kind.model_validate_json(json.dumps(values), strict=True, context=context)
    except ValidationError as error:
        found = dict.fromkeys(explain(details, values, origins, kind) for details in error.errors(include_url=False))
        problems += found
        return None


def _names(checks: Sequence[Check]) -> list[str]:
    """What each check is called; one that would share its name gets a number."""
    names: list[str] = []
    for check in checks:
        wanted = check.name or check.check
        name, number = wanted, 1
        while name in names:
            number += 1
            name = f"{wanted} {number}"
        names.append(name)
    return names


@dataclass(frozen=True)
class _Place:
    """The suite's file, and where in it things stand."""

    path: Path
    lines: Mapping[KeyPath, int]


def _prepare(
    check: Check, name: str, number: int, place: _Place, languages: Languages, problems: list[Problem]
) -> PreparedCheck:
    """The check with its cases; whatever has nothing to check is a problem in the suite, and left out in a file."""
    line = place.lines[("checks", number)]
    own = [one_line(row) for row in check.rows()]
    rows = _read_rows(check) if check.file is not None else []
    try:
        found, of_file = check.cases(own, languages), check.cases(rows, languages)
    except ValueError as error:
        problems.append(Problem(line, f"checks.{number}", str(error)))
        return PreparedCheck(name, check, (), 0)
    for row in sorted(set(range(len(own))) - _used(found)):
        key = ("checks", number, check.items, row)
        problems.append(Problem(place.lines.get(key, line), f"checks.{number}.{check.items}.{row}", check.nothing))
    if check.file is not None and not of_file:
        what = f"every line of {check.file} {check.nothing}" if rows else f"{check.file} has no lines"
        problems.append(Problem(line, f"checks.{number}.file", what))
    cases = tuple(case for _, case in [*found, *of_file])
    return PreparedCheck(name, check, cases, n_left_out=len(rows) - len(_used(of_file)))


def _used(cases: Sequence[tuple[set[int], Case]]) -> set[int]:
    """The rows that the cases are made of."""
    return set().union(*(rows for rows, _ in cases))


def _read_rows(check: Check) -> list[Row]:
    """The chosen lines of the check's file."""
    assert check.file is not None
    lines = list(read_lines(check.file))
    rows = []
    for number, line in enumerate(lines, start=1):
        row = tuple(line.split("\t")) if check.n_columns > 1 else (line,)
        if len(row) < check.n_columns:
            raise DataError(f"{check.file}: line {number}: no tab; each line must have {check.n_columns} columns")
        rows.append(one_line(row))
    return rows if check.n is None else evenly_spaced(rows, check.n)
