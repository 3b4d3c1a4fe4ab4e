"""Run a suite of behaviour checks on a translator, and report the passed and failed cases with reasons."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from xml.etree import ElementTree as ET

from mtkit.console import counted
from mtkit.evaluation.behaviour.checks import Case
from mtkit.evaluation.behaviour.robust import ChangeScores, RobustCheck
from mtkit.evaluation.behaviour.suite import PreparedCheck, Suite

_ROUNDING = 1e-9  # of a share: 9 of 10 cases reach a threshold of 0.9
_SHOWN_LETTERS = 240  # of a text in a report
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class CaseResult:
    """The result of one case."""

    case: Case
    translations: tuple[str, ...]  # of case.sources
    problem: str  # "" if it passed
    scores: ChangeScores | None = None  # of a check that compares scores


@dataclass(frozen=True)
class CheckResult:
    """The result of one check."""

    name: str
    kind: str
    threshold: float
    cases: tuple[CaseResult, ...]
    n_left_out: int  # lines of its file without anything to check
    without_lines: tuple[str, ...] = ()  # changes of the robustness check that apply to none of its lines

    @property
    def failing(self) -> list[CaseResult]:
        """Return the cases that did not pass."""
        return [case for case in self.cases if case.problem]

    @property
    def n_passed(self) -> int:
        """Return how many cases passed."""
        return len(self.cases) - len(self.failing)

    @property
    def share(self) -> float:
        """Return the share of the cases that passed."""
        return self.n_passed / len(self.cases)

    @property
    def passed(self) -> bool:
        """Return whether enough cases passed."""
        return self.share >= self.threshold - _ROUNDING


@dataclass(frozen=True)
class SuiteResult:
    """The result of a suite."""

    checks: tuple[CheckResult, ...]

    @property
    def failed(self) -> list[CheckResult]:
        """Return the checks that did not pass."""
        return [check for check in self.checks if not check.passed]

    @property
    def passed(self) -> bool:
        """Return whether all checks passed."""
        return not self.failed

    def figures(self) -> dict[str, float]:
        """Return shares by name: "suite" of the checks that passed, "suite.NAME" of a check's cases that passed."""
        shares = {f"suite.{re.sub(r'[^0-9A-Za-z_-]+', '_', check.name)}": check.share for check in self.checks}
        return {"suite": 1 - len(self.failed) / len(self.checks), **shares}

    def __str__(self) -> str:
        n = len(self.checks)
        failed = ", ".join(f"{check.name} {check.n_passed}/{len(check.cases)}" for check in self.failed)
        return f"suite {n - len(self.failed)}/{n}" + (f" (failed: {failed})" if failed else "")


def run_suite(suite: Suite, translate: Callable[[Sequence[str]], Sequence[str]]) -> SuiteResult:
    """Translate every line of the suite in one call, and judge the translations.

    translate: returns the translation of each line, in order.
    """
    sources = suite.sources
    texts = translate(sources)
    if len(texts) != len(sources):
        raise ValueError(f"{len(texts)} translations of {len(sources)} lines")
    translations = dict(zip(sources, texts, strict=True))
    return SuiteResult(tuple(_judge(check, suite, translations) for check in suite.checks))


def _judge(prepared: PreparedCheck, suite: Suite, translations: dict[str, str]) -> CheckResult:
    results = []
    for case in prepared.cases:
        texts = tuple(translations[line] for line in case.lines)
        scores = None
        if isinstance(prepared.check, RobustCheck):
            scores = prepared.check.scores(case, texts, suite.languages)
            problem = prepared.check.problem_of(scores)
        elif any(line.strip() and not text.strip() for line, text in zip(case.lines, texts, strict=True)):
            problem = "no translation"
        else:
            problem = prepared.check.problem(case, texts, suite.languages)
        results.append(CaseResult(case, texts[: len(case.sources)], problem, scores))
    check = prepared.check
    without = check.without_lines(prepared.cases) if isinstance(check, RobustCheck) else ()
    return CheckResult(prepared.name, check.check, check.threshold, tuple(results), prepared.n_left_out, without)


