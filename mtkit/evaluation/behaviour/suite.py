"""Load a suite of behaviour checks, with all sentences that it translates, from a YAML file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ConfigDict, Field, ValidationError

from mtkit.config.reading.loading import read_yaml
from mtkit.config.reading.problems import Origin, Problem, explain, report
from mtkit.config.reading.yaml_text import KeyPath, ParsedYaml
from mtkit.config.section import Section
from mtkit.console import counted
from mtkit.data.corpus import evenly_spaced
from mtkit.errors import ConfigError, DataError, did_you_mean
from mtkit.evaluation.behaviour.checks import (
    BlankCheck,
    Case,
    CaseCheck,
    Check,
    EmojiCheck,
    Expectation,
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
from mtkit.evaluation.behaviour.robust import RobustCheck
from mtkit.pair_files.lines import read_lines

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
    "robust": RobustCheck,
}


@dataclass(frozen=True)
class PreparedCheck:
    """A check and its cases."""

    name: str  # unique in the suite
    check: Check
    cases: tuple[Case, ...]
    n_left_out: int  # lines of its file without anything to check


@dataclass(frozen=True)
class Suite:
    """The checks of one file."""

    path: Path
    languages: Languages
    checks: tuple[PreparedCheck, ...]

    @property
    def sources(self) -> list[str]:
        """Return all lines to translate, each once."""
        return list(dict.fromkeys(line for check in self.checks for case in check.cases for line in case.lines))


def robust_suite(pairs: Sequence[tuple[str, str]], languages: Languages, path: Path) -> Suite:
    """Return a suite that reports how well changed text is translated. path: the config that names the pairs.

    Raises DataError if no change applies to any pair.
    """
    check = RobustCheck(translations=[Expectation(src=src, one_of=[tgt]) for src, tgt in pairs])
    try:
        cases = tuple(case for _, case in check.cases(check.rows(), languages))
    except ValueError:
        cases = ()
    if not cases:
        raise DataError(
            f"{path}: no change applies to the {counted(len(pairs), 'pair')} of data.dev, because they have no case, "
            "no final mark and no word in which a typo could be; give a SUITE"
        )
    return Suite(path, languages, (PreparedCheck("robust", check, cases, 0),))


class _Entry(Section):
    """A check whose kind is not yet known."""

    model_config = ConfigDict(extra="allow")

    check: str = Field(description="the kind of check")


class _SuiteFile(Section):
    """The file as a whole."""

    src_lang: str = Field(min_length=1, description="language of the sentences, such as en")
    tgt_lang: str = Field(min_length=1, description="language of the translations, such as fr")
    checks: list[_Entry] = Field(min_length=1, description="the checks, each after a dash")


def load_suite(path: Path) -> Suite:
    """Load the suite in a YAML file; its paths are relative to the file's folder.

    Raises ConfigError, which lists all problems with their lines, and DataError for an unreadable text file.
    """
    parsed = read_yaml(path)
    problems = [Problem(line, key, what) for line, key, what in parsed.faults]
    if not isinstance(parsed.value, dict):
        content = "must contain src_lang, tgt_lang and checks"
        raise ConfigError(report(str(path), problems or [Problem(1, "", content)]))
    outline = _validated(_SuiteFile, parsed.value, parsed.lines, path, problems)
    checks = [check for index in _entries(parsed) if (check := _read_check(index, parsed, path, problems)) is not None]
    if problems or not isinstance(outline, _SuiteFile):
        raise ConfigError(report(str(path), problems))
    languages = Languages(outline.src_lang, outline.tgt_lang)
    prepared = [
        _prepare(check, name, index, parsed.lines, languages, problems)
        for index, (check, name) in enumerate(zip(checks, _names(checks), strict=True))
    ]
    if problems:
        raise ConfigError(report(str(path), problems))
    return Suite(path, languages, tuple(prepared))


def _entries(parsed: ParsedYaml) -> Iterator[int]:
    """Yield the indices of the checks that have a kind."""
    entries = parsed.value.get("checks")
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict) and isinstance(entry.get("check"), str):
            yield index


def _read_check(index: int, parsed: ParsedYaml, path: Path, problems: list[Problem]) -> Check | None:
    entry, place = parsed.value["checks"][index], ("checks", index)
    kind = KINDS.get(entry["check"])
    if kind is None:
        hint = did_you_mean(entry["check"], KINDS) or f"known are {', '.join(KINDS)}"
        what = f"unknown check; {hint}"
        problems.append(Problem(parsed.lines[(*place, "check")], f"checks.{index}.check={entry['check']}", what))
        return None
    lines = {key[2:]: line for key, line in parsed.lines.items() if key[:2] == place and len(key) > 2}
    of_check: list[Problem] = []
    check = _validated(kind, entry, lines, path, of_check)
    for problem in of_check:
        subject = ".".join(part for part in ("checks", str(index), problem.subject) if part)
        problems.append(replace(problem, origin=problem.origin or parsed.lines[place], subject=subject))
    return check if isinstance(check, Check) else None


def _validated(
    kind: type[Section], values: object, lines: Mapping[KeyPath, int], path: Path, problems: list[Problem]
) -> Section | None:
    """Return the values as a section; if they are invalid, add to the problems and return None."""
    origins: dict[KeyPath, Origin] = dict(lines)
    context = {"base": path.absolute().parent}
    try:
        return kind.model_validate_json(json.dumps(values), strict=True, context=context)
    except ValidationError as error:
        problems += dict.fromkeys(
            explain(details, values, origins, kind) for details in error.errors(include_url=False)
        )
        return None


def _names(checks: Sequence[Check]) -> list[str]:
    """Return each check's name; a second one of the same name gets a number."""
    names: list[str] = []
    for check in checks:
        wanted = check.name or check.check
        name, number = wanted, 1
        while name in names:
            number += 1
            name = f"{wanted} {number}"
        names.append(name)
    return names


