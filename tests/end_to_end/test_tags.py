"""Two languages in one model: the tag before the source decides which of them comes out, on the whole road."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mtkit.alignment.attention import align
from mtkit.bundle import load_bundle, save_bundle
from mtkit.cli import app
from mtkit.config.augment import NOTHING
from mtkit.config.reading.loading import load_config
from mtkit.config.schema import Config
from mtkit.errors import ConfigError, DataError
from mtkit.interop.parity import measure_parity
from mtkit.runs.train import train
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.translation import confidence
from mtkit.translation.translator import Translator

# Words of one letter and few sentences: there is nothing to learn but which word stands for which.
FRENCH = dict(zip("abcd", "ghij", strict=True))
GERMAN = dict(zip("abcd", "uvwx", strict=True))


def translated(line: str, words: dict[str, str]) -> str:
    return " ".join(map(words.__getitem__, line.split()))


def write_corpus(folder: Path, name: str, words: dict[str, str], tag: str, n_pairs: int) -> dict[str, str]:
    rng = random.Random(name)
    lines = [" ".join(rng.sample(list(words), k=rng.randint(2, 3))) for _ in range(n_pairs)]
    path = folder / f"{name}.tsv"
    path.write_text("".join(f"{line}\t{translated(line, words)}\n" for line in lines), encoding="utf-8")
    return {"tsv": str(path), "tag": tag}


def as_config(folder: Path, **data: Any) -> Config:
    pieces = {"vocab_size": 300, "type": "bpe"}
    sizes = {
        "d_model": 64,
        "d_ff": 128,
        "n_heads": 4,
        "n_encoder_layers": 1,
        "n_decoder_layers": 1,
        "residual_dropout": 0,
        "embedding_dropout": 0,
    }
    steps = {"max_steps": 200, "warmup_steps": 20, "validate_every": 200, "batch_tokens": 400, "lr": 0.005}
    return Config.model_validate(
        {
            "run_dir": str(folder / "run"),
            "data": data,
            "tokenizer": {"src": pieces, "tgt": pieces},
            "augment": NOTHING.model_dump(),
            "model": sizes,
            "train": steps
            | {"schedule": "cosine", "label_smoothing": 0, "threads": 1, "device": "cpu", "precision": "fp32"},
            "decode": {"beam_size": 1, "on_suspect": "off"},
        }
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Config:
    folder = tmp_path_factory.mktemp("tags")
    cfg = as_config(
        folder,
        train=[write_corpus(folder, "fr", FRENCH, "<2fr>", 500), write_corpus(folder, "de", GERMAN, "<2de>", 500)],
        dev=write_corpus(folder, "dev", GERMAN, "<2de>", 20),
        test=write_corpus(folder, "test", FRENCH, "<2fr>", 20),
    )
    assert train(cfg).dev_scores["chrf"] > 95  # with the tag of dev, or it would be French
    return cfg


@pytest.fixture(scope="module")
def bundle(run: Config) -> Path:
    assert run.run_dir is not None
    return run.run_dir / "model"


LINES = ["a c b", "d a", "b d"]


@pytest.mark.parametrize(("tag", "words"), [("<2fr>", FRENCH), ("<2de>", GERMAN)])
def test_the_tag_decides_what_comes_out(bundle, tag, words):
    translator = Translator.load(bundle, tag=tag)
    assert translator.translate([*LINES, ""]) == [*(translated(line, words) for line in LINES), ""]


def test_every_segment_of_a_long_line_has_the_tag(bundle):
    translator = Translator.load(bundle, tag="<2de>", max_src_tokens=8)
    line = "a b c. d b a. a b c. d b a."
    [segments] = translator.segments([line])
    assert len(segments) > 1
    assert [translator.src_tokenizer.pieces(segment.ids)[0] for segment in segments] == ["<2de>"] * len(segments)


def test_evaluate_takes_the_tag_of_the_test_set_unless_told_otherwise(bundle, run):
    def chrf(*options: str) -> float:
        done = CliRunner().invoke(app, ["evaluate", "--model", str(bundle), "--json", *options])
        assert done.exit_code == 0, done.output
        return next(s["score"] for s in json.loads(done.stdout)["scores"] if s["name"] == "chrF2")

    assert chrf() > 95
    assert chrf("--set", "decode.tag=<2de>") < 5


def test_an_export_is_compared_with_the_tag_of_the_dev_set(bundle, tmp_path, monkeypatch):
    pytest.importorskip("ctranslate2", reason="the extra fast is not installed")
    from mtkit.interop.ctranslate2 import export as ctranslate2

    compared: list[tuple[str | None, str | None]] = []

    def noted(comparisons, *rest):
        compared.extend((one.native.decode.tag, one.exported.decode.tag) for one in comparisons)
        return measure_parity(comparisons, *rest)

    monkeypatch.setattr(ctranslate2, "measure_parity", noted)
    out = str(tmp_path / "exported")
    done = CliRunner().invoke(app, ["export", "--to", "ctranslate2", "--model", str(bundle), "--out", out, "--json"])
    assert done.exit_code == 0, done.output
    assert compared == [("<2de>", "<2de>")]


@pytest.fixture(scope="module")
def with_two_dev_sets(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model, whose config has a German and a French dev set."""
    folder = tmp_path_factory.mktemp("two")
    dev = [
        {**write_corpus(folder, "german", GERMAN, "<2de>", 60), "name": "german"},
        {**write_corpus(folder, "french", FRENCH, "<2fr>", 10), "name": "french"},
    ]
    loaded = load_bundle(bundle)
    values = loaded.config.model_dump(mode="json")
    cfg = Config.model_validate({**values, "data": {**values["data"], "dev": dev}})
    spm = bundle / "src.spm", bundle / "tgt.spm"
    save_bundle(folder / "model", loaded.model.state_dict(), cfg, *spm, training={})
    return folder / "model"


