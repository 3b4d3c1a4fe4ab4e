"""`mtkit export`: the certificate of a CTranslate2 model, what is refused, and the exported model at work."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from mtkit.bundle import bundle_file, read_bundle, save_bundle
from mtkit.cli import app
from mtkit.config.schema import Config
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.errors import BundleError, MtkitError
from mtkit.files import sha256_file
from mtkit.interop.parity import Parity, SearchParity, Tolerance, token_agreement
from mtkit.model import ops
from mtkit.model.transformer import Transformer
from mtkit.runs import export
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID
from mtkit.tokens.tokenizer import train_tokenizer
from mtkit.translation.candidates import Candidate
from mtkit.translation.translator import Translator

pytest.importorskip("ctranslate2", reason="the extra `fast` is not installed")

WANTS_INT8 = export.wants_int8  # which other tests do without
LINES = ["I love oranges.", "The cat sleeps under the table.", "", "Do you see the big house?", "It rains, it rains."]


@pytest.fixture(scope="module")
def random_bundle(tmp_path_factory) -> Path:
    """A bundle whose model has random weights; its dev set is LINES, each its own reference."""
    folder = tmp_path_factory.mktemp("bundle")
    (folder / "dev.tsv").write_text("".join(f"{line}\t{line}\n" for line in LINES), encoding="utf-8")
    tokenizer = train_tokenizer(LINES, TokenizerConfig(vocab_size=300), folder / "any.spm")
    cfg = Config.model_validate(
        {
            "data": {"train": [{"tsv": folder / "dev.tsv"}], "dev": {"tsv": folder / "dev.tsv"}},
            "tokenizer": {"src": {"vocab_size": 300}, "tgt": {"vocab_size": 300}},
            "model": {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1},
            "train": {"max_steps": 2000, "threads": 1},
            "decode": {"beam_size": 2, "on_suspect": "off", "max_len_factor": 1.0, "max_len_constant": 5},
        }
    )
    torch.manual_seed(0)
    model = Transformer(cfg.model, tokenizer.vocab_size, tokenizer.vocab_size)
    with torch.no_grad():
        model.output.bias[[PAD_ID, BOS_ID]] = -30.0
        model.output.bias[EOS_ID + 1 : EOS_ID + 257] = -30.0  # single bytes
    save_bundle(folder / "model", model.state_dict(), cfg, folder / "any.spm", folder / "any.spm", training={})
    return folder / "model"


@pytest.fixture
def bundle(random_bundle, tmp_path) -> Path:
    """A bundle that a test may change."""
    return Path(shutil.copytree(random_bundle, tmp_path / "model"))


@pytest.fixture(scope="module")
def exported(random_bundle, tmp_path_factory) -> Path:
    """A bundle with its CTranslate2 model."""
    folder = Path(shutil.copytree(random_bundle, tmp_path_factory.mktemp("exported") / "model"))
    assert run("--to", "ctranslate2", "--model", folder).exit_code == 0
    return folder


def run(*args: object):
    return CliRunner().invoke(app, ["export", *map(str, args)])


def test_an_export_measures_int8_on_dev_for_a_model_without_scores(bundle, monkeypatch):
    if not ops.has_faster_decoder(read_bundle(bundle).config.model, "int8"):
        pytest.skip("this processor lacks the instructions")
    monkeypatch.setattr("mtkit.runs.export.wants_int8", WANTS_INT8)
    assert run("--to", "ctranslate2", "--model", bundle).exit_code == 0
    assert bundle_file(read_bundle(bundle), "int8.json") is not None
    scores = json.loads((bundle / "int8.json").read_text(encoding="utf-8"))["bleu"]
    assert scores.keys() == {"dev"} and scores["dev"].keys() == {"fp32", "int8"}
    lines = [line for line in LINES if line]
    for precision, bleu in scores["dev"].items():
        translations = Translator.load(bundle, engine="native", precision=precision).translate(lines)
        assert bleu == pytest.approx(sacrebleu.corpus_bleu(translations, [lines]).score)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_bundle_gets_a_model_that_translates_alike_and_a_certificate(exported):
    certificate = json.loads((exported / "ctranslate2" / "parity.json").read_text())
    assert certificate["n_lines"] == len(LINES)
    assert (certificate["quantization"], certificate["computes_in"]) == ("float32", "float32")
    assert certificate["score_difference_max"] < 1e-4
    for search, name in zip(certificate["searches"], ["greedy", "beam 2"], strict=True):
        assert search["search"] == name
        assert (search["token_agreement"], search["equal_lines"], search["bleu_change"]) == (1.0, len(LINES), 0.0)
    ours = Translator.load(exported, engine="ctranslate2", beam_size=1)
    native = Translator.load(exported, engine="native", beam_size=1)
    assert (ours.engine.name, native.engine.name) == ("ctranslate2", "native")
    assert len(set(native.translate(LINES))) > 2  # otherwise any model would pass
    assert ours.translate(LINES) == native.translate(LINES)


def test_the_export_changes_nothing_else_in_the_bundle(random_bundle, exported):
    before, after = content(random_bundle), content(exported)
    added = {name for name in after if name.startswith("ctranslate2/")}
    assert {name for name in after if before.get(name) != after[name]} == {"manifest.json", *added}
    assert {"ctranslate2/model.bin", "ctranslate2/parity.json"} <= added
    assert added <= set(json.loads(after["manifest.json"])["sha256"])


def test_an_export_to_another_folder_leaves_the_bundle_alone(bundle, tmp_path):
    before = content(bundle)
    result = run("--to", "ctranslate2", "--model", bundle, "--out", tmp_path / "elsewhere", "--json", "--lines", 2)
    assert json.loads(result.stdout)["n_lines"] == 2
    assert json.loads(result.stdout)["folder"] == str(tmp_path / "elsewhere")
    assert content(bundle) == before
    again = CliRunner().invoke(
        app, ["--quiet", "import", str(tmp_path / "elsewhere"), "--out", str(tmp_path / "again")]
    )
    assert again.exit_code == 0, again.output
    for name in ("model.safetensors", "src.spm", "tgt.spm"):
        assert (tmp_path / "again" / name).read_bytes() == (bundle / name).read_bytes(), name


def test_a_package_can_be_imported_again(bundle, tmp_path):
    cfg = read_bundle(bundle).config
    cfg = cfg.model_copy(update={"data": cfg.data.model_copy(update={"src_lang": "en", "tgt_lang": "fr"})})
    named, spm = tmp_path / "named", [bundle / f"{side}.spm" for side in ("src", "tgt")]
    save_bundle(named, load_file(bundle / "model.safetensors"), cfg, *spm, training={})
    package = tmp_path / "x.argosmodel"
    result = run("--to", "argos", "--model", named, "--out", package, "--lines", 2, "--min-agreement", 0)
    assert result.exit_code == 0, result.output
    assert "computed in" in result.stdout
    again = CliRunner().invoke(app, ["--quiet", "import", str(package), "--out", str(tmp_path / "again")])
    assert again.exit_code == 0, again.output
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (bundle / "model.safetensors").read_bytes()


def test_an_export_beyond_the_tolerance_leaves_nothing_behind(bundle, tmp_path):
    before = content(tmp_path)
    strict = ["--quantization", "int8", "--max-score-difference", 1e-9]
    for place in ([], ["--out", tmp_path / "elsewhere"]):
        result = run("--to", "ctranslate2", "--model", bundle, *strict, *place)
        assert result.exit_code == 1
        assert "int8" in result.stderr
        assert "1e-09 (--max-score-difference)" in result.stderr
        assert content(tmp_path) == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_bleu_uses_the_tokenizer_of_the_target_language(bundle, tmp_path, monkeypatch):
    config = bundle / "config.yaml"
    config.write_text(config.read_text().replace("tgt_lang: tgt", "tgt_lang: zh"))
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["sha256"]["config.yaml"] = sha256_file(config)
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    cuts = []

    def spy(hypotheses, references, settings):
        cuts.append(settings.tokenize)
        return 0.0

    monkeypatch.setattr("mtkit.interop.parity.corpus_bleu", spy)
    for name in ("text", "ref"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in LINES))
    place = "--out", tmp_path / "out"
    result = run(
        "--to", "ctranslate2", "--model", bundle, "--src", tmp_path / "text", "--ref", tmp_path / "ref", *place
    )
    assert result.exit_code == 0, result.output
    assert set(cuts) == {"zh"}


def test_a_package_needs_a_file_to_write_to(bundle, tmp_path):
    for place in ([], ["--out", tmp_path / "folder"]):
        result = run("--to", "argos", "--model", bundle, *place)
        assert result.exit_code == 2
        assert ".argosmodel" in result.stderr


def test_a_failed_export_leaves_the_earlier_one_in_place(exported, tmp_path):
    folder = Path(shutil.copytree(exported, tmp_path / "model"))
    before = content(folder)
    strict = ["--quantization", "int8", "--max-score-difference", 1e-9]
    assert run("--to", "ctranslate2", "--model", folder, *strict).exit_code == 1
    assert content(folder) == before


def test_an_earlier_export_may_be_replaced_but_no_other_folder(bundle, tmp_path):
    out = tmp_path / "out"
    for _ in range(2):
        assert run("--to", "ctranslate2", "--model", bundle, "--out", out).exit_code == 0
    (out / "export.json").unlink()
    before = content(out)
    result = run("--to", "ctranslate2", "--model", bundle, "--out", out)
    assert (result.exit_code, f"{out}: exists" in result.stderr) == (1, True)
    assert content(out) == before


@pytest.mark.parametrize("name", ["notes.md", ".git"])
def test_an_earlier_export_with_files_of_the_user_is_not_replaced(bundle, tmp_path, name):
    out = tmp_path / "out"
    assert run("--to", "ctranslate2", "--model", bundle, "--out", out).exit_code == 0
    (out / name).mkdir()
    result = run("--to", "ctranslate2", "--quantization", "float16", "--model", bundle, "--out", out)
    assert (result.exit_code, f"{out}: contains {name}, " in result.stderr, "--out" in result.stderr) == (1, True, True)
    assert (out / name).exists()
    assert json.loads((out / "export.json").read_text())["quantization"] == "float32"


def test_without_the_dev_set_the_error_names_the_remedy(bundle, random_bundle, tmp_path):
    missing = random_bundle.parent / "dev.tsv"
    moved = missing.rename(tmp_path / "moved.tsv")
    try:
        result = run("--to", "ctranslate2", "--model", bundle)
    finally:
        moved.rename(missing)
    assert result.exit_code == 1
    assert all(fact in result.stderr for fact in (str(missing), str(bundle / "config.yaml"), "data.dev", "--src"))


def test_text_without_references_gives_a_certificate_without_bleu(bundle, tmp_path):
    (tmp_path / "text").write_text("I love oranges.\nIt rains.\n")
    result = run("--to", "ctranslate2", "--model", bundle, "--src", tmp_path / "text", "--json")
    assert [search["bleu_change"] for search in json.loads(result.stdout)["searches"]] == [None, None]


def test_a_flipped_byte_is_refused_with_the_files_name(exported, tmp_path):
    damaged = Path(shutil.copytree(exported, tmp_path / "model"))
    weights = damaged / "ctranslate2" / "model.bin"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(data)
    with pytest.raises(BundleError, match=r"ctranslate2/model\.bin: "):
        Translator.load(damaged, engine="ctranslate2")


def test_options_that_ctranslate2_lacks_are_refused_or_left_to_the_native_engine(exported):
    with pytest.raises(MtkitError, match=r"decode\.coverage_penalty=0\.3"):
        Translator.load(exported, engine="ctranslate2", coverage_penalty=0.3)
    assert Translator.load(exported, engine="auto", coverage_penalty=0.3).engine.name == "native"
    assert Translator.load(exported, engine="ctranslate2").engine.name == "ctranslate2"


def test_a_sentence_is_translated_without_torch(exported):
    code = (
        "import sys; from mtkit.cli import main; sys.argv[1:] = ['translate', '--quiet', 'I love oranges.']\n"
        "try: main()\n"
        "finally: print(sorted({'torch', 'ctranslate2', 'sacrebleu'} & set(sys.modules)))"
    )
    environment = {"MTKIT_MODEL": str(exported), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[1:] == ["['ctranslate2']"]
    assert all(line.startswith("warning: 1 of 1 translation hit") for line in done.stderr.splitlines())


def candidate(*ids: int) -> Candidate:
    return Candidate("", list(ids), 0.0, 0.0, True)


def test_token_agreement_counts_common_tokens_in_order():
    first = [candidate(1, 2, 3, 4), candidate(5, 6)]
    assert token_agreement(first, first) == 1.0
    second = [candidate(1, 3, 4, 9), candidate(7)]  # 1 3 4 of the first line, nothing of the second
    assert token_agreement(first, second) == pytest.approx(2 * 3 / (6 + 5))
    assert token_agreement([candidate()], [candidate()]) == 1.0


def test_each_type_of_a_machine_has_its_own_tolerance():
    agreements = {"bfloat16": 0.96, "float32": 0.9995, "int16": 0.98, "int8_float32": 0.96}
    parity = Parity(500, "float32", "float32", 2, 0.0, 0.0, [], agreement_by_type=agreements)
    strict, mild = Tolerance(0.999, 0.01, 0.5), Tolerance(0.9, 0.01, 0.5)
    assert [message.split(":")[0] for message in parity.failing_types(strict)] == [
        "computed in bfloat16",
        "computed in int16",
    ]
    assert parity.failing_types(mild) == []


@pytest.mark.parametrize(
    ("tolerance", "facts"),
    [
        (Tolerance(0.9, 0.01, 0.5), []),
        (Tolerance(0.96, 0.01, 0.5), [("greedy", "95.00%", "96.00%", "--min-agreement")]),
        (Tolerance(0.9, 0.01, 0.2), [("greedy", "BLEU", "0.30", "0.2", "--max-bleu-drop")]),
        (Tolerance(0.9, 0.001, 0.5), [("0.005 nats", "0.001", "--max-score-difference")]),
    ],
)
def test_a_difference_beyond_the_tolerance_is_reported_with_both_values(tolerance, facts):
    search = SearchParity("greedy", 0.95, 400, 40.0, -0.3, 10.0, 30.0)
    parity = Parity(500, "int8", "int8_float32", 2, 0.005, 0.1, [search])
    for message, parts in zip(parity.failures(tolerance), facts, strict=True):
        assert all(part in message for part in parts)
