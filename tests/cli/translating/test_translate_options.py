"""The options of `mtkit translate`: settings, ensembles, prefixes, terminology, alignments, scores, reports."""

import gzip
import html
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mtkit.bundle import add_to_bundle
from mtkit.cli import app
from mtkit.engines.native import NativeEngine
from mtkit.errors import ConfigError, MtkitError
from mtkit.translation.session import Session
from mtkit.translation.translator import Translator

LINES = ["I love oranges.", "", "The cat sleeps under the house.", "Do you see the rain?"]


pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


@pytest.fixture
def run(shared_bundle):
    def run(*args: str, stdin: bytes | None = None):
        return CliRunner().invoke(app, ["translate", "--model", str(shared_bundle), *args], input=stdin)

    return run


@pytest.fixture
def second_bundle(shared_bundle, make_bundle, tmp_path) -> Path:
    """A model with the same tokenizers and other weights: every matrix shrunk."""
    from safetensors.torch import load_file

    from mtkit.bundle import load_bundle, save_bundle

    bundle = load_bundle(shared_bundle)
    state = {name: weight * 0.8 for name, weight in load_file(shared_bundle / "model.safetensors").items()}
    bundle.model.load_state_dict(state, strict=False)
    folder = tmp_path / "second"
    spm = shared_bundle / "src.spm"
    save_bundle(folder, bundle.model.state_dict(), bundle.config, spm, shared_bundle / "tgt.spm", training={})
    return folder


def texts(result) -> list[str]:
    assert result.exit_code == 0, result.stderr
    return result.stdout.splitlines()


def test_set_changes_any_key_of_the_decode_section(run, shared_bundle):
    lines = texts(run("--set", "decode.beam_size=1", "--set", "decode.max_len=4", *LINES))
    assert lines == Translator.load(shared_bundle, threads=1, beam_size=1, max_len=4).translate(LINES)
    assert lines != texts(run(*LINES))


@pytest.mark.parametrize(
    "override, exit_code, message",
    [
        ("decode.beam=3", 1, "--set decode.beam=3: unknown key; did you mean beam_size?"),
        ("decode.beam_size=0", 1, "--set decode.beam_size=0: must be a whole number of at least 1"),
        ("decode.beam_groups=2", 1, "decode.beam_groups=2 does not divide decode.beam_size=3"),
        ("model.d_model=3", 2, "--set model.d_model=3: only keys of the decode section can change"),
        ("decode.engine=ctranslate2", 1, "mtkit export --to ctranslate2"),
        ("decode.terminology=none.tsv", 1, "none.tsv: no such file"),
    ],
)
def test_wrong_settings_are_explained(run, override, exit_code, message):
    result = run("--set", override, "a")
    assert message in result.stderr
    assert (result.exit_code, result.stdout) == (exit_code, "")


def test_a_wrong_value_is_reported_by_what_gave_it(run, shared_bundle):
    result = run("--set", "decode.beam_groups=2", "--beam-size", "3", "a")
    assert "--beam-size 3: " in result.stderr or "--set decode.beam_groups=2: " in result.stderr
    with pytest.raises(ConfigError, match=r"\n  beam_size=0: must be ") as error:
        Translator.load(shared_bundle, beam_size=0)
    assert "--set" not in str(error.value)
    with pytest.raises(ConfigError, match=r"\n  override decode\.beam_size=0: must be "):
        Translator.load(shared_bundle, overrides=["decode.beam_size=0"])
    with pytest.raises(ConfigError, match=r"\n  beam=3: unknown key"):
        Translator.load(shared_bundle, beam=3)


def test_two_models_are_an_ensemble(run, shared_bundle, second_bundle):
    alone = texts(run(*LINES))
    together = texts(run("--model", str(second_bundle), *LINES))
    assert together != alone
    assert together == Translator.load([shared_bundle, second_bundle], threads=1).translate(LINES)
    assert texts(run("--model", str(shared_bundle), *LINES)) == alone


