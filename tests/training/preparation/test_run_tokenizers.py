import json
import re
from pathlib import Path

import pytest

from mtkit.config.schema import Config
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.errors import ConfigError, DataError
from mtkit.files import write_bytes
from mtkit.tokens.tokenizer import load_tokenizers, train_tokenizer
from mtkit.training.preparation import run_tokenizers
from mtkit.training.preparation.run_tokenizers import lowered_vocabularies, train_tokenizers


@pytest.fixture
def make_config(write_corpus, make_lines, tmp_path):
    """make_config(n_lines=200, shared=False, **src settings): a config whose corpus is written already."""

    def make(n_lines: int = 200, shared: bool = False, **src) -> Config:
        corpus = write_corpus(make_lines("src", n_lines), make_lines("tgt", n_lines))
        settings = {"type": "bpe", "vocab_size": 350}
        return Config.model_validate(
            {
                "data": {"train": [corpus.model_dump()], "dev": corpus.model_dump()},
                "tokenizer": {"src": settings | src, "tgt": settings, "shared": shared},
                "train": {"max_steps": 1, "warmup_steps": 0},
            }
        )

    return make


@pytest.fixture
def run_dir(tmp_path):
    return tmp_path / "runs" / "x"


def spm_bytes(run_dir):
    return {path.name: path.read_bytes() for path in run_dir.glob("*.spm")}


def assert_nothing_learned(log_text):
    assert "src.spm and tgt.spm" in log_text
    assert "learning" not in log_text


def test_each_side_learns_from_its_own_text(make_config, run_dir):
    src, tgt = train_tokenizers(make_config(), run_dir)
    assert "▁house" in src.pieces(range(src.vocab_size))
    assert "▁house" not in tgt.pieces(range(tgt.vocab_size))
    assert [tokenizer.path for tokenizer in (src, tgt)] == [run_dir / "src.spm", run_dir / "tgt.spm"]
    assert load_tokenizers(run_dir)[1].encode("maison") == tgt.encode("maison")


def test_a_shared_model_learns_from_both_sides_and_stands_on_both(make_config, run_dir, log_text):
    src, tgt = train_tokenizers(make_config(shared=True, vocab_size=420), run_dir)
    assert "src.spm: learning 420 bpe pieces from 400 of 400 " in log_text()
    assert len(set(spm_bytes(run_dir).values())) == 1
    assert src.vocab_size == tgt.vocab_size == 420
    assert {"▁cat", "▁chat"} <= set(src.pieces(range(src.vocab_size)))


def test_a_shared_model_has_nothing_from_the_target_sides_settings(make_config, run_dir, log_text):
    train_tokenizers(make_config(shared=True, vocab_size=420), run_dir)
    assert "tokenizer.tgt has no effect" in log_text()
    made = spm_bytes(run_dir)
    cfg = make_config(shared=True, vocab_size=420)
    other = cfg.tokenizer.model_copy(update={"tgt": cfg.tokenizer.tgt.model_copy(update={"vocab_size": 333})})
    train_tokenizers(cfg.model_copy(update={"tokenizer": other}), run_dir)
    assert_nothing_learned(log_text())
    assert spm_bytes(run_dir) == made


def test_a_long_text_is_sampled(make_config, make_lines, run_dir, tmp_path, log_text):
    train_tokenizers(make_config(max_sentences=20), run_dir)
    assert "src.spm: learning 350 bpe pieces from 20 of 200 " in log_text()
    every_tenth = make_lines("src", 200)[9::10]
    cfg = TokenizerConfig(type="bpe", vocab_size=350, normalization="nfc_forms")
    train_tokenizer(every_tenth, cfg, tmp_path / "sample.spm")
    assert (tmp_path / "sample.spm").read_bytes() == (run_dir / "src.spm").read_bytes()


@pytest.mark.parametrize(
    ("written", "sides"), [({}, ["src", "tgt"]), ({"src": {"vocab_size": 9000}}, ["tgt"]), ({"shared": True}, ["src"])]
)
def test_a_run_tells_which_default_sizes_its_text_is_too_short_for(make_config, run_dir, caplog, written, sides):
    cfg = Config.model_validate(make_config().model_dump(exclude_unset=True) | {"tokenizer": written})
    tokenizers = train_tokenizers(cfg, run_dir)
    reasons = lowered_vocabularies(cfg, run_dir, tokenizers)
    assert list(reasons) == [f"tokenizer.{side}.vocab_size" for side in sides]
    for side in sides:
        assert f"{tokenizers[side == 'tgt'].vocab_size} of 8000" in reasons[f"tokenizer.{side}.vocab_size"]
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == ("src" in written)  # a lowered default is nothing to worry about


def test_models_that_are_there_are_kept(make_config, run_dir, log_text):
    cfg = make_config()
    train_tokenizers(cfg, run_dir)
    times = [path.stat().st_mtime_ns for path in run_dir.iterdir()]
    log_text()
    train_tokenizers(cfg, run_dir)
    assert_nothing_learned(log_text())
    assert [path.stat().st_mtime_ns for path in run_dir.iterdir()] == times


