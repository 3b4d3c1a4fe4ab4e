"""Write the report of a corpus: titles and meanings of the findings, usual shares, and the commands that help."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from mtkit.console import shortened
from mtkit.corpora.report import CorpusReport, Finding, SideFacts
from mtkit.corpora.streams import Share
from mtkit.pages.charts import Bars, Series, bar_chart, line_chart
from mtkit.pages.page import thousands, write_page

_MOST_CHARACTERS = 300  # of a text on the page
_LENGTHS = (1, 3, 6, 11, 21, 31, 41, 61, 81, 121)  # words from which each bar of the histogram counts
_RATIOS = (0.0, 0.25, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0)
_DASH = "\N{EN DASH}"


class _Words(NamedTuple):
    title: str
    meaning: str
    usual: float | None = None  # in Tatoeba (en-de, en-fr), Multi30k and FLORES at most, rounded up


_CLEAN = {
    "empty": _Words("a side is empty", "A side has no letter and no digit.", 0.0005),
    "encoding": _Words("broken characters", "A wrong encoding has replaced characters; they are lost.", 0.0005),
    "max_letters": _Words(
        "too long", "A side is longer than a paragraph: often sentences that were not split.", 0.0005
    ),
    "max_word_letters": _Words(
        "a word too long", "A word as long as this is mostly data, code or lost spaces.", 0.0005
    ),
    "max_length_ratio": _Words(
        "lengths too different",
        "One side says more than the other, or something else. If there are many, lines have slipped.",
        0.0005,
    ),
    "min_letters_share": _Words("few letters", "A side is mostly digits and marks: tables, codes, prices.", 0.0005),
    "min_script_share": _Words(
        "another script",
        "A side is not in the script of its language, perhaps because the two have changed places.",
        0.0005,
    ),
    "language": _Words(
        "another language",
        "A side is in another language than it should be, perhaps because the two have changed places.",
        0.0005,
    ),
    "copies": _Words("copies", "Both sides have the same words: not translated.", 0.0005),
    "numbers": _Words(
        "numbers differ",
        "The other side has a number of this side in no form. If there are many, lines have slipped.",
        0.01,
    ),
    "urls": _Words("addresses differ", "A web or e-mail address is on one side only.", 0.0005),
    "placeholders": _Words(
        "placeholders differ", "A placeholder of a program, such as {name} or %s, is on one side only.", 0.0005
    ),
    "tags": _Words("markup differs", "Markup such as <b> is on one side only.", 0.0005),
    "repetition": _Words("loops", "One side repeats words and the other does not.", 0.0005),
    "min_score": _Words("low score", "The score is below clean.min_score."),
    "mojibake": _Words("mojibake", "Text read in the wrong encoding, such as Ã© for é; cleaning repairs it.", 0.0005),
    "repairs": _Words(
        "other repairs",
        "HTML entities, doubled or odd spaces, decomposed or invisible characters; cleaning repairs them.",
    ),
    "repeats": _Words(
        "repeated pairs", "An earlier pair is the same. Repeats waste training time, and outweigh the rest.", 0.001
    ),
    "near repeats": _Words(
        "near repeats", "An earlier pair has 80 % of the same character 4-grams, numbers aside.", 0.1
    ),
}
_SWAPPED = ("min_script_share", "language")  # what pairs whose sides have changed places are found as
_OTHERS = {
    "end": _Words("ends differ", "One side ends as a question or a sentence, the other does not.", 0.05),
    "several translations": _Words(
        "sources repeated", "The source also has another translation. Useful variety, unless one of them is wrong.", 0.3
    ),
    "several sources": _Words("targets repeated", "The target also translates another source.", 0.1),
}
_OTHERS |= {
    f"normalized {side}": _Words(
        f"{name} characters changed",
        f"The tokenizer changes characters of the {name}, by tokenizer.{side}.normalization, before the model sees it.",
    )
    for side, name in (("src", "source"), ("tgt", "target"))
}
_OVERLAP = {
    "pair": _Words("pairs also in train", "Scores on them measure memory, not translation.", 0.0),
    "source": _Words("sources also in train", "With another translation; scores on them flatter the model.", 0.0),
    "near": _Words("sources nearly in train", "Scores on them flatter the model."),
}


def words_of_finding(name: str) -> _Words:
    """Return a finding's title, its meaning and the usual share."""
    part, _, kind = name.partition(": ")
    if kind in _OVERLAP:
        return _OVERLAP[kind]._replace(title=f"{part}: {_OVERLAP[kind].title}")
    return (_CLEAN | _OTHERS)[name]