def test_models_with_different_target_tokenizers_cannot_be_an_ensemble(run, shared_bundle, tmp_path):
    from mtkit.bundle import load_bundle, save_bundle
    from mtkit.config.tokenizer import TokenizerConfig
    from mtkit.tokens.tokenizer import train_tokenizer

    bundle = load_bundle(shared_bundle)
    other = tmp_path / "other.spm"
    cfg = TokenizerConfig(vocab_size=bundle.tgt_tokenizer.vocab_size)
    train_tokenizer(["Something else altogether, and more of it."] * 3 + ["xyz wvu"], cfg, other)
    folder = tmp_path / "other"
    save_bundle(folder, bundle.model.state_dict(), bundle.config, shared_bundle / "src.spm", other, training={})
    result = run("--model", str(folder), "a")
    assert result.exit_code == 1
    assert "target tokenizers differ" in result.stderr and str(folder) in result.stderr


def test_every_translation_begins_with_the_prefix(run):
    prefixed = texts(run("--prefix", "The cat", *LINES))
    assert [line for line in prefixed if not line.startswith("The cat")] == [""]


def test_a_seed_always_gives_the_same_samples_and_another_seed_others(run):
    sampling = ["--set", "decode.sampling=true", "--set", "decode.top_k=20", "--n-best", "5"]
    first, again = (texts(run(*sampling, *LINES)) for _ in range(2))
    assert first == again
    assert first != texts(run(*sampling, "--set", "decode.seed=2", *LINES))
    assert [len(json.loads(line)["hypotheses"]) for line in first] == [5, 1, 5, 5]


def test_terms_are_put_in_and_counted(run):
    Path("terms.tsv").write_text("source\ttarget\noranges\ttable | house\ncat\tbig\n")
    result = run("--terminology", "terms.tsv", "--set", "decode.max_len_constant=40", "--beam-size", "12", *LINES)
    first, _, third, _ = texts(result)
    assert "table" in first or "house" in first
    assert "big" in third
    assert "terminology: 2 of 2 terms met" in result.stderr


def test_alignments_stand_after_a_tab_or_in_the_json(run):
    for line, text in zip(LINES, texts(run("--alignments", *LINES)), strict=True):
        translation, links = text.split("\t")
        for link in links.split():
            source, target = map(int, link.split("-"))
            assert source < len(line.split())
            assert target < len(translation.split())
    record = json.loads(texts(run("--alignments", "--n-best", "2", LINES[0]))[0])
    assert len([hypothesis["alignment"] for hypothesis in record["hypotheses"]]) == 2


def test_markup_stands_around_words_of_the_plain_translation(run):
    marked = [f"{first} <b>{rest}</b> &amp;" for first, _, rest in (line.partition(" ") for line in LINES)]
    [*plain] = texts(run(*[f"{line} &" for line in LINES]))
    found = texts(run("--markup", "html", *marked))
    for text, translation in zip(found, plain, strict=True):
        assert re.sub("</?b>", "", text) == html.escape(translation, quote=False)
        assert text.count("<b>") == text.count("</b>") == 1
    Path("in.html").write_text("\n".join(marked) + "\n", encoding="utf-8")
    run("--markup", "html", "--input", "in.html", "--output", "out.html")
    assert Path("out.html").read_text(encoding="utf-8").splitlines() == found


def test_a_line_that_was_split_has_no_alignment_and_is_named(run):
    result = run("--alignments", "--set", "decode.max_src_tokens=20", LINES[0], "It rains. " * 9)
    first, second = texts(result)
    assert first.split("\t")[1]
    assert second.endswith("\t")
    [warning] = [line for line in result.stderr.splitlines() if "alignment" in line]
    assert warning.startswith("warning: line 2: ")


def test_token_scores_add_up_to_the_translations(run):
    for line in texts(run("--tokens", "--n-best", "3", *LINES)):
        for hypothesis in json.loads(line)["hypotheses"]:
            total = sum(log_prob for _, log_prob in hypothesis["tokens"])
            assert total == pytest.approx(hypothesis["log_prob"], abs=1e-3)
            assert (hypothesis["tokens"][-1:] or [["</s>"]])[0][0] == "</s>" or not hypothesis["finished"]


def test_a_suspect_line_is_reported_as_asked(run):
    long = "I love oranges and I love the cat and I love the house and I love the rain and I love it."
    cut = ["--set", "decode.max_len=1", "--set", "decode.max_len_constant=1", long]
    marked = run("--on-suspect", "mark", *cut)
    assert texts(marked)[0].startswith("[suspect: ")
    assert "1 of 1 translation" in run("--on-suspect", "warn", *cut).stderr
    assert json.loads(texts(run("--on-suspect", "warn", "--json", *cut))[0])["faults"]
    off = run("--on-suspect", "off", *cut)
    assert "suspect" not in off.stderr
    assert texts(off)[0] == texts(marked)[0].split("] ", 1)[1]