def test_evaluate_scores_each_dev_set_with_its_tag(with_two_dev_sets):
    arguments = ["evaluate", "--model", str(with_two_dev_sets)]
    done = CliRunner().invoke(app, [*arguments, "--split", "dev", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["dev_sets"]
    assert {name: record["n_sentences"] for name, record in found.items()} == {"german": 60, "french": 10}
    for record in found.values():
        assert next(score["score"] for score in record["scores"] if score["name"] == "chrF2") > 95
    one = CliRunner().invoke(app, [*arguments, "--dev-set", "french", "--json"])
    assert json.loads(one.stdout)["scores"] == found["french"]["scores"]
    shown = CliRunner().invoke(app, [*arguments, "--split", "dev"]).stdout.splitlines()
    assert [line for line in shown if line.startswith("dev")] == ["dev (german)", "dev (french)"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--split", "dev", "-o", "out.txt"],
            "--output: applies to one of the 2 dev sets; choose it with --dev-set: german, ",
        ),
        (["--dev-set", "web"], "--dev-set web: "),
        (["--dev-set", "web"], "its dev sets are german, french"),
    ],
)
def test_evaluate_names_the_dev_sets_to_choose_from(with_two_dev_sets, options, message):
    done = CliRunner().invoke(app, ["evaluate", "--model", str(with_two_dev_sets), *options])
    assert done.exit_code == 2
    assert message in done.stderr


def test_an_export_is_compared_on_all_dev_sets_with_their_tags(with_two_dev_sets, tmp_path, monkeypatch):
    pytest.importorskip("ctranslate2", reason="the extra fast is not installed")
    from mtkit.interop.ctranslate2 import export as ctranslate2

    def noted(comparisons, *rest):
        for one in comparisons:
            for translator in (one.native, one.exported):
                found = [n_best[0].text for n_best in translator.search(one.text.sources)]
                assert found == one.text.references
        return measure_parity(comparisons, *rest)

    monkeypatch.setattr(ctranslate2, "measure_parity", noted)
    arguments = ["export", "--to", "ctranslate2", "--model", str(with_two_dev_sets), "--lines", "30"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "exported")])
    assert done.exit_code == 0, done.output
    assert "20 lines of dev (german), 10 of dev (french)" in done.stdout  # evenly, where a set is large enough
    certificate = json.loads((tmp_path / "exported" / "parity.json").read_text(encoding="utf-8"))
    assert "does not include data.train.tag" in done.stderr
    assert "`<2fr>`, `<2de>`" in (tmp_path / "exported" / "README.md").read_text(encoding="utf-8")
    assert (certificate["n_lines"], certificate["texts"]) == (30, {"dev (german)": 20, "dev (french)": 10})


