"""Data diversification: the pairs that models of both directions add. The models here are dictionaries."""

from pathlib import Path

import pytest
import torch
from fixtures.bundles import SENTENCES
from fixtures.bundles import make_config as config_of_bundle
from typer.testing import CliRunner

from mtkit.bundle import save_bundle
from mtkit.cli import app
from mtkit.config.reading.loading import load_config
from mtkit.config.reading.yaml_text import parse_yaml
from mtkit.model.transformer import Transformer
from mtkit.search.hypothesis import Hypothesis
from mtkit.tokens.tokenizer import Tokenizer, train_tokenizer

FRENCH = {"red": "rouge", "cats": "chats", "sleep": "dorment", "dogs": "chiens", "run": "courent", "now": "ici"}
ENGLISH = {french: english for english, french in FRENCH.items()}
DICTIONARIES = {
    "en-fr": FRENCH,
    "en-fr-2": {**FRENCH, "cats": "minous"},
    "fr-en": {**ENGLISH, "ici": "here"},
    "en-de": {**FRENCH, "cats": "Katzen"},
}
CONFIG = """\
seed: 3
data:
  train:
    - {tsv: text.tsv}
    - {tsv: news.tsv, tag: <news>, weight: 2, scores: news.scores}
  dev: {src: dev.en, tgt: dev.fr}
model: tiny
train: {max_steps: 7}
"""
TEXT = [
    ("red cats sleep", "les chats rouge dorment"),
    ("dogs run now", "chiens courent ici"),
    ("dogs  run now", "les chiens courent"),
    ("", "vide"),
    ("dogs sleep", "chiens dorment"),
]
NEWS = [("cats run", "les chats courent")]


class DictionaryEngine:
    """Translates word by word."""

    name, arithmetic, max_positions = "dictionary", "words", None

    def __init__(self, members, log):
        self.files, self.log = members[0], log
        self.dictionary = DICTIONARIES[self.files.folder.name]

    def decode(self, segments, cfg, n_best):
        for number, segment in enumerate(segments):
            text = self.files.src_tokenizer.decode(segment.ids)
            if text == self.log.stop_at:
                raise KeyboardInterrupt
            self.log.append((self.files.folder.name, text, cfg.tag))
            words = text.removeprefix(cfg.tag or "").split()
            made = "la la la la la la la la" if text == self.log.loops_at else None
            made = made or " ".join(self.dictionary.get(word, word) for word in words)
            yield number, [Hypothesis(self.files.tgt_tokenizer.encode(made), -1.0, -1.0, finished=True)]


class Translated(list):
    stop_at = loops_at = None


@pytest.fixture
def translated(monkeypatch) -> Translated:
    """What the models were asked for: model, text, tag."""
    log = Translated()
    monkeypatch.setattr(
        "mtkit.translation.translator.choose_engine", lambda members, *_, **__: DictionaryEngine(members, log)
    )
    return log


@pytest.fixture(scope="module")
def models(spm, tmp_path_factory) -> Path:
    """Models that tests only read."""
    folder = tmp_path_factory.mktemp("models")
    for number, name in enumerate(DICTIONARIES):
        save_model(folder / name, spm, number)
    return folder