def is_unusual(finding: Finding) -> bool:
    """Return whether the share is certainly higher than in clean corpora."""
    usual = words_of_finding(finding.name).usual
    share = finding.share
    return usual is not None and finding.share.n > 0 and (share.value if share.low is None else share.low) > usual


def remedy(finding: Finding, corpus: str, is_two_files: bool = False) -> str:
    """Return the commands that help, one a line; "" if there is none.

    corpus: its name and languages, as arguments for a shell. is_two_files: it is two text files, which `mtkit data
    doctor` reads.
    """
    if finding.name == "near repeats":
        return f"mtkit data clean {corpus} --output clean.tsv --set clean.near_duplicates=true"
    if finding.name in _SWAPPED and is_two_files:
        return f"mtkit data doctor {corpus}\nmtkit data clean {corpus} --output clean.tsv"
    if finding.name in _CLEAN:
        return f"mtkit data clean {corpus} --output clean.tsv"
    if ": " in finding.name:
        return f"mtkit data split {corpus} --output FOLDER"
    return ""


def has_slipped(report: CorpusReport) -> bool:
    """Return whether so many lengths and numbers differ that lines may have slipped."""
    shares = {finding.name: finding.share.value for finding in report.findings}
    return shares.get("max_length_ratio", 0) > 0.05 or shares.get("numbers", 0) > 0.1


def text_table(report: CorpusReport) -> str:
    """Return the report for a terminal."""
    src, tgt = report.sides
    lines = [
        f"{report.n_pairs:,} pairs, {src.language} {src.n_words:,} words, {tgt.language} {tgt.n_words:,} words",
        "",
        f"   {'finding':<28}{'share':>9}  {'95 % interval':<17}{'usual, at most':>14}",
    ]
    for finding in ordered(report.findings):
        words = words_of_finding(finding.name)
        usual = "" if words.usual is None else percent(words.usual)
        mark = "!" if is_unusual(finding) else ""
        row = f"{mark:<3}{words.title:<28}{percent(finding.share.value):>9}  {interval(finding.share):<17}{usual:>14}"
        lines.append(row.rstrip())
    lines += ["", "!: more than usual", *notes(report)]
    return "\n".join(lines)