def test_characters_that_the_tokenizer_never_saw_are_listed(run):
    result = run("--explain-unknown", "I love № 7 and 🍊.")
    assert "TANGERINE" in result.stderr
    assert "NUMERO SIGN" in result.stderr
    assert len(texts(result)) == 1


def test_live_output_is_the_translation(run):
    plain = texts(run(*LINES))
    assert texts(run("--live", *LINES)) == plain
    assert texts(run("--live", stdin="".join(f"{line}\n" for line in LINES).encode())) == plain


def test_live_output_comes_with_the_messages_about_long_lines_and_limits(run):
    result = run("--live", "--set", "decode.max_src_tokens=20", "--set", "decode.max_len=2", "a", "It rains. " * 9)
    assert len(texts(result)) == 2
    assert "line 2: " in result.stderr and "translated in" in result.stderr
    assert "2 of 2 translations" in result.stderr and "decode.max_len" in result.stderr


@pytest.mark.parametrize("name", ["terms: v2.tsv", "a #1.tsv", "2024", "null", "thé 😀.tsv"])
def test_a_terminology_may_have_any_name(run, shared_bundle, tmp_path, name):
    (tmp_path / name).write_text("target\nthe\n", encoding="utf-8")
    result = run("--terminology", name, "I love oranges.")
    assert texts(result) == Translator.load(shared_bundle, threads=1, terminology=Path(name)).translate(
        ["I love oranges."]
    )
    assert "1 of 1 term met" in result.stderr


@pytest.mark.parametrize(
    "args, facts",
    [
        (["--tokens", "a"], ["--tokens", "--json", "--n-best"]),
        (["--live", "--json", "a"], ["--live", "--json"]),
        (["--live", "--on-suspect", "warn", "a"], ["--live", "--on-suspect"]),
        (["--engine", "ctranslate2", "--alignments", "a"], ["--alignments", "--engine native"]),
        (["--markup", "html", "--json", "a"], ["--markup", "leave out --json"]),
        (["--markup", "html", "--engine", "ctranslate2", "a"], ["--markup", "--engine native"]),
        (["--markup", "rtf", "a"], ["--markup", "rtf", "html"]),
        (["--on-suspect", "mark", "--alignments", "a"], ["--alignments", "decode.on_suspect=mark", "--json"]),
        (["--n-best", "5", "--set", "decode.mbr_samples=3", "a"], ["--n-best", "5", "decode.mbr_samples=3"]),
        (["--restart", "a"], ["--restart", "--input", "--output"]),
        (["--executor", "ray", "a"], ["--executor ray", "--input", "--output"]),
        (["--workers", "2", "--alignments", "a"], ["--workers", "--alignments"]),
        (["--on-suspect", "cry", "a"], ["--on-suspect cry", "retry, warn"]),
    ],
)
def test_options_that_cannot_go_together_are_refused(run, args, facts):
    result = run(*args)
    assert [fact for fact in facts if fact not in result.stderr] == []
    assert result.exit_code == 2


@pytest.mark.parametrize("args", [["a cat"], ["--input", "a.txt"], ["--document", "a.txt"]])
def test_the_terminology_is_not_overwritten(run, args):
    Path("a.txt").write_text("a cat\n")
    Path("terms.txt").write_text("source\ttarget\ncat\tfelin\n")
    result = run(*args, "--terminology", "terms.txt", "--output", "terms.txt")
    assert (result.exit_code, Path("terms.txt").read_text()) == (2, "source\ttarget\ncat\tfelin\n")
    assert "terms.txt: the same file as the input" in result.stderr


def test_a_file_to_file_job_gives_what_a_stream_gives_and_leaves_no_other_files(run, tmp_path):
    Path("in.txt").write_text("".join(f"{line}\n" for line in LINES * 3))
    for args in ([], ["--json"], ["--alignments"]):
        expected = run("--input", "in.txt", *args)
        for output in ("out.txt", "out.gz"):
            assert run("--input", "in.txt", "--output", output, *args).exit_code == 0
            data = Path(output).read_bytes()
            assert (gzip.decompress(data) if output == "out.gz" else data).decode() == expected.stdout
            Path(output).unlink()
    assert [path.name for path in Path().iterdir()] == ["in.txt"]


