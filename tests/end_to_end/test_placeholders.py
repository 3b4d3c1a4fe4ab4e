"""Text that a model copies exactly: names in braces and numbers, which the translation puts elsewhere."""

import json
import logging
import random
import re
from pathlib import Path

import pytest
from sentencepiece import SentencePieceProcessor
from typer.testing import CliRunner

from mtkit.bundle import read_bundle
from mtkit.cli import app
from mtkit.config.augment import NOTHING
from mtkit.config.schema import Config
from mtkit.config.tags import TOKENS
from mtkit.documents.marked_lines import MarkedLines
from mtkit.errors import BundleError, ConfigError
from mtkit.runs.train import train
from mtkit.translation.streaming import LiveTranslator
from mtkit.translation.translator import Translator

PATTERNS = [r"\{[^{}]+\}", r"\d+(?:[.,]\d+)*", r"<br/>"]
WORDS = dict(zip("abcd", "ghij", strict=True))
_PLACEHOLDER = re.compile("|".join(PATTERNS))
TAG = re.compile(r"</?[biu]>")


def translated(line: str) -> str:
    """Word by word, "a" after what follows it: so that placeholders move."""
    words = line.split(" ")
    for index in range(len(words) - 1):
        if words[index] == "a":
            words[index : index + 2] = words[index + 1], words[index]
    return " ".join(WORDS.get(word, word) for word in words)


def new_value(rng: random.Random) -> str:
    letters = "".join(rng.choices("abcdefghijklmnopqrstuvwxyzéßЖ_", k=rng.randint(1, 12)))
    return rng.choice(["{" + letters + "}", str(rng.randint(0, 10**9)), f"{rng.random():.3f}", "<br/>"])


def sentences(seed: int, n: int, placeholders: tuple[int, int]) -> list[str]:
    rng = random.Random(seed)
    lines = []
    for _ in range(n):
        words = rng.choices(list(WORDS), k=rng.randint(2, 4))
        words += [new_value(rng) for _ in range(rng.randint(*placeholders))]
        rng.shuffle(words)
        lines.append(" ".join(words))
    return lines


def write_corpus(folder: Path, name: str, lines: list[str]) -> dict[str, str]:
    path = folder / f"{name}.tsv"
    path.write_text("".join(f"{line}\t{translated(line)}\n" for line in lines), encoding="utf-8")
    return {"tsv": str(path)}