@pytest.mark.parametrize("change", [{"n_lines": 199}, {"vocab_size": 345}, {"shared": True}])
def test_both_are_trained_again_with_other_settings_or_text(make_config, run_dir, log_text, change):
    train_tokenizers(make_config(), run_dir)
    before = spm_bytes(run_dir)
    cfg = make_config(**change)
    train_tokenizers(cfg, run_dir)
    said = log_text()
    assert "have changed" in said
    assert "src.spm: learning" in said
    assert spm_bytes(run_dir) != before
    train_tokenizers(cfg, run_dir)
    assert_nothing_learned(log_text())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"n_lines": 199},
            r"text of \S+train\.src has changed",
        ),
        ({"vocab_size": 345}, r"tokenizer\.src\.vocab_size was 350 and is 345; "),
        ({"gone": "src.spm"}, r"src\.spm or tgt\.spm, is missing; start"),
        ({"shared": True}, r"tokenizer\.shared was False and is True; start"),
        ({"gone": "tokenizers.json", "shared": True}, r"tokenizer\.shared=true, but src\.spm and tgt\.spm"),
    ],
)
def test_a_run_with_checkpoints_keeps_its_tokenizers(make_config, run_dir, change, said):
    train_tokenizers(make_config(), run_dir)
    (run_dir / "checkpoints" / "step-100").mkdir(parents=True)
    before = spm_bytes(run_dir)
    train_tokenizers(make_config(), run_dir)  # nothing has changed: fine
    change = dict(change)
    if gone := change.pop("gone", None):
        (run_dir / gone).unlink()
        before.pop(gone, None)
    with pytest.raises(ConfigError, match=said):
        train_tokenizers(make_config(**change), run_dir)
    assert spm_bytes(run_dir) == before


def test_a_users_own_models_are_used_as_they_are(make_config, run_dir, tokenizers, log_text):
    run_dir.mkdir(parents=True)
    for tokenizer in tokenizers:
        (run_dir / tokenizer.path.name).write_bytes(tokenizer.path.read_bytes())
    before = spm_bytes(run_dir)
    cfg = Config.model_validate(make_config().model_dump(exclude_unset=True) | {"tokenizer": {}})
    src, tgt = train_tokenizers(cfg, run_dir)
    assert src.vocab_size == tokenizers[0].vocab_size
    assert lowered_vocabularies(cfg, run_dir, (src, tgt)) == {}
    assert_nothing_learned(log_text())
    assert spm_bytes(run_dir) == before


def test_a_users_own_shared_tokenizer_must_be_one_model(make_config, run_dir, tokenizers):
    run_dir.mkdir(parents=True)
    for tokenizer in tokenizers:
        (run_dir / tokenizer.path.name).write_bytes(tokenizer.path.read_bytes())
    with pytest.raises(ConfigError, match=r"tokenizer\.shared=true, .*src\.spm and tgt\.spm"):
        train_tokenizers(make_config(shared=True), run_dir)
    (run_dir / "tgt.spm").write_bytes((run_dir / "src.spm").read_bytes())
    assert train_tokenizers(make_config(shared=True), run_dir)[1].vocab_size == tokenizers[0].vocab_size


@pytest.mark.parametrize("missing", ["src", "tgt"])
def test_a_users_own_model_of_one_side_is_not_overwritten(make_config, run_dir, tokenizers, missing):
    [own] = [tokenizer.path for tokenizer in tokenizers if tokenizer.path.stem != missing]
    run_dir.mkdir(parents=True)
    (run_dir / own.name).write_bytes(own.read_bytes())
    before = spm_bytes(run_dir)
    with pytest.raises(ConfigError, match=rf"{own.name}: .*no {missing}\.spm.* remove"):
        train_tokenizers(make_config(), run_dir)
    assert spm_bytes(run_dir) == before


def test_a_replaced_model_is_noticed(make_config, run_dir, tokenizers):
    train_tokenizers(make_config(), run_dir)
    (run_dir / "tgt.spm").write_bytes(tokenizers[1].path.read_bytes())
    with pytest.raises(DataError, match=r"tgt\.spm: .*; remove .*tokenizers\.json"):
        train_tokenizers(make_config(), run_dir)
    (run_dir / "tokenizers.json").unlink()  # the first of the two remedies
    train_tokenizers(make_config(), run_dir)


def test_a_missing_model_is_trained_again(make_config, run_dir):
    train_tokenizers(make_config(), run_dir)
    before = spm_bytes(run_dir)
    (run_dir / "src.spm").unlink()
    train_tokenizers(make_config(), run_dir)
    assert spm_bytes(run_dir) == before


@pytest.mark.parametrize("content", ["", "{}", '{"settings": 1}', "[]", '{"settings": {}, "models": 3}'])
def test_an_unreadable_record_is_named(make_config, run_dir, content):
    train_tokenizers(make_config(), run_dir)
    (run_dir / "tokenizers.json").write_text(content)
    with pytest.raises(DataError, match=r"tokenizers\.json: .*; remove it"):
        train_tokenizers(make_config(), run_dir)


@pytest.mark.parametrize("n_written", [0, 1])
def test_a_killed_training_leaves_nothing_that_looks_complete(make_config, run_dir, monkeypatch, n_written):
    train_tokenizers(make_config(), run_dir)
    cfg = make_config(vocab_size=345)
    written: list[Path] = []

    def write_then_die(path, model):
        if len(written) == n_written:
            raise KeyboardInterrupt
        write_bytes(path, model)
        written.append(path)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(run_tokenizers, "write_bytes", write_then_die)
        train_tokenizers(cfg, run_dir)
    assert len(spm_bytes(run_dir)) == n_written
    src, tgt = train_tokenizers(cfg, run_dir)
    assert (src.vocab_size, tgt.vocab_size) == (345, 350)
    assert json.loads((run_dir / "tokenizers.json").read_text())["settings"]["tokenizer"]["src"]["vocab_size"] == 345


def test_bad_text_met_while_learning_is_named(make_config, run_dir):
    cfg = make_config()
    path = cfg.data.train[0].tgt
    path.write_bytes(b"le chat\n" * 150 + b"le \xff\n" + b"le chat\n" * 49)
    with pytest.raises(DataError, match=rf"^{re.escape(str(path))}: line 151, byte 4: 0xff"):
        train_tokenizers(cfg, run_dir)
    assert spm_bytes(run_dir) == {}
