"""The robustness check: what it changes, how it scores, and what its reports say."""

import json
import re
from pathlib import Path

import pytest
import sacrebleu

from mtkit.errors import ConfigError, DataError
from mtkit.evaluation.behaviour.checks import Languages
from mtkit.evaluation.behaviour.report import as_dict, as_lines, run_suite
from mtkit.evaluation.behaviour.robust import ChangedCase
from mtkit.evaluation.behaviour.suite import load_suite, robust_suite

PAIRS = [
    (f"{a} {b} saw the {c} near the {d} yesterday{end}", f"{a}o {b}o sawo theo {c}o nearo theo {d}o yesterdayo{end}")
    for a, b, c, d, end in [
        ("Old", "men", "river", "house", "."),
        ("Young", "women", "forest", "road", "!"),
        ("Some", "children", "mountain", "lake", "."),
        ("Two", "friends", "garden", "bridge", "?"),
        ("Many", "people", "castle", "village", "."),
        ("Our", "neighbours", "fire", "station", ""),
    ]
]


def translate(line: str) -> str:
    """Add an o to each word, as the references do; whatever case the word has, the o is small."""
    return re.sub(r"\w+", lambda word: word[0] + "o", line)


def careful(line: str) -> str:
    return translate(line).upper() if line.isupper() else translate(line)


def scores(translator):
    suite = robust_suite(PAIRS, Languages("en", "de"), Path("config.yaml"))
    [check] = run_suite(suite, lambda lines: [translator(line) for line in lines]).checks
    assert check.passed
    return {result.scores.change: result.scores for result in check.cases if result.scores}


def test_every_change_is_scored_beside_the_clean_text():
    by_change = scores(translate)
    assert {change: score.n_lines for change, score in by_change.items()} == {
        **{"capitals": 6, "lower_case": 6, "title_case": 6, "typos": 6},
        "no_final_mark": 5,  # the last sentence has none
        **{"joined 2": 2, "joined 3": 1},  # of the five that end with a mark
    }
    # the clean translations are right, also in capitals, without a mark and joined
    assert [score.clean for score in by_change.values()] == pytest.approx([100] * 7)
    for change in ("no_final_mark", "joined 2", "joined 3"):
        assert by_change[change].changed == pytest.approx(100)
    hyps = [translate(src.upper()) for src, _ in PAIRS]
    expected = sacrebleu.corpus_bleu(hyps, [[tgt.upper() for _, tgt in PAIRS]]).score
    assert by_change["capitals"].changed == pytest.approx(expected)
    assert by_change["capitals"].loss == pytest.approx(100 - expected)
    assert by_change["typos"].changed < 95  # a word of each sentence is wrong
    assert scores(careful)["capitals"].changed == pytest.approx(100)


def test_the_same_text_is_always_changed_in_the_same_way():
    first, second = (robust_suite(pairs, Languages("en", "de"), Path("x")) for pairs in (PAIRS, PAIRS[::-1]))
    assert set(first.sources) >= {line for line in second.sources if " yesterday" in line and line.count("saw") == 1}


def test_changes_that_apply_to_no_line_are_named():
    suite = robust_suite([("现在玩游戏。", "Play now.")] * 5, Languages("zh", "en"), Path("config.yaml"))
    result = run_suite(suite, lambda lines: ["Play now."] * len(lines))
    [check] = result.checks
    assert [case.scores.n_lines for case in check.cases if case.scores] == [5, 2, 1]  # no mark, two and three joined
    lines = list(as_lines(result, 5))
    assert "only reported" in lines[0]
    assert not any("passed" in line for line in lines)  # nothing could fail
    without = [line.split()[0] for line in lines if "none of the lines" in line]
    assert without == ["capitals", "lower_case", "title_case", "typos"]
    assert as_dict(result)["checks"][0]["changes_without_lines"] == tuple(without)


def test_pairs_without_anything_to_change_are_refused():
    with pytest.raises(DataError, match=r"config\.yaml.* 2 pairs of data\.dev"):
        robust_suite([("现在玩游戏", "Play now")] * 2, Languages("zh", "en"), Path("config.yaml"))


SUITE = """
src_lang: en
tgt_lang: de
checks:
  - check: robust
    translations:
      - {src: "Old men saw it.", one_of: "Oldo meno sawo ito."}
      - {src: "Who saw the river?", one_of: "Whoo sawo theo rivero?"}
    changes: [capitals, no_final_mark]
    metric: chrf
    max_loss: 2
"""


def test_a_limit_fails_the_changes_that_cost_more(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE)
    suite = load_suite(path)
    result = run_suite(suite, lambda lines: [translate(line) for line in lines])
    [check] = result.checks
    assert not result.passed
    assert check.n_passed == 1
    [failed] = check.failing
    hyps, refs = ["OLDo MENo SAWo ITo.", "WHOo SAWo THEo RIVERo?"], ["OLDO MENO SAWO ITO.", "WHOO SAWO THEO RIVERO?"]
    chrf = sacrebleu.corpus_chrf(hyps, [refs]).score
    assert failed.scores
    assert failed.scores.changed == pytest.approx(chrf)
    lines = list(as_lines(result, 5))
    assert re.search(r"no_final_mark +chrF +100\.0, clean +100\.0 \(\+0\.0\), 2 lines", lines[3])
    assert f"{chrf:.1f}, clean 100.0" in lines[2]
    assert any("capitals" in line and "at most 2 points" in line for line in lines)
    [reported] = json.loads(json.dumps(as_dict(result)))["checks"]
    assert [case["scores"]["change"] for case in reported["cases"]] == ["capitals", "no_final_mark"]
    assert reported["cases"][0]["scores"]["changed"] == pytest.approx(chrf)


@pytest.mark.parametrize(
    ("src", "changes"),
    [("今日は雨が降る。", "[typos]"), ("Old men saw it.", "[capitals, joined]"), ("OLD MEN", "[capitals]")],
)
@pytest.mark.parametrize("in_file", [False, True])
def test_changes_that_apply_to_no_pair_of_a_suite_are_named(tmp_path, src, changes, in_file):
    tgt = "雨" if changes == "[capitals, joined]" else "Oldo meno."
    (tmp_path / "pairs.tsv").write_text(f"{src}\t{tgt}\n", encoding="utf-8")
    rows = "file: pairs.tsv" if in_file else f"translations: [{{src: {src}, one_of: {tgt}}}]"
    head = SUITE[: SUITE.index("    translations")].replace("en", "ja", 1)
    (tmp_path / "suite.yaml").write_text(f"{head}    {rows}\n    changes: {changes}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load_suite(tmp_path / "suite.yaml")
    message = str(error.value)
    assert all(fact in message for fact in ["suite.yaml", "checks.0", *changes.strip("[]").split(", "), "1 pair"]), (
        message
    )
    assert "lacks" not in message


def test_a_file_of_pairs_serves_as_well(tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in [*PAIRS, ("", "")]))
    suite = SUITE[: SUITE.index("    translations")] + "    file: pairs.tsv\n"
    (tmp_path / "suite.yaml").write_text(suite)
    [check] = load_suite(tmp_path / "suite.yaml").checks
    assert check.n_left_out == 1
    assert [case.change for case in check.cases if isinstance(case, ChangedCase)] == [
        *("capitals", "lower_case", "title_case", "no_final_mark", "typos", "joined 2", "joined 3")
    ]