def test_a_job_resumes_only_in_the_same_arithmetic_and_reports_on_all_its_lines(run, monkeypatch):
    Path("in.txt").write_text("№ one\ntwo\n№ three\nfour\n")
    Path("terms.tsv").write_text("source\ttarget\none\tun\nthree\ttrois\n")
    args = ["--input", "in.txt", "--output", "out.txt", "--explain-unknown", "--set", "decode.batch_sentences=1"]
    args += ["--set", "decode.max_len=2", "--on-suspect", "warn", "--terminology", "terms.tsv"]
    monkeypatch.setattr(Translator, "window", 2)
    whole = run(*args).stderr
    Path("out.txt").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(Session, "translate", _until_line_3(Session.translate))
        assert run(*args).exit_code != 0
    with monkeypatch.context() as patch:
        patch.setattr(NativeEngine, "arithmetic", "int8 on cpu")
        assert "arithmetic was fp32 on cpu, now int8 on cpu" in run(*args).stderr
    assert "terminology: " in whole and " of 4 translations hit the length limit" in whole and " suspect: " in whole
    [row] = [line for line in whole.splitlines() if "NUMERO SIGN" in line]
    assert row.split()[:2] == ["2", "1"]
    done_before = ("cut: 1 of 1 shard done before", "translate: 2 of 4 lines done before")
    resumed = run(*args).stderr.splitlines()
    assert [line for line in resumed if line not in done_before] == whole.splitlines()
    assert len(resumed) == len(whole.splitlines()) + 2


@pytest.mark.slow
def test_two_processes_give_the_bytes_and_the_report_of_one(shared_bundle, run):
    Path("in.txt").write_text("".join(f"I love {n} oranges.\n" for n in range(100)))
    args = ["--input", "in.txt", "--json", "--alignments", "--set", "decode.batch_sentences=1"]
    args += ["--set", "decode.max_len=5", "--on-suspect", "warn"]
    one = run(*args, "--output", "one.gz")
    two = run(*args, "--output", "two.gz", "--workers", "2")
    assert (one.exit_code, two.exit_code) == (0, 0), two.stderr
    assert " of 100 translations look suspect" in one.stderr
    assert [line for line in two.stderr.splitlines() if "%" not in line] == one.stderr.splitlines()
    assert Path("one.gz").read_bytes() == Path("two.gz").read_bytes()
    assert sorted(path.name for path in Path().iterdir()) == ["in.txt", "one.gz", "two.gz"]


def _until_line_3(translate):
    def translate_or_stop(session, lines, first_line=None):
        if first_line == 3:
            raise MtkitError("stopped")
        return translate(session, lines, first_line)

    return translate_or_stop


def test_confidence_is_in_the_json_of_a_calibrated_bundle_only(run, bundle):
    assert "confidence" not in texts(run("--json", "a"))[0]
    figures = {"calibration_error": 0.1, "by_chance": 0.1, "brier": 0.2, "auc": None}
    reliability: dict[str, Any] = {"n": 2, "good": 0.5, **figures, "bins": []}
    calibration = {"format_version": 1, "slope": 2.0, "intercept": 0.5, "threshold": 50.0, "n_fitted": 2, "decode": {}}
    add_to_bundle(
        bundle, "confidence.json", lambda path: path.write_text(json.dumps({**calibration, "held_out": reliability}))
    )
    drawn = ["--set", "decode.sampling=true", "--set", "decode.temperature=3", "--n-best", "60", "--tokens"]
    result = CliRunner().invoke(app, ["translate", "--model", str(bundle), *drawn, *LINES])
    for line in texts(result):
        for hypothesis in json.loads(line)["hypotheses"]:
            if hypothesis["finished"] and len(hypothesis["tokens"]) > 1:
                mean = hypothesis["log_prob"] / len(hypothesis["tokens"])
                assert hypothesis["confidence"] == pytest.approx(1 / (1 + math.exp(-(2.0 * mean + 0.5))), abs=1e-3)
            else:
                assert "confidence" not in hypothesis
    assert "confidence" in result.stdout
