"""The files in configs/, which users copy: they load, and contain and explain every key."""

from pathlib import Path

import pytest

from mtkit.config.data import CorpusFiles, DevCorpus, TrainCorpus
from mtkit.config.reading.loading import load_config
from mtkit.config.reading.yaml_text import parse_yaml
from mtkit.config.schema import Config
from mtkit.config.section import Section

FOLDER = Path(__file__).parents[2] / "configs"
CLASSIFIER = FOLDER / "sample-questions.yaml"  # sets what matters for a classifier, and no more
SUITE = FOLDER / "sample-suite.yaml"
FILES = sorted(set(FOLDER.glob("*.yaml")) - {CLASSIFIER, SUITE})


def keys(section: type[Section], prefix: str = "") -> set[str]:
    """Every key of the schema; a list of corpora counts as one."""
    names = set()
    for name, field in section.model_fields.items():
        names.add(prefix + name)
        text = str(field.annotation)
        kinds: list[type[Section]] = [TrainCorpus, DevCorpus, *Section.__subclasses__()]
        inner = next((kind for kind in kinds if kind.__name__ in text), None)
        if inner is not None:
            names |= keys(inner, f"{prefix}{name}.")
    return names


def values_without_comment(text: str) -> list[str]:
    values = [line for line in text.splitlines() if not line.startswith("#") and line.partition(":")[2].strip()]
    return [line for line in values if "  # " not in line]


def test_there_are_four_of_them():
    assert [file.stem for file in FILES] == ["multi30k-en-de", "sample-en-fr", "tatoeba-en-fr", "transformer-base"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_key_of_the_schema_is_there_with_a_comment(file):
    text = file.read_text(encoding="utf-8")
    parsed = parse_yaml(text)
    written = {".".join(str(part) for part in path if not isinstance(part, int)) for path in parsed.lines} - {""}
    alternatives = {
        f"data.{part}.{key}" for part in ("dev", "test") for key in ("tsv", "file", "langs", "tag")
    }  # shown once, under train
    alternatives.add("data.dev.name")  # of a list
    assert written == keys(Config) - alternatives
    assert values_without_comment(text) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_loads_and_keeps_data_and_runs_beside_configs(file):
    config = load_config(file)
    root = file.parents[1]
    assert config.run_dir == root / "runs" / file.stem
    assert config.data.test is not None
    for corpus in (*config.data.train, *config.data.dev, config.data.test):
        assert isinstance(corpus, CorpusFiles)
        assert corpus.src is not None
        assert corpus.src.is_relative_to(root / "data")


def test_that_of_the_classifier_loads_and_explains_what_it_sets():
    config = load_config(CLASSIFIER)
    root = CLASSIFIER.parents[1]
    assert config.task == "classify"
    assert config.run_dir == root / "runs" / CLASSIFIER.stem
    assert config.data.test is not None
    assert [corpus.tsv for corpus in (*config.data.train, *config.data.dev, config.data.test)] == [
        root / "data" / "questions" / f"{part}.tsv" for part in ("train", "dev", "test")
    ]
    assert values_without_comment(CLASSIFIER.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("pair", ["en-de", "en-fr"])
def test_the_configs_of_the_results_load(pair):
    config = load_config(FOLDER.parent / "scripts" / "results" / f"multi30k-{pair}.yaml")
    assert (config.data.src_lang, config.data.tgt_lang) == tuple(pair.split("-"))


def test_transformer_base_is_the_papers():
    """Vaswani et al. 2017, table 3 (row "base"), sections 5.1 to 6.1."""
    config = load_config(next(file for file in FILES if file.stem == "transformer-base"))
    model, train = config.model, config.train
    assert (model.d_model, model.d_ff, model.n_heads, model.n_encoder_layers, model.n_decoder_layers) == (
        512,
        2048,
        8,
        6,
        6,
    )
    assert (model.norm_position, model.positions, model.activation, model.tie) == ("post", "sinusoidal", "relu", "all")
    assert train.lr == pytest.approx(512**-0.5 * train.warmup_steps**-0.5, rel=0.01)
    assert (train.warmup_steps, train.max_steps, train.label_smoothing) == (4000, 100_000, 0.1)
    assert (train.adam_betas, train.adam_eps) == ((0.9, 0.98), 1e-9)
    assert (config.decode.beam_size, config.decode.length_penalty) == (4, 0.6)