def test_a_calibration_is_fitted_on_all_dev_sets_with_their_tags(with_two_dev_sets, monkeypatch):
    def noted(candidates, references, *, tags, **_):
        assert [candidate.text for candidate in candidates] == references
        assert tags == ["<2de>", "<2fr>"]
        assert len(candidates) == 20 + 10
        raise DataError("seen")

    monkeypatch.setattr(confidence, "calibrate_translations", noted)
    arguments = ["calibrate", "--model", str(with_two_dev_sets), "--max-sentences", "30"]
    assert "seen" in CliRunner().invoke(app, arguments).stderr


@pytest.mark.parametrize(("options", "tag"), [([], "<2fr>"), (["--set", "decode.tag=<2de>"], "<2de>")])
def test_doctor_decodes_with_the_tag_of_the_test_set_unless_told_otherwise(bundle, monkeypatch, options, tag):
    asked = []
    monkeypatch.setattr(
        "mtkit.translation.consistency.examine", lambda bundle, *_, **__: asked.append(bundle.config.decode.tag) or []
    )
    done = CliRunner().invoke(app, ["doctor", "decode", "--model", str(bundle), *options])
    assert done.exit_code == 0, done.output
    assert asked == [tag]


def test_score_and_alignment_read_the_tag_as_no_word(bundle, tmp_path):
    pairs = [("a b c", "u v w"), ("d b", "x v")]
    for side, lines in zip(("src", "tgt"), zip(*pairs, strict=True), strict=True):
        (tmp_path / side).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = ["--src", str(tmp_path / "src"), "--tgt", str(tmp_path / "tgt"), "--alignments"]

    def scored(tag: str) -> list[list[str]]:
        done = CliRunner().invoke(app, ["score", "--model", str(bundle), *files, "--set", f"decode.tag={tag}"])
        assert done.exit_code == 0, done.output
        return [line.split("\t") for line in done.stdout.splitlines()]

    for right, wrong in zip(scored("<2de>"), scored("<2fr>"), strict=True):
        assert float(right[0]) > -1 > -5 > float(wrong[0])
    links = [{tuple(map(int, link.split("-"))) for link in line[4].split()} for line in scored("<2de>")]
    for found, (src, tgt) in zip(links, pairs, strict=True):
        assert found <= {(i, j) for i in range(len(src.split())) for j in range(len(tgt.split()))}


@pytest.mark.parametrize("tags", ["<2de>", "<2de> <2fr>"])
def test_attention_to_the_tags_counts_as_attention_to_the_end(bundle, monkeypatch, tags):
    import torch

    loaded = load_bundle(bundle)
    tokenizer = loaded.src_tokenizer.tagged(tags)
    last_tag = len(tags.split()) - 1
    n_src, n_tgt = len(tokenizer.encode("d b")), len(loaded.tgt_tokenizer.encode("x v"))
    attention = torch.zeros(n_tgt, n_src + 1)
    attention[:, last_tag], attention[:, -2] = 0.6, 0.4  # the last piece of "b"
    monkeypatch.setattr("mtkit.alignment.attention.attention_weights", lambda *_, **__: [attention])
    assert align(loaded.model, tokenizer, loaded.tgt_tokenizer, [("d b", "x v")]) == [""]
    attention[:, last_tag], attention[:, -2] = 0.4, 0.6
    assert align(loaded.model, tokenizer, loaded.tgt_tokenizer, [("d b", "x v")]) == ["1-0 1-1"]