def _prepare(
    check: Check,
    name: str,
    index: int,
    lines: Mapping[KeyPath, int],
    languages: Languages,
    problems: list[Problem],
) -> PreparedCheck:
    """Return the check with its cases; rows without a case are a problem in the suite, but left out in a file."""
    line = lines[("checks", index)]
    in_suite = [one_line(row) for row in check.rows()]
    in_file = _read_rows(check) if check.file is not None else []
    try:
        suite_cases, file_cases = check.cases(in_suite, languages), check.cases(in_file, languages)
    except ValueError as error:
        problems.append(Problem(line, f"checks.{index}", str(error)))
        return PreparedCheck(name, check, (), 0)
    for row in sorted(set(range(len(in_suite))) - _used_rows(suite_cases)):
        key = ("checks", index, check.items, row)
        problems.append(Problem(lines.get(key, line), f"checks.{index}.{check.items}.{row}", check.nothing))
    if check.file is not None and not file_cases:
        what = f"every line of {check.file} {check.nothing}" if in_file else f"{check.file} has no lines"
        problems.append(Problem(line, f"checks.{index}.file", what))
    cases = tuple(case for _, case in [*suite_cases, *file_cases])
    return PreparedCheck(name, check, cases, n_left_out=len(in_file) - len(_used_rows(file_cases)))


def _used_rows(cases: Sequence[tuple[set[int], Case]]) -> set[int]:
    """Return the indices of the rows in the cases."""
    return set().union(*(rows for rows, _ in cases))


def _read_rows(check: Check) -> list[Row]:
    """Read the chosen lines of the check's file."""
    assert check.file is not None
    lines = list(read_lines(check.file))
    rows = []
    for number, line in enumerate(lines, start=1):
        row = tuple(line.split("\t")) if check.n_columns > 1 else (line,)
        if len(row) < check.n_columns:
            raise DataError(f"{check.file}: line {number}: no tab; each line needs {check.n_columns} columns")
        rows.append(one_line(row))
    return rows if check.n is None else evenly_spaced(rows, check.n)