def as_dict(result: SuiteResult) -> dict[str, Any]:
    """Return the result for JSON: the checks in the suite's order, each with its cases; a pass has "problem" null."""
    return {
        "passed": result.passed,
        "n_checks": len(result.checks),
        "n_failed": len(result.failed),
        "checks": [
            {
                "name": check.name,
                "check": check.kind,
                "passed": check.passed,
                "threshold": check.threshold,
                "share": check.share,
                "n_cases": len(check.cases),
                "n_passed": check.n_passed,
                "n_left_out": check.n_left_out,
                "cases": [
                    {
                        "sources": result.case.sources,
                        "translations": result.translations,
                        "problem": result.problem or None,
                        **({"scores": asdict(result.scores)} if result.scores else {}),
                    }
                    for result in check.cases
                ],
                **({"changes_without_lines": check.without_lines} if check.without_lines else {}),
            }
            for check in result.checks
        ],
    }


def as_lines(result: SuiteResult, n_shown: int) -> Iterator[str]:
    """Yield a line for each check and, below it, source, translation and reason of at most n_shown failing cases."""
    width = max(len(check.name) for check in result.checks)
    for check in result.checks:
        verdict = "passed" if check.passed else "FAILED"
        if check.threshold == 0:
            verdict = "only reported"
        count = f"{check.n_passed:,} of {len(check.cases):,}"
        required = f", {check.threshold:.0%} must pass" if 0 < check.threshold < 1 else ""
        left_out = f"; nothing to check in {counted(check.n_left_out, 'line')}" if check.n_left_out else ""
        scores = [result.scores for result in check.cases if result.scores]
        if scores and check.threshold == 0:
            count = counted(len(scores), "change")
        yield f"{check.name:{width}}  {count:>14}  {verdict}{required}{left_out}"
        if scores:
            yield "    change         score of the changed lines, and of the same lines without the change (clean)"
        for each in scores:
            yield f"    {each.change:14} {each}, {counted(each.n_lines, 'line')}"
        for change in check.without_lines:
            yield f"    {change:14} applies to none of the lines"
        yield from _failures(check, n_shown)
    if all(check.threshold == 0 for check in result.checks):
        return  # nothing can fail
    n_cases = sum(len(check.cases) for check in result.checks)
    n_failing = sum(len(check.failing) for check in result.checks)
    n_failed = len(result.failed)
    verdict = f"{n_failed} of {len(result.checks)} failed" if n_failed else f"all {len(result.checks)} passed"
    yield f"checks: {verdict}; cases: {n_failing:,} of {n_cases:,} failed"


def _failures(check: CheckResult, n_shown: int) -> Iterator[str]:
    for result in check.failing[:n_shown]:
        for source, text in zip(result.case.sources, result.translations, strict=True):
            yield f"    {_shown(source)}"
            yield f"      -> {_shown(text)}"
        yield f"      {result.problem}"
    if n_shown and (n_more := len(check.failing) - n_shown) > 0:
        yield f"    and {n_more:,} more"


def _shown(text: str) -> str:
    if not text.strip():
        return f'"{text}"'.replace("\t", "\\t")
    if len(text) <= _SHOWN_LETTERS:
        return text
    return f"{text[: _SHOWN_LETTERS // 2]} … {text[-_SHOWN_LETTERS // 2 :]} ({len(text):,} characters)"


def as_junit(result: SuiteResult, suite_name: str) -> str:
    """Return JUnit's XML for build servers: a test case for each check, with its failing cases as text."""
    counts = {"tests": str(len(result.checks)), "failures": str(len(result.failed))}
    root = ET.Element("testsuite", {"name": suite_name, **counts})
    for check in result.checks:
        case = ET.SubElement(root, "testcase", name=check.name, classname=f"{suite_name}.{check.kind}")
        if not check.passed:
            message = f"{check.n_passed} of {counted(len(check.cases), 'case')} passed"
            failure = ET.SubElement(case, "failure", message=message)
            failure.text = _NOT_IN_XML.sub("\ufffd", "\n".join(_failures(check, len(check.failing))))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