def as_config(folder: Path, *, steps: int = 400, placeholders: list[str] | None = None) -> Config:
    pieces = {"vocab_size": 330, "type": "bpe"}
    sizes = {"d_model": 64, "d_ff": 128, "n_heads": 4, "n_encoder_layers": 1, "n_decoder_layers": 1}
    limits = {
        "max_steps": steps,
        "warmup_steps": min(20, steps - 1),
        "validate_every": steps,
        "batch_tokens": 800,
        "lr": 0.005,
    }
    fixed = {"schedule": "cosine", "label_smoothing": 0, "threads": 1, "device": "cpu", "precision": "fp32"}
    return Config.model_validate(
        {
            "run_dir": str(folder / "run"),
            "data": {
                "train": [write_corpus(folder, "train", sentences(1, 3000, (0, 3)))],
                "dev": write_corpus(folder, "dev", sentences(2, 30, (0, 3))),
                "placeholders": PATTERNS if placeholders is None else placeholders,
            },
            "tokenizer": {"src": pieces, "tgt": pieces},
            "augment": NOTHING.model_dump(),
            "model": {**sizes, "residual_dropout": 0, "embedding_dropout": 0},
            "train": limits | fixed,
            "decode": {"beam_size": 2, "on_suspect": "off", "engine": "native"},
        }
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Config:
    cfg = as_config(tmp_path_factory.mktemp("placeholders"))
    assert train(cfg).dev_scores["chrf"] > 95
    return cfg


@pytest.fixture(scope="module")
def bundle(run: Config) -> Path:
    assert run.run_dir is not None
    return run.run_dir / "model"


@pytest.fixture(scope="module")
def bad_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learnt next to nothing, and forgets placeholders wherever it may."""
    folder = tmp_path_factory.mktemp("bad")
    train(as_config(folder, steps=3))
    return folder / "run" / "model"


HELD_OUT = sentences(3, 200, (1, 3))
SEARCHES = [
    {"beam_size": 1},
    {"beam_size": 4},
    {"beam_size": 4, "beam_groups": 2},
    {"sampling": True},
    {"mbr_samples": 4},
    {"on_suspect": "retry"},
    {"beam_size": 2, "no_repeat_ngram": 1, "repetition_penalty": 3.0},
    {"max_src_tokens": 8},
    {"max_len": 4},
]


def copied(text: str) -> list[str]:
    return sorted(_PLACEHOLDER.findall(text))


def lost(line: str, text: str) -> list[str]:
    """The placeholders of a line that its translation has less often."""
    return [value for value in copied(line) if text.count(value) < copied(line).count(value)]


def test_a_trained_model_puts_each_placeholder_where_it_belongs(bundle, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("mtkit"), "propagate", True)
    translations = Translator.load(bundle).translate(HELD_OUT)
    assert "is unlike the training text" not in caplog.text
    right = [text == translated(line) for line, text in zip(HELD_OUT, translations, strict=True)]
    assert sum(right) >= 0.97 * len(right)
    assert [copied(text) for text in translations] == [copied(line) for line in HELD_OUT]


@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize("quality", ["good", "bad"])
def test_no_search_of_any_model_loses_or_doubles_a_placeholder(bundle, bad_bundle, search, quality):
    translator = Translator.load(bundle if quality == "good" else bad_bundle, **search)
    lines = HELD_OUT[:40]
    for line, translation in zip(lines, translator.stream(lines), strict=True):
        assert not lost(line, translation.text)
        pieces = translator.tgt_tokenizer.pieces(translation.n_best[0].ids)
        assert len([piece for piece in pieces if piece in TOKENS]) == len(copied(line)) or "max_len" in search


def test_every_candidate_has_each_placeholder(bad_bundle):
    translator = Translator.load(bad_bundle, beam_size=4)
    for line, translation in zip(HELD_OUT[:20], translator.stream(HELD_OUT[:20], n_best=4), strict=True):
        assert not any(lost(line, candidate.text) for candidate in translation.n_best)
        assert [candidate.n_moved for candidate in translation.n_best] == [0] * 4  # the search had placed them


@pytest.mark.parametrize(
    "line",
    [
        "{name}",
        "1",
        "a <ph1> b <ph2>",
        "<ph1>{x}<ph1>",
        "{a}{a}{a} a",
        "a {  two  spaces } b",
        "{Ünï ▁ \u0301ﬁ}",
        " ".join("abcd"[n % 4] + f" {n}" for n in range(30)),
        "".join(f"{{{n}}}" for n in range(30)),
        "a. b 1. {a. b. c. d.} " * 30,
    ],
)
def test_difficult_lines_keep_their_placeholders_byte_for_byte(bundle, bad_bundle, line):
    pattern = re.compile(_PLACEHOLDER.pattern + "|<ph[1-9]>")
    for folder in (bundle, bad_bundle):
        [text] = Translator.load(folder).translate([line])
        for value in pattern.findall(line):
            assert text.count(value) >= line.count(value)


def test_live_translation_has_them_too(bundle, bad_bundle):
    for folder in (bundle, bad_bundle):
        translator = Translator.load(folder)
        for line in HELD_OUT[:10]:
            parts: list[str] = []
            text = LiveTranslator(translator).translate(line, parts.append).text
            assert "".join(parts) == text == translator.translate([line])[0]


def test_a_prefix_with_a_placeholder_uses_it_up(bundle):
    session = Translator.load(bundle).session(prefix="{x}")
    [translation] = session.translate(["a b {x}"])
    assert translation.text.startswith("{x} ") and translation.text.count("{x}") == 1


def test_terms_and_placeholders_are_met_together(bundle, tmp_path):
    (tmp_path / "terms.tsv").write_text("source\ttarget\na\tj\n7\ti\n", encoding="utf-8")
    translator = Translator.load(bundle, terminology=str(tmp_path / "terms.tsv"))
    session = translator.session()
    for line in ("b a {a} 7", "{a} b 7", "7 a 7 a {b}"):
        [translation] = session.translate([line])
        assert not lost(line, translation.text)
        assert translation.text.count("j") == line.split().count("a")
    assert session.terms is not None
    assert session.terms.n_required == session.terms.n_met == 3  # a placeholder is no word: 7 is not one


def test_score_and_alignment_read_a_placeholder_as_one_word(bundle, tmp_path):
    pairs = [("b {x y} c", "h {x y} i"), ("b 1 c", "h 1 i"), ("b 1 c", "h i")]
    for name, lines in zip(("src", "tgt"), zip(*pairs, strict=True), strict=True):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = ["--src", str(tmp_path / "src"), "--tgt", str(tmp_path / "tgt"), "--alignments"]
    done = CliRunner().invoke(app, ["score", "--model", str(bundle), *files])
    assert done.exit_code == 0, done.output
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    scores = [float(row[0]) for row in rows]
    assert scores[0] == scores[1] > scores[2] + 4  # what lacks a placeholder is a bad translation
    for row, (src, tgt) in zip(rows, pairs, strict=True):
        links = {tuple(map(int, link.split("-"))) for link in row[4].split()}
        assert links <= {(i, j) for i in range(len(src.split())) for j in range(len(tgt.split()))}


@pytest.mark.parametrize("line", ["a {x <b>y</b>} b", "{x<i>-</i><b>y</b>z} b", "a {<u>a b</u>} 1<i>,</i>000 c"])
def test_no_markup_comes_to_stand_in_a_placeholder(bundle, bad_bundle, line):
    for folder in (bundle, bad_bundle):
        [marked] = MarkedLines(Translator.load(folder)).translate([line])
        assert not lost(TAG.sub("", line), marked)
        assert sorted(TAG.findall(marked)) == sorted(TAG.findall(line))


def test_ctranslate2_takes_the_hypothesis_that_has_them_or_appends(bundle, bad_bundle, tmp_path, caplog, monkeypatch):
    pytest.importorskip("ctranslate2", reason="the extra fast is not installed")
    for folder in (bundle, bad_bundle):  # both engines search freely for the comparison, so even the bad one agrees
        done = CliRunner().invoke(app, ["export", "--to", "ctranslate2", "--model", str(folder)])
        assert done.exit_code == 0, done.output
        monkeypatch.setattr(logging.getLogger("mtkit"), "propagate", True)  # which a command ends
        translator = Translator.load(folder, engine="ctranslate2")
        lines = HELD_OUT[:40]
        assert not any(map(lost, lines, translator.translate(lines)))
    assert "lost or repeated a placeholder" in caplog.text


def test_another_program_keeps_placeholders_as_the_readme_of_an_export_says(bundle, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra fast is not installed")
    folder = tmp_path / "exported"
    arguments = ["export", "--to", "ctranslate2", "--model", str(bundle), "--out", str(folder)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert f"{folder} does not include data.placeholders" in done.stderr and f"{folder / 'README.md'}" in done.stderr
    readme = (folder / "README.md").read_text(encoding="utf-8")
    patterns = [line.strip() for line in readme.splitlines() if line.startswith("      ")]
    assert patterns == PATTERNS
    assert all(token in readme for token in (TOKENS[0], TOKENS[-1], "src.spm", "tgt.spm"))
    src, tgt = (SentencePieceProcessor(model_file=str(bundle / f"{side}.spm")) for side in ("src", "tgt"))
    translator = ctranslate2.Translator(str(folder))
    n_kept = 0
    for line in HELD_OUT[:40]:
        tokens = iter(TOKENS)
        found = {next(tokens): match[0] for match in re.finditer("|".join(patterns), line)}
        for token, value in found.items():
            line = line.replace(value, token, 1)
        [result] = translator.translate_batch([src.encode(line, out_type=str)])
        text = tgt.decode(result.hypotheses[0])
        for token, value in found.items():
            text = text.replace(token, value)
            n_kept += value in text
    assert n_kept > 0.9 * sum(len(_PLACEHOLDER.findall(line)) for line in HELD_OUT[:40])  # search may lose one


def test_members_of_an_ensemble_have_the_same_patterns(bundle, bad_bundle, tmp_path):
    both = Translator.load([bundle, bundle], beam_size=2)
    assert both.translate(HELD_OUT[:5]) == Translator.load(bundle, beam_size=2).translate(HELD_OUT[:5])
    other = as_config(tmp_path, steps=3, placeholders=[r"\d"])
    train(other)
    with pytest.raises(BundleError, match=r"cannot be an ensemble: data\.placeholders is .* and \['\\\\d'\]"):
        Translator.load([bundle, tmp_path / "run"])


def test_a_run_that_starts_from_a_model_has_its_patterns(bundle, tmp_path):
    cfg = as_config(tmp_path, steps=1)
    start = {"max_steps": 1, "validate_every": 1, "init_from": str(bundle)}
    data = cfg.data.model_dump(mode="json", exclude={"placeholders"})
    values = {"run_dir": str(tmp_path / "run"), "data": data, "train": start, "decode": {"on_suspect": "off"}}
    train(Config.model_validate(values, context={"is_part": True}))
    assert read_bundle(tmp_path / "run" / "model").config.data.placeholders == PATTERNS
    other = {**values, "run_dir": str(tmp_path / "other"), "data": {**data, "placeholders": ["x+"]}}
    train(Config.model_validate(other, context={"is_part": True}))
    assert read_bundle(tmp_path / "other" / "model").config.data.placeholders == ["x+"]


def test_a_start_without_reserved_tokens_is_refused(tmp_path):
    plain = as_config(tmp_path, steps=1, placeholders=[])
    train(plain)
    start = {"max_steps": 1, "validate_every": 1, "init_from": str(tmp_path / "run")}
    data = {**plain.data.model_dump(mode="json"), "placeholders": ["x+"]}
    values = {"run_dir": str(tmp_path / "new"), "data": data, "train": start}
    with pytest.raises(ConfigError, match=r"no tokens <ph1> to <ph9>.* remove data\.placeholders"):
        train(Config.model_validate(values, context={"is_part": True}))
    assert not list((tmp_path / "new").glob("*.spm"))


def test_other_patterns_make_another_run(run, tmp_path):
    changed = run.model_copy(update={"data": run.data.model_copy(update={"placeholders": ["x"]})})
    with pytest.raises(ConfigError, match=r"data\.placeholders: .* there, \['x'\] now\nstart a new run"):
        train(changed)


def test_pairs_whose_placeholders_differ_are_counted(bundle, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("mtkit"), "propagate", True)
    caplog.set_level(logging.INFO, "mtkit")
    cfg = as_config(tmp_path, steps=1)
    with (tmp_path / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("a {x}\th\na\t5 h\na 5\t5 h\n")
    train(cfg)
    assert re.search(r"train\.tsv: 3,003 of 3,003 .*; 2 .* placeholder on one side", caplog.text)


def test_tokenize_shows_what_the_model_reads(bundle):
    done = CliRunner().invoke(app, ["tokenize", "--model", str(bundle), "--side", "src"], input="a {some name} b\n")
    assert done.exit_code == 0, done.output
    assert re.search(r"<ph\d>", done.stdout) and "name" not in done.stdout


def test_json_has_tokens_and_alignments(bundle):
    options = ["--json", "--tokens", "--alignments", "--model", str(bundle), "a {some name} b"]
    done = CliRunner().invoke(app, ["translate", *options])
    assert done.exit_code == 0, done.output
    line = json.loads(done.stdout)
    assert "{some name}" in json.dumps(line)