@pytest.fixture
def folder(in_an_empty_folder, models) -> Path:
    """The current folder, with a config, its text, and models."""
    for name, pairs in (("text", TEXT), ("news", NEWS)):
        Path(f"{name}.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs))
    Path("news.scores").write_text("0.9\n")
    Path("dev.en").write_text("Dogs sleep!\n")
    Path("dev.fr").write_text("Les chiens dorment !\n")
    Path("en-fr.yaml").write_text(CONFIG)
    for name in DICTIONARIES:
        Path(name).symlink_to(models / name)
    return Path.cwd()


def save_model(folder: Path, spm: Path, seed: int, tag: str | None = None) -> None:
    cfg = config_of_bundle()
    src_lang, tgt_lang = folder.name.split("-")[:2]
    train = [cfg.data.train[0].model_copy(update={"tag": tag})]
    data = cfg.data.model_copy(update={"src_lang": src_lang, "tgt_lang": tgt_lang, "train": train})
    vocab_size = Tokenizer.load(spm).vocab_size
    torch.manual_seed(seed)
    model = Transformer(cfg.model, vocab_size, vocab_size)
    save_bundle(folder, model.state_dict(), cfg.model_copy(update={"data": data}), spm, spm, training={"dev": {}})


def run(*args: str):
    return CliRunner().invoke(app, ["diversify", "--config", "en-fr.yaml", "-o", "more", *args])


BOTH = ("--forward", "en-fr", "--backward", "fr-en")


def pairs_in(name: str) -> list[list[str]]:
    return [line.split("\t") for line in Path("more", name).read_text().splitlines()]


def test_models_of_both_directions_add_pairs_that_are_new(folder, translated):
    result = run(*BOTH, "--forward", "en-fr-2")
    assert result.exit_code == 0, result.stderr
    assert pairs_in("1-forward.tsv") == [
        ["red cats sleep", "rouge chats dorment"],
        ["red cats sleep", "rouge minous dorment"],
    ]
    assert pairs_in("1-backward.tsv") == [
        ["les cats red sleep", "les chats rouge dorment"],
        ["dogs run here", "chiens courent ici"],
        ["les dogs run", "les chiens courent"],
        ["vide", "vide"],
    ]
    assert pairs_in("2-forward.tsv") == [["cats run", "chats courent"], ["cats run", "minous courent"]]
    assert pairs_in("2-backward.tsv") == [["les cats run", "les chats courent"]]
    entries = parse_yaml(result.stdout).value
    news = {"tag": "<news>", "weight": 2.0}
    assert entries == [
        {"tsv": str(folder / "text.tsv")},
        {"tsv": str(folder / "news.tsv"), **news, "scores": str(folder / "news.scores")},
        {"tsv": str(folder / "more" / "1-forward.tsv")},
        {"tsv": str(folder / "more" / "1-backward.tsv")},
        {"tsv": str(folder / "more" / "2-forward.tsv"), **news},
        {"tsv": str(folder / "more" / "2-backward.tsv"), **news},
    ]


def test_it_writes_a_config_that_differs_only_in_the_text_and_the_run(folder, translated):
    assert run(*BOTH).exit_code == 0
    before, after = load_config("en-fr.yaml"), load_config("more/more.yaml")
    assert (len(after.data.train), after.run_dir) == (6, folder / "runs" / "more")
    assert {key: getattr(after, key).model_fields_set for key in ("model", "train", "decode")} == {
        key: getattr(before, key).model_fields_set for key in ("model", "train", "decode")
    }, "what the config leaves out stays mtkit's choice"
    data = after.data.model_copy(update={"train": before.data.train})
    assert after.model_copy(update={"run_dir": before.run_dir, "data": data}) == before


def test_a_line_comes_once_and_a_source_of_dev_not_at_all(folder, translated):
    result = run("--forward", "en-fr")
    assert [text for name, text, _ in translated] == ["red cats sleep", "dogs run now", "dogs sleep", "cats run"]
    assert "1 with a source in dev or test" in result.stderr
    assert "1 already there" in result.stderr  # "dogs run now" gives the pair that the corpus has


def test_a_further_model_alone_translates(folder, translated):
    assert run(*BOTH).exit_code == 0
    first = {path.name: path.read_bytes() for path in Path("more").glob("*.tsv")}
    translated.clear()
    again = run(*BOTH)
    assert (again.exit_code, list(translated)) == (0, [])
    assert {path.name: path.read_bytes() for path in Path("more").glob("*.tsv")} == first
    assert run(*BOTH, "--forward", "en-fr-2").exit_code == 0
    assert {name for name, *_ in translated} == {"en-fr-2"}
    translated.clear()
    fewer = run("--forward", "en-fr-2")
    assert (fewer.exit_code, list(translated)) == (0, [])
    assert "ignoring 4 files" in fewer.stderr
    assert len(parse_yaml(fewer.stdout).value) == 4


def test_other_text_is_translated_again(folder, translated):
    assert run(*BOTH).exit_code == 0
    translated.clear()
    Path("news.tsv").write_text("dogs run\tchiens courent\n")
    assert run(*BOTH).exit_code == 0
    assert [text for _, text, _ in translated] == ["dogs run", "chiens courent"]


def test_what_a_killed_job_left_after_its_end_is_removed(folder, translated, monkeypatch):
    def killed(_folder):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mtkit.jobs.job.remove_folder", killed)
        assert run(*BOTH).exit_code == 130
    assert len([*Path("more", "translations").glob("*.mtkit-job")]) == 1
    assert run(*BOTH).exit_code == 0
    assert [*Path("more", "translations").glob("*.mtkit-job")] == []


def test_an_interrupted_command_resumes(folder, translated):
    whole = run(*BOTH)
    expected = {path.name: path.read_bytes() for path in Path("more").glob("*.tsv")}
    Path("more").rename("whole")
    translated.clear()
    translated.stop_at = "les chats courent"  # of the last model
    assert run(*BOTH).exit_code == 130
    assert not list(Path("more").glob("*.tsv"))
    translated.clear()
    translated.stop_at = None
    resumed = run(*BOTH)
    assert [text for _, text, _ in translated] == ["les chats courent"]
    assert {path.name: path.read_bytes() for path in Path("more").glob("*.tsv")} == expected
    assert resumed.stdout == whole.stdout


def test_suspect_translations_are_left_out(folder, translated):
    translated.loops_at = "red cats sleep"
    result = run("--forward", "en-fr", "--forward", "en-fr-2")
    assert result.exit_code == 0
    assert "la la" not in "".join(path.read_text() for path in Path("more").glob("*.tsv"))
    assert "1 loop" in result.stderr


def test_a_model_reads_the_tags_that_it_knows(folder, translated, spm, tmp_path):
    tagged = train_tokenizer(SENTENCES, config_of_bundle().tokenizer.src, tmp_path / "tagged.spm", ["<news>"]).path
    Path("en-fr").unlink()
    save_model(Path("en-fr"), tagged, seed=9, tag="<news>")
    assert run(*BOTH).exit_code == 0
    assert {(name, tag) for name, _, tag in translated} == {("en-fr", None), ("en-fr", "<news>"), ("fr-en", None)}
    assert [text for _, text, tag in translated if tag] == ["<news> cats run"]


@pytest.mark.parametrize(
    ("named", "facts"),
    [
        (("--forward", "fr-en"), ("--forward", "fr-en", "from fr into en", "from en into fr", "as --backward")),
        (("--backward", "en-fr"), ("--backward", "en-fr", "from en into fr", "from fr into en", "as --forward")),
        (("--forward", "en-de"), ("from en into de", "data.tgt_lang=fr", "a model from en into fr")),
        (("--forward", "en-fr", "--forward", "./en-fr"), ("same model", "en-fr", "other seeds")),
        (("--forward", "nowhere"), ("nowhere", "no such folder")),
        ((), ("--forward RUN", "--backward RUN")),
    ],
)
def test_models_that_do_not_suit_are_refused_before_any_work(folder, translated, named, facts):
    result = run(*named)
    assert result.exit_code in (1, 2)
    assert all(fact in result.stderr for fact in facts), result.stderr
    assert not translated and not Path("more").exists()


def test_folders_and_configs_that_do_not_suit_are_refused(folder, translated):
    Path("more").mkdir()
    Path("more/notes.txt").write_text("mine\n")
    result = run(*BOTH)
    assert (result.exit_code, "--output" in result.stderr, "choose a new folder" in result.stderr) == (2, True, True)
    taught = run(*BOTH, "-o", "other", "--set", "distill.teachers=[en-fr]", "--set", "data.train=[{tsv: text.tsv}]")
    assert (taught.exit_code, "distill.teachers" in taught.stderr) == (1, True)
    part = "data.train=[{tsv: text.tsv}, {tsv: news.tsv, scores: news.scores, min_score: 0.5}]"
    filtered = run(*BOTH, "-o", "other", "--set", part)
    assert (filtered.exit_code, "data.train.1.min_score" in filtered.stderr) == (1, True)
    assert "news.tsv" in filtered.stderr
    missing = run(*BOTH, "-o", "other", "--set", "data.test={tsv: nowhere.tsv}")
    assert (missing.exit_code, "data.test" in missing.stderr) == (1, True)
    assert not translated and not Path("other").exists()


def test_the_text_of_its_own_config_is_not_overwritten(folder, translated):
    assert run(*BOTH).exit_code == 0
    before = {path: path.read_bytes() for path in Path("more").rglob("*") if path.is_file()}
    again = CliRunner().invoke(app, ["diversify", "--config", "more/more.yaml", "-o", "more", *BOTH])
    assert (again.exit_code, "--output" in again.stderr, "1-forward.tsv" in again.stderr) == (2, True, True)
    assert {path: path.read_bytes() for path in Path("more").rglob("*") if path.is_file()} == before


def test_models_that_write_nothing_new_are_an_error(folder, translated):
    Path("text.tsv").write_text("dogs run\tchiens courent\n")
    result = run("--forward", "en-fr", "--set", "data.train=[{tsv: text.tsv}]")
    assert result.exit_code == 1 and "no pair that is not in data.train" in result.stderr
