"""report.html and run.json of finished, interrupted and failing runs."""

import json
import logging
import os
import re
import shutil
import signal
from collections import Counter
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from browsing import check_page
from typer.testing import CliRunner

from mtkit.bundle import weights_checksum
from mtkit.cli import app
from mtkit.data import overlap
from mtkit.data.encoded import EncodedSide
from mtkit.evaluation.metrics.scores import MetricScore
from mtkit.runs import report as report_module
from mtkit.runs.folder import write_config
from mtkit.runs.record import read_record
from mtkit.runs.report import note_test_scores, refresh_report, thinned, write_report
from mtkit.runs.train import train
from mtkit.training.metrics_log import MetricsLog, read_metrics
from mtkit.training.trainer import Trainer
from mtkit.training.validation.validator import Sample

SCORES = [MetricScore("BLEU", 61.25, "made:up|version:9", 58.5, 64.0, 61.0)]


@pytest.fixture(scope="module", autouse=True)
def reports_meanwhile():
    """As users have them, other than in the other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mtkit.runs.train.refresh_report", refresh_report)
        yield


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory, config_of, corpus):
    """The folder of a run of 20 steps, 4 validations and 3 averaged checkpoints."""
    run_dir = tmp_path_factory.mktemp("finished") / "run"
    train(config_of(run_dir, average_last=3, data={**corpus, "test": corpus["dev"]}))
    return run_dir


@pytest.fixture
def copied_run(finished_run, tmp_path):
    return shutil.copytree(finished_run, tmp_path / "run")


@pytest.fixture
def bare_run(tmp_path, config_of):
    """bare_run(bleus, losses, ...): the folder of a run that has not finished, with these figures on dev."""

    def make(bleus=(), losses=None, samples=(), recoveries=()):
        cfg = config_of(tmp_path / "run")
        write_config(cfg, {})
        with MetricsLog(tmp_path / "run", 0) as log:
            for number, bleu in enumerate(bleus):
                step = 10 * (number + 1)
                log.write("validation", step, {"bleu": bleu, "chrf": bleu, "loss": losses[number] if losses else 1.0})
                log.write_samples(step, samples[number : number + 1])
        with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
            file.writelines(json.dumps({"kind": "recovery", **recovery}) + "\n" for recovery in recoveries)
        return tmp_path / "run"

    return make


def words_of(page):
    """What a reader sees of it, without tags; the scripts and styles are left out."""
    text = re.sub(r"<(style|script)\b.*?</\1>", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).replace("\xa0", " ").split())


def test_a_finished_run_leaves_a_report_with_a_plain_summary(finished_run):
    path = finished_run / "report.html"
    assert path.stat().st_size < 1_000_000
    words = words_of(path)
    assert "learned from 120 sentences" in words, "as many as the corpus has"
    bleu = json.loads((finished_run / "model" / "manifest.json").read_text())["training"]["dev_metrics"][0]
    assert "On 3 sentences, which mtkit used to choose" in words
    assert "(some of them are in its training text)" in words, "two of the eight"
    assert f"{bleu['score']:.1f} of 100 points" in words
    assert bleu["signature"] in words


def test_a_report_has_the_curves_of_the_training_text_and_of_the_dev_text(finished_run):
    page = (finished_run / "report.html").read_text(encoding="utf-8")
    for curve in ("training text", "dev text", "BLEU", "learning rate", "gradient norm"):
        assert f">{curve}<" in page, curve


@pytest.mark.parametrize("dev", [{"n_pairs": 8}, {"n_pairs": 8, "n_in_training": 0}], ids=["not counted", "none"])
def test_dev_pairs_outside_the_training_text_are_reported_as_such(copied_run, dev):
    record = read_record(copied_run)
    record["text"]["dev"] |= dev
    del record["text"]["overlap"]  # older versions have none
    if "n_in_training" not in dev:
        del record["text"]["dev"]["n_in_training"]
    (copied_run / "run.json").write_text(json.dumps(record))
    words = words_of(write_report(copied_run))
    assert "On 3 sentences, which mtkit used to choose" in words
    assert "(none of them is in its training text)" in words
    assert "are also in the training text" not in words


def test_pairs_of_the_test_text_and_like_sources_are_reported_too(copied_run):
    record = read_record(copied_run)
    counts = {"dev": {"pair": 2, "source": 0, "near": 1}, "test": {"pair": 3, "source": 4, "near": 0}}
    record["text"]["overlap"] = {
        name: {"n_pairs": 8, "counts": found, "examples": {}} for name, found in counts.items()
    }
    (copied_run / "run.json").write_text(json.dumps(record))
    words = words_of(write_report(copied_run))
    assert re.search("Of the 8 sources of the dev text, 0 .*another translation, and 1 in nearly", words)
    assert "Of the 8 sentence pairs of the test text, 3 are" in words
    assert re.search("Of the 8 sources of the test text, 4 .*another translation, and 0 in nearly", words)
    assert "sentence pairs of the dev text, 2 are" in words and words.count("sentence pairs of the dev text, 2") == 1


def test_the_next_start_adds_a_count_that_older_versions_lack(config_of, tmp_path):
    run_dir = tmp_path / "run"
    train(config_of(run_dir, max_steps=1, warmup_steps=0))
    record = read_record(run_dir)
    assert record["text"]["dev"].pop("n_in_training") == 2
    (run_dir / "run.json").write_text(json.dumps(record))
    train(config_of(run_dir, max_steps=2, warmup_steps=0))
    assert read_record(run_dir)["text"]["dev"]["n_in_training"] == 2


@pytest.mark.parametrize(
    ("steps", "said"),
    [([18], "weights kept those at step 18 "), ([18, 12], "the mean of those at steps 12, 18: the 2 last")],
)
def test_it_names_the_kept_weights(copied_run, steps, said):
    path = copied_run / "model" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["training"]["averaged_steps"] = steps
    path.write_text(json.dumps(manifest))
    assert said in words_of(write_report(copied_run))


def test_it_names_the_limit_and_the_machine(finished_run):
    words = words_of(finished_run / "report.html")
    assert "train.max_steps=20" in words
    checkpoint = json.loads((finished_run / "checkpoints/step-20/manifest.json").read_text())
    assert f"torch {checkpoint['made_with']['torch']}" in words


def test_it_shows_the_samples_of_every_validation(finished_run):
    entries = [entry for entry in read_metrics(finished_run / "metrics.jsonl") if entry["kind"] == "samples"]
    assert [entry["step"] for entry in entries] == [6, 12, 18, 20]
    words = words_of(finished_run / "report.html")
    for sample in entries[-1]["samples"]:
        assert set(sample) == {"src", "reference", "translation"}
        assert f"{sample['src']} Reference: {sample['reference']}" in words


def test_the_figures_of_its_text_are_those_of_the_files(config_of, corpus, tmp_path):
    train_files = corpus["train"][0]
    blank, long, plain = "\n", "one two red blue cat dog sees one\n", "one red cat\n"
    for side, language in (("src", "en"), ("tgt", "fr")):
        text = Path(train_files[side]).read_text(encoding="utf-8") + blank + long + plain
        (tmp_path / f"train.{language}").write_text(text, encoding="utf-8")
    data = {"train": [{"src": str(tmp_path / "train.en"), "tgt": str(tmp_path / "train.fr")}], "dev": corpus["dev"]}
    run_dir = tmp_path / "run"
    train(config_of(run_dir, data={**data, "max_tokens": 27}, max_steps=1, warmup_steps=0))
    record = read_record(run_dir)
    lengths = [
        max(map(len, pair)) for pair in zip(*(_lines(tmp_path / f"train.{x}") for x in ("en", "fr")), strict=True)
    ]
    n_long = sum(length + 1 > 27 for length in lengths)  # a piece a character, and one for the beginning
    assert n_long >= 1
    counts = {name: n for name, n in record["text"]["counts"].items() if n}
    assert counts == {"n_read": 123, "n_blank": 1, "n_too_long": n_long, "n_kept": 122 - n_long}
    dev = _lines(corpus["dev"]["src"])
    n_words = sum(len(line.split()) for line in dev)
    n_pieces = sum(len(line) + 1 for line in dev)
    assert record["text"]["tokenizers"]["src"]["tokens_per_word"] == pytest.approx(n_pieces / n_words)


def test_characters_that_normalisation_changes_are_logged_and_reported(config_of, corpus, tmp_path, caplog):
    text = {side: _lines(path) for side, path in corpus["dev"].items()}
    dev = {side: tmp_path / f"dev.{side}" for side in text}
    dev["src"].write_text("".join(f"{line}\uff01\n" for line in text["src"]), encoding="utf-8")
    dev["tgt"].write_text("".join(f"{line} m\xb2\n" for line in text["tgt"]), encoding="utf-8")
    run_dir = tmp_path / "run"
    caplog.set_level(logging.INFO, "mtkit")
    rules = {side: {"type": "char", "normalization": "nmt_nfkc"} for side in text}
    train(config_of(run_dir, max_steps=1, warmup_steps=0, data={**corpus, "dev": dev}, tokenizer=rules))
    levels = {r.levelname: r.getMessage() for r in caplog.records if "normalisation changes" in r.getMessage()}
    assert "100 % of lines: \uff01 -> !" in levels["INFO"]
    assert all(
        fact in levels["WARNING"] for fact in ("tgt", "100 % of lines: \xb2 -> 2", "tokenizer.tgt.normalization=nfc")
    )
    page = unescape((run_dir / "report.html").read_text(encoding="utf-8"))
    assert "100 % of lines: \uff01 -> !" in page and "100 % of lines: \xb2 -> 2" in page


@pytest.mark.parametrize(("share", "level"), [(0.01, logging.WARNING), (0.5, logging.INFO)])
def test_dev_pairs_in_the_training_text_are_reported(config_of, corpus, tmp_path, monkeypatch, caplog, share, level):
    monkeypatch.setattr(overlap, "MANY", share)
    train_files = corpus["train"][0]
    dev = {}
    for side, unseen in (("src", ["dog", "dog", "dog"]), ("tgt", ["chien chien chien chien chien chien"] * 3)):
        lines = [*unseen[:2], _lines(train_files[side])[6], unseen[2]]
        (tmp_path / f"dev.{side}").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        dev[side] = str(tmp_path / f"dev.{side}")
    run_dir = tmp_path / "run"
    caplog.set_level(logging.INFO, "mtkit")
    train(config_of(run_dir, data={**corpus, "dev": dev}, max_steps=1, warmup_steps=0))
    [(found, text)] = [(one.levelno, one.message) for one in caplog.records if "in data.train, " in one.message]
    assert found == level
    assert text.startswith("1 of the 4 pairs of data.dev (25.0%) ")
    assert "dev.src:3 as " in text
    assert "train.en:7: " in text
    assert read_record(run_dir)["text"]["dev"]["n_in_training"] == 1
    assert "Of the 4 sentence pairs of the dev text, 1 are" in words_of(write_report(run_dir))


def _lines(path):
    return Path(path).read_text(encoding="utf-8").splitlines()


def test_ids_are_counted_in_parts_as_in_one(monkeypatch):
    ids = np.random.default_rng(0).integers(0, 9, size=50).astype(np.uint16)
    monkeypatch.setattr("mtkit.data.encoded._COUNTED_AT_ONCE", 7)
    side = EncodedSide(ids, np.array([0, 50]), np.array([50]))
    expected = Counter(ids.tolist())
    assert side.occurrences(11).tolist() == [expected[i] for i in range(11)]


def test_an_interrupted_run_has_a_report_too_and_a_resumed_one_lists_both_starts(config_of, tmp_path, monkeypatch):
    cfg = config_of(tmp_path / "run")
    update = Trainer.update

    def interrupted(self):
        if self.state.step == 9:
            os.kill(os.getpid(), signal.SIGINT)
        return update(self)

    monkeypatch.setattr(Trainer, "update", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(cfg)
    words = words_of(cfg.run_dir / "report.html")
    assert re.search("has not finished.* learned from 120 sentences", words)
    assert "updates 10, " in words
    monkeypatch.setattr(Trainer, "update", update)
    train(cfg)
    assert [start["step"] for start in read_record(cfg.run_dir)["starts"]] == [0, 10]
    words = words_of(cfg.run_dir / "report.html")
    assert re.search("UTC, after 10 updates .*same machine.*same software", words)
    assert "has not finished" not in words


def test_failing_to_write_a_report_is_only_a_warning(config_of, tmp_path, monkeypatch, caplog):
    def failing(*arguments, **values):
        raise RuntimeError("no ink")

    monkeypatch.setattr(report_module, "write_page", failing)
    monkeypatch.setattr("mtkit.runs.record.machine", failing)
    with caplog.at_level(logging.WARNING, "mtkit"):
        result = train(config_of(tmp_path / "run", max_steps=6, warmup_steps=1))
    assert (result.bundle / "model.safetensors").exists()
    assert re.search(r"report\.html: .*no ink", caplog.text)
    assert re.search(r"run\.json: .*no ink", caplog.text)


def test_a_run_without_a_record_has_a_report_with_what_is_known(copied_run):
    (copied_run / "run.json").write_text("{ damaged")
    words = words_of(write_report(copied_run))
    assert "It learned from its text in" in words
    assert "BLEU, dev" in words


def test_test_scores_are_shown_until_the_model_changes(copied_run):
    bundle = copied_run / "model"
    note_test_scores(bundle, weights_checksum(bundle), 2000, SCORES)
    words = words_of(copied_run / "report.html")
    plain = words.replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert re.search("2 000 sentences, which were set aside .* 61.2 of 100", plain)
    assert "made:up|version:9" in words
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["sha256"]["model.safetensors"] = "0" * 64
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    assert "made:up|version:9" not in words_of(write_report(copied_run))


def test_evaluating_the_unchanged_model_on_its_test_set_adds_scores_to_the_report(copied_run, monkeypatch):
    monkeypatch.setattr("mtkit.console.set_up_logging", lambda quiet: None)  # other tests watch the log

    def evaluate(*options):
        command = ["evaluate", "--model", str(copied_run), "--json", "--bootstrap", "10", *options]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    evaluate("--beam-size", "2")
    evaluate("--split", "dev")
    assert "The test set has no scores yet" in words_of(write_report(copied_run))
    said = json.dumps(evaluate())
    words = words_of(copied_run / "report.html")
    assert "On 8 sentences, which were set aside until the end" in words
    [bleu] = re.findall(r"its translations score ([\d.]+) of 100 points", words)
    assert any(f"{float(score):.1f}" == bleu for score in re.findall(r'"score": ([\d.]+)', said)), said
    assert "The test set has no scores yet" not in words


def test_a_bundle_without_its_run_gets_no_files_beside_it(finished_run, tmp_path):
    bundle = shutil.copytree(finished_run / "model", tmp_path / "model")
    note_test_scores(bundle, weights_checksum(bundle), 2000, SCORES)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_markup_in_the_text_stays_text(bare_run):
    sample = Sample("<script>alert(1)</script>", "a & b", "</td><b>bold</b>")
    page = write_report(bare_run([1.0], samples=[sample])).read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<b>bold" not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page


def test_equal_translations_in_a_row_are_shown_once(bare_run):
    texts = ["x", "x", "x", "y", "", "right"]
    run_dir = bare_run([1.0] * 6, samples=[Sample("a", "right", text) for text in texts])
    words = words_of(write_report(run_dir))
    assert " 10 to 30 x 40 y 50 (empty) 60 right " in words


def test_long_texts_are_shortened_in_the_log(tmp_path):
    with MetricsLog(tmp_path, 0) as log:
        log.write_samples(1, [Sample("a" * 400, "b" * 401, "c")])
    [entry] = read_metrics(tmp_path / "metrics.jsonl")
    assert entry["samples"] == [{"src": "a" * 400, "reference": "b" * 399 + "…", "translation": "c"}]


def test_a_resumed_run_drops_the_samples_that_it_will_write_again(tmp_path):
    with MetricsLog(tmp_path, 0) as log:
        for step in (1, 2, 3):
            log.write_samples(step, [])
    with MetricsLog(tmp_path, 2):
        pass
    assert [entry["step"] for entry in read_metrics(tmp_path / "metrics.jsonl")] == [1, 2]


@pytest.mark.parametrize(
    ("bleus", "losses", "said"),
    [
        ([10, 20, 30, 32], [4, 3, 2, 1], "still improving, by 2.0 BLEU in the last quarter"),
        ([10, 20, 30, 30.5], [4, 3, 2, 1], None),
        ([10, 20, 30, 32], [4, 3, 2, 2.2], "dev loss was lowest at step 30 and has risen since"),
        ([10, 32], [4, 3], None),
    ],
)
def test_it_says_what_the_curves_mean(bare_run, bleus, losses, said):
    words = words_of(write_report(bare_run(bleus, losses)))
    for sentence in ("still improving", "dev loss was lowest"):
        assert (sentence in words) == (said is not None and sentence in said)
    assert said is None or said in words


def test_the_curve_of_bleu_has_a_band_where_the_run_has_a_forecast(bare_run):
    folder = bare_run(bleus=[5.0, 9.0])
    assert 'path class="band"' not in write_report(folder).read_text()
    record = {"learning_curve": {"n_pairs": 10_000, "trigrams": 0.6}, "tokens_an_update": 50_000}
    (folder / "run.json").write_text(json.dumps(record))
    page = write_report(folder).read_text()
    assert page.count('<path class="band"') == 2  # in the chart and in its legend
    (folder / "run.json").write_text(json.dumps({**record, "tokens_an_update": 10}))  # before the first forecast
    assert 'path class="band"' not in write_report(folder).read_text()


def test_it_names_the_original_model_and_the_teachers(config_of, tmp_path):
    cfg = config_of(tmp_path / "run", init_from="/runs/general/model")
    write_config(cfg, {})
    (cfg.run_dir / "run.json").write_text(json.dumps({"teachers": ["/runs/big"]}))
    with MetricsLog(cfg.run_dir, 0):
        pass
    words = words_of(write_report(cfg.run_dir))
    assert re.search(r"translator from English into French, .*\(general\)", words)
    assert re.search("started from .*/runs/general/model trained on translations by /runs/big", words)


@pytest.mark.parametrize(("bleu", "is_useless"), [(9.9, True), (10.0, False)])
def test_it_says_when_the_translations_are_useless(copied_run, bleu, is_useless):
    scores = [MetricScore("BLEU", bleu, "made:up", 9.0, 11.0, bleu)]
    note_test_scores(copied_run / "model", weights_checksum(copied_run / "model"), 2000, scores)
    words = words_of(copied_run / "report.html")
    assert (f"A BLEU of {bleu} is too low" in words) == is_useless


@pytest.mark.parametrize(
    ("data", "title", "said"),
    [
        (
            {"src_lang": "en", "tgt_lang": "pt-BR"},
            ": English to Portuguese ",
            "translator from English into Portuguese. ",
        ),
        ({}, ": English to French ", "translator from English into French. "),
        (
            {"dev": {"src": "dev.txt", "tgt": "dev.ref"}},
            ": English to French ",
            "translator from English into French. ",
        ),
        ({"dev": {"tsv": "dev.tsv"}, "train": [{"tsv": "train.tsv"}]}, " ", "a translator. "),
    ],
)
def test_it_names_the_languages_if_the_config_or_the_files_do(config_of, corpus, tmp_path, data, title, said):
    write_config(config_of(tmp_path / "my", data={**corpus, **data}), {})
    with MetricsLog(tmp_path / "my", 0):
        pass
    words = words_of(write_report(tmp_path / "my"))
    assert words.startswith(f"Report on the run my{title}Report on the run my")
    assert said in words


def test_the_checks_of_a_suite_have_a_curve_each(bare_run):
    run_dir = bare_run()
    with MetricsLog(run_dir, 0) as log:
        for step in (1, 2):
            log.write("validation", step, {"bleu": 1.0, "loss": 1.0, "suite": 0.5, "suite.numbers": step / 4})
    words = words_of(write_report(run_dir))
    assert "Behaviour checks of train.suite that pass" in words
    assert "all checks: 0.5 at step 2" in words
    assert "numbers: 0.25 at step 1" in words


def test_it_says_that_the_run_went_back(bare_run):
    recovery = {"step": 10, "failed_step": 15, "reason": "step 15: the loss explodes", "lr_factor": 0.5}
    words = words_of(write_report(bare_run([1.0], recoveries=[recovery])))
    assert "diverged at step 15; it went back to step 10" in words


def test_a_folder_without_a_run_is_only_a_warning(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "mtkit"):
        assert refresh_report(tmp_path) is None
    assert "report.html: " in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_a_long_curve_keeps_its_order_its_ends_and_its_peaks():
    values = np.random.default_rng(0).normal(size=10_000)
    values[4321], values[8765] = 50.0, -50.0
    points = list(enumerate(values.tolist()))
    kept = thinned(points, 400)
    assert len(kept) <= 400
    assert kept == sorted(set(kept) & set(points))
    assert {points[4321], points[8765]} <= set(kept)
    assert thinned(points[:400], 400) == points[:400]


def test_the_page_reads_well_in_a_browser(browser, copied_run, tmp_path):
    note_test_scores(copied_run / "model", weights_checksum(copied_run / "model"), 2000, SCORES)
    check_page(browser, copied_run / "report.html", tmp_path)