def test_a_missing_or_unknown_tag_is_said(bundle, caplog, monkeypatch):
    import logging

    monkeypatch.setattr(logging.getLogger("mtkit"), "propagate", True)
    Translator.load(bundle)
    assert re.search(r"\(<2de>, <2fr>\); choose .*--set 'decode\.tag=<2fr>'", caplog.text)
    with pytest.raises(DataError, match=r"src.spm: it has no tag <2es>; it has <2de>, <2fr>"):
        Translator.load(bundle, tag="<2es>")
    with pytest.raises(DataError, match=r"src.spm: it has no tag <2es>; it has <2de>, <2fr>"):
        Translator.load(bundle, tag="<2de> <2es>")
    with pytest.raises(ConfigError, match=r"tag='2de': .*angle brackets"):
        Translator.load(bundle, tag="2de")


def test_tags_are_pieces_that_normalisation_and_text_leave_whole(run):
    assert run.run_dir is not None
    tokenizer = Tokenizer.load(run.run_dir / "src.spm")
    for tag in ("<2de>", "<2fr>", "<2fr> <2de>"):
        tag_ids = tokenizer.piece_ids(tag.split())
        tagged = tokenizer.tagged(tag)
        assert tagged.encode("a b") == [*tag_ids, *tokenizer.encode("a b")]
        assert tagged.encode_batch(["a b", " ", ""]) == [[*tag_ids, *tokenizer.encode("a b")], [], []]
        assert tagged.decode(tagged.encode("a b")) == "a b"
        assert tagged.untagged(tagged.encode("a b")) == tokenizer.encode("a b")
        assert tag.split()[0] in tokenizer.pieces(tokenizer.encode(f"a{tag}b"))  # also where text holds it
        assert tagged.tagged(None).encode("a b") == tokenizer.encode("a b")


def test_a_tag_that_the_tokenizer_was_not_trained_with_stops_the_run(run, tmp_path):
    assert run.run_dir is not None
    (tmp_path / "run").mkdir()
    for name in ("src.spm", "tgt.spm"):
        (tmp_path / "run" / name).write_bytes((run.run_dir / name).read_bytes())
    other = write_corpus(tmp_path, "es", FRENCH, "<2es>", 20)
    with pytest.raises(DataError, match=r"src.spm: it has no tag <2es>"):
        train(as_config(tmp_path, train=[other], dev=other))


@pytest.mark.parametrize("part", ["data.dev", "data.test", "decode"])
def test_a_tag_that_no_training_text_has_stops_the_run_before_anything_is_made(run, tmp_path, part):
    tags = {"data.dev": "<2de>", "data.test": "<2de> <2fr>", "decode": "<2fr>"} | {part: "<2de> <2ed>"}
    dev, test = (
        corpus.model_copy(update={"tag": tags[key]})
        for key, corpus in (("data.dev", run.data.dev[0]), ("data.test", run.data.test))
    )
    cfg = run.model_copy(
        update={
            "run_dir": tmp_path / "run",
            "data": run.data.model_copy(update={"dev": [dev], "test": test}),
            "decode": run.decode.model_copy(update={"tag": tags["decode"]}),
        }
    )
    with pytest.raises(ConfigError, match=rf"^{part}\.tag=<2de> <2ed>: .* the tag <2ed>, .* <2de>, <2fr>$"):
        train(cfg)
    assert not (tmp_path / "run" / "src.spm").exists()


def test_a_dev_set_without_a_tag_beside_tagged_text_is_said(run, tmp_path, caplog, monkeypatch):
    import logging

    monkeypatch.setattr(logging.getLogger("mtkit"), "propagate", True)
    data = run.data.model_copy(update={"dev": [run.data.dev[0].model_copy(update={"tag": None})]})
    limits = run.train.model_copy(update={"max_steps": 1, "validate_every": 1})
    train(run.model_copy(update={"run_dir": tmp_path / "run", "data": data, "train": limits}))
    assert re.search(r"data\.dev has no tag, .*data\.train", caplog.text)


def test_names_of_special_pieces_are_no_tags(tmp_path):
    for tag in ("<s>", "<unk>", "<0x0A>"):
        (tmp_path / "c.yaml").write_text(
            f"data: {{train: [{{tsv: a.tsv, tag: '{tag}'}}], dev: {{tsv: a.tsv}}}}\ntrain: {{max_steps: 9}}\n"
        )
        with pytest.raises(ConfigError, match=rf"data\.train\.0\.tag: {tag} is already a special token"):
            load_config(tmp_path / "c.yaml", [])