def ordered(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings, from large to small; first those of which there is more than usual."""
    return sorted(findings, key=lambda finding: (not is_unusual(finding), -finding.share.value))


def notes(report: CorpusReport) -> list[str]:
    """Return the notes that a reader needs to understand the figures."""
    found = [
        "Usual, at most: the share in Tatoeba, Multi30k and FLORES, which are clean.",
        f"Judged: all {report.n_pairs:,} pairs."
        if report.n_judged == report.n_pairs
        else f"Judged: {report.n_judged:,} of {report.n_pairs:,} pairs, evenly spaced in blocks of 16; words, lengths "
        "and repeats are counted over all.",
    ]
    found += [f"{words_of_finding(one.name).title}: {one.note}." for one in report.findings if one.note]
    found += [f"Training changes {example}" for example in report.changes]
    found.append(
        "Rules cannot see a fluent translation of another sentence; after training, mtkit inspect errors lists the "
        "pairs that the model finds least likely."
    )
    if has_slipped(report):
        found.append("Many lengths or numbers differ: lines may have slipped; mtkit data doctor says where.")
    return found


def percent(share: float) -> str:
    """Write a share in percent with two or three digits that count."""
    digits = 0 if share == 0 else min(3, max(1, 1 - math.floor(math.log10(100 * share))))
    return f"{100 * share:.{digits}f} %"


def interval(share: Share) -> str:
    """Write an interval; if all pairs were judged, say so."""
    return "all judged" if share.low is None or share.high is None else f"{percent(share.low)} to {percent(share.high)}"


def as_json(report: CorpusReport) -> dict[str, Any]:
    """Return the report for programs; the sorted lists of lengths and ratios as quantiles."""
    values = asdict(report)
    values["ratios"] = _quantiles(report.ratios)
    for side, facts in zip(values["sides"], report.sides, strict=True):
        side["words_per_line"] = _quantiles(facts.words_per_line)
    for value, finding in zip(values["findings"], report.findings, strict=True):
        share = finding.share
        value["share"] = {"n": share.n, "of": share.of, "value": share.value, "low": share.low, "high": share.high}
        value["is_unusual"] = is_unusual(finding)
    return values


def _quantiles(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    return {f"{q}": values[min(len(values) - 1, q * len(values) // 100)] for q in (1, 5, 25, 50, 75, 95, 99)}


def write_report_page(path: Path, report: CorpusReport, name: str, corpus: str, is_two_files: bool = False) -> None:
    """Write the page. name: of the corpus; corpus, is_two_files: as for `remedy`."""
    write_page(
        path,
        "corpus",
        title=f"Corpus report: {name}",
        report=report,
        facts=list(_facts(report)),
        findings=[
            {
                "finding": finding,
                "words": words_of_finding(finding.name),
                "is_unusual": is_unusual(finding),
                "share": percent(finding.share.value),
                "interval": interval(finding.share),
                "usual": _DASH if (usual := words_of_finding(finding.name).usual) is None else percent(usual),
                "remedy": remedy(finding, corpus, is_two_files),
                "examples": [_shown(one) for one in finding.examples],
            }
            for finding in ordered(report.findings)
        ],
        notes=notes(report),
        charts=list(_charts(report)),
        sides=[_side(facts) for facts in report.sides],
        codes=report.languages,
    )


def _shown(example: Any) -> dict[str, str]:
    return {key: shortened(value, _MOST_CHARACTERS) for key, value in asdict(example).items()}


def _facts(report: CorpusReport) -> Iterator[tuple[str, str]]:
    yield "pairs", thousands(report.n_pairs)
    for facts in report.sides:
        yield f"words, {facts.language}", thousands(facts.n_words)
    for facts in report.sides:
        yield f"words a line, {facts.language}", f"{facts.n_words / max(1, report.n_pairs):.1f}"
    if report.ratios:
        yield "median ratio of lengths", f"{report.ratios[len(report.ratios) // 2]:.2f}"


def _side(facts: SideFacts) -> dict[str, Any]:
    return {
        "language": facts.language,
        "scripts": [(name, percent(share)) for name, share in list(facts.scripts.items())[:8]],
        "foreign": list(facts.foreign.items())[:8],
        "longest": [_shown(example) for example in facts.longest],
    }


def _charts(report: CorpusReport) -> Iterator[Markup]:
    groups = [f"{low}{_DASH}{high - 1}" if high - 1 > low else f"{low}" for low, high in _steps(_LENGTHS)]
    groups.append(f"{_LENGTHS[-1]}+")
    shares = [Bars(side.language, _histogram(side.words_per_line, _LENGTHS)) for side in report.sides]
    yield bar_chart(groups, shares, y_label="% of the lines", title="Words a line")
    groups = [f"{low:g}{_DASH}{high:g}" for low, high in _steps(_RATIOS)] + [f"{_RATIOS[-1]:g}+"]
    bars = Bars("pairs", _histogram(report.ratios, _RATIOS))
    title = f"Characters of {report.languages[1]} for one of {report.languages[0]}"
    yield bar_chart(groups, [bars], y_label="% of the pairs", title=title)
    lines = [Series(side.language, *map(list, zip(*side.growth, strict=True))) for side in report.sides]
    title = "Vocabulary: distinct words against words read"
    yield line_chart(lines, x_label="words read", y_label="distinct words", title=title)


def _steps(limits: Sequence[float]) -> Iterator[tuple[Any, Any]]:
    yield from pairwise(limits)


def _histogram(values: Sequence[float], limits: Sequence[float]) -> list[float]:
    counts = [0] * len(limits)
    for value in values:
        counts[max(0, sum(value >= limit for limit in limits) - 1)] += 1
    return [100 * count / max(1, len(values)) for count in counts]


def dump(report: CorpusReport) -> str:
    """Return the report as JSON text."""
    return json.dumps(as_json(report), ensure_ascii=False, indent=1)
