"""Compare the CTranslate2 engine with the native one, exhaustive search and the model's probabilities."""

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import tiny_transformer

from mtkit.config.decoding import DecodeConfig
from mtkit.engines.ctranslate2 import CTranslate2Engine, unsupported
from mtkit.engines.native import NativeEngine
from mtkit.errors import BundleError, MtkitError
from mtkit.interop.parity import remark_on
from mtkit.interop.support import Quantization, export_problems
from mtkit.model.transformer import Transformer
from mtkit.search.hypothesis import Hypothesis, Segment
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID

pytest.importorskip("ctranslate2", reason="the extra `fast` is not installed")

VOCAB_SIZE = 40
# Every activation with every kind of positions; the other choices take turns.
VARIANTS = [
    {
        "activation": activation,
        "positions": positions,
        "norm": ["layernorm", "rmsnorm"][(row + column) % 2],
        "norm_position": ["pre", "post"][(row + column // 2) % 2],
        "tie": ["none", "decoder", "all"][(row + column) % 3],
    }
    for row, activation in enumerate(["relu", "gelu", "silu", "swiglu"])
    for column, positions in enumerate(["sinusoidal", "marian", "learned", "rotary", "relative", "alibi"])
] + [
    {"positions": "alibi", "n_heads": 3, "d_model": 24},
    {"positions": "relative", "max_relative_distance": 40},
    {"src_end": False},
]


def random_model(seed: int = 0, vocab_size: int = VOCAB_SIZE, **choices: Any) -> Transformer:
    """A random model; also its biases and gains are random."""
    sizes: dict[str, Any] = {"d_ff": 24, "n_encoder_layers": 2, "max_positions": 64, "max_relative_distance": 3}
    return tiny_transformer(vocab_size, seed=seed, noise=0.2, **{**sizes, **choices})


def pieces(vocab_size: int = VOCAB_SIZE) -> list[str]:
    """Strings for ids: many are repeated, and some look like the marks of repeated ones."""
    names = ["<pad>", "<unk>", "<start>", "<end>", "p0#16", "p0"]
    return [*names, *(f"p{number % 5}" for number in range(vocab_size - len(names)))][:vocab_size]


def export(model: Transformer, folder: Path, quantization: Quantization = "float32") -> CTranslate2Engine:
    from mtkit.interop.ctranslate2.export import write_model

    folder.mkdir()
    names = pieces(model.src_embedding.num_embeddings)
    write_model(model, names, names, folder, quantization)
    return CTranslate2Engine(folder, "cpu", threads=1)


def random_segments(n: int = 24, seed: int = 0, **rest: Any) -> list[Segment]:
    rng = random.Random(seed)
    lengths = [rng.randint(1, 12) for _ in range(n)]
    return [
        Segment([rng.randrange(4, VOCAB_SIZE) for _ in range(m)], max_len=rng.randint(4, 24), **rest) for m in lengths
    ]


def results(engine, segments, n_best: int = 1, **options: object) -> list[list[Hypothesis]]:
    hypotheses = dict(engine.decode(segments, DecodeConfig.model_validate(options), n_best))
    assert sorted(hypotheses) == list(range(len(segments)))
    return [hypotheses[index] for index in range(len(segments))]


def model_log_prob(model: Transformer, segment: Segment, hypothesis: Hypothesis) -> float:
    """The hypothesis's log-probability from one pass of the model over all of it."""
    ids = [*hypothesis.ids, *([EOS_ID] if hypothesis.finished else [])]
    with torch.no_grad():
        logits = model(torch.tensor([[*segment.ids, EOS_ID]]), torch.tensor([[BOS_ID, *ids[:-1]]]))
    return float(logits[0].log_softmax(-1)[range(len(ids)), ids].sum())


def assert_same(ours: list[list[Hypothesis]], theirs: list[list[Hypothesis]]) -> None:
    for [a], [b] in zip(ours, theirs, strict=True):
        assert (a.ids, a.finished) == (b.ids, b.finished)
        assert a.log_prob == pytest.approx(b.log_prob, abs=1e-4)
        assert a.score == pytest.approx(b.score, abs=1e-4)


@pytest.fixture(scope="module")
def model() -> Transformer:
    return random_model(n_decoder_layers=2)


@pytest.fixture(scope="module")
def engine(model, tmp_path_factory) -> CTranslate2Engine:
    return export(model, tmp_path_factory.mktemp("export") / "ctranslate2")


@pytest.mark.parametrize("choices", VARIANTS, ids=lambda choices: "-".join(map(str, choices.values())))
def test_greedy_search_equals_the_native_engine(choices, tmp_path):
    model = random_model(**choices)
    assert export_problems(model.cfg, "ctranslate2") == []
    engine = export(model, tmp_path / "export")
    segments = random_segments()
    assert_same(results(engine, segments, beam_size=1), results(NativeEngine([model]), segments, beam_size=1))


@pytest.mark.parametrize(
    ("options", "rest"),
    [
        ({}, {"min_len": 7}),
        ({"no_repeat_ngram": 1}, {}),
        ({"no_repeat_ngram": 2}, {}),
        ({}, {"prefix": (9, 30, 9)}),
        ({"no_repeat_ngram": 2}, {"prefix": (9, 30, 9), "min_len": 5}),
        ({"length_normalization": "average"}, {}),
    ],
    ids=str,
)
def test_greedy_search_under_rules_equals_the_native_engine(model, engine, options, rest):
    segments = random_segments(**rest)
    plain = results(NativeEngine([model]), random_segments(), beam_size=1)
    native = results(NativeEngine([model]), segments, beam_size=1, **options)
    assert options.get("length_normalization") or [[h.ids for h in hypotheses] for hypotheses in native] != [
        [h.ids for h in hypotheses] for hypotheses in plain
    ]
    assert_same(results(engine, segments, beam_size=1, **options), native)


@pytest.mark.parametrize("normalization", ["gnmt", "average", "none"])
def test_a_beam_as_wide_as_the_space_finds_the_best_translations(normalization, tmp_path):
    model = random_model(seed=1, vocab_size=7)
    engine = export(model, tmp_path / "export")
    segment = Segment([4, 6, 5], max_len=3)
    tokens = [token_id for token_id in range(7) if token_id not in (PAD_ID, BOS_ID, EOS_ID)]
    divisors = {"gnmt": lambda n: ((5 + n) / 6) ** 0.6, "average": lambda n: n, "none": lambda n: 1}
    best = sorted(
        (
            model_log_prob(model, segment, Hypothesis(list(ids), 0.0, 0.0, finished=True))
            / divisors[normalization](n + 1)
            for n in range(3)
            for ids in itertools.product(tokens, repeat=n)
        ),
        reverse=True,
    )
    [hypotheses] = results(engine, [segment], 10, beam_size=128, length_normalization=normalization)
    assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx(best[:10], abs=1e-4)


def test_a_beam_returns_the_models_log_probabilities_and_ranks_by_score(model, engine):
    segments = random_segments()
    for segment, hypotheses in zip(segments, results(engine, segments, 4, beam_size=4), strict=True):
        assert len(hypotheses) == 4
        assert [h.score for h in hypotheses if h.finished] == sorted(
            (h.score for h in hypotheses if h.finished), reverse=True
        )
        assert [h.finished for h in hypotheses] == sorted((h.finished for h in hypotheses), reverse=True)
        for h in hypotheses:
            assert h.log_prob == pytest.approx(model_log_prob(model, segment, h), abs=1e-4)
            assert h.score == pytest.approx(h.log_prob / ((5 + len(h.ids) + h.finished) / 6) ** 0.6, abs=1e-4)
            assert not {PAD_ID, BOS_ID, EOS_ID} & set(h.ids)
            assert len(h.ids) + h.finished <= segment.max_len


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "relative", "alibi"])
def test_a_beam_finds_the_native_hypotheses(positions, tmp_path):
    model = random_model(n_decoder_layers=2, positions=positions)
    with torch.no_grad():
        model.output.bias[[PAD_ID, BOS_ID]] -= 30.0  # never chosen, as in a trained model
        model.output.bias[EOS_ID] += 1.0
    engine, native = export(model, tmp_path / "export"), NativeEngine([model])
    plain, begun = random_segments(n=30), random_segments(n=30, prefix=(9, 30))
    for segments in (plain, begun):
        pairs = zip(results(engine, segments, beam_size=4), results(native, segments, beam_size=4), strict=True)
        equal = [(a.ids, a.finished) == (b.ids, b.finished) for [a], [b] in pairs]
        assert sum(equal) >= 29  # the searches differ in how they refill a beam after an end


@pytest.mark.parametrize(("positions", "longest"), [("rotary", 2500), ("relative", 2047), ("alibi", 2047)])
def test_distances_beyond_the_clip_and_the_longest_have_the_models_log_probabilities(positions, longest, tmp_path):
    model = random_model(positions=positions, n_heads=2, n_encoder_layers=1)
    rng = random.Random(0)
    sources = [[rng.randrange(4, VOCAB_SIZE) for _ in range(n)] for n in (3, 40, longest)]
    begun = [Segment(ids, 60, prefix=tuple(ids[:50])) for ids in sources]
    native = results(NativeEngine([model]), begun, beam_size=1, batch_sentences=1)  # without padding
    hypotheses = [best for [best] in native]
    scores = export(model, tmp_path / "export").score(list(zip(sources, hypotheses, strict=True)))
    for segment, hypothesis, score in zip(begun, hypotheses, scores, strict=True):
        assert score == pytest.approx(model_log_prob(model, segment, hypothesis), abs=1e-3)


def test_a_beam_continues_a_forced_prefix(model, engine):
    segments = [Segment(segment.ids, 16, prefix=(9, 30)) for segment in random_segments()]
    for segment, hypotheses in zip(segments, results(engine, segments, 4, beam_size=4), strict=True):
        assert all(h.ids[:2] == [9, 30] for h in hypotheses)
        assert [h.log_prob for h in hypotheses] == pytest.approx(
            [model_log_prob(model, segment, h) for h in hypotheses], abs=1e-4
        )


@pytest.mark.parametrize("beam_size", [1, 4])
def test_other_sentences_in_the_batch_change_nothing(engine, beam_size):
    segments = [*random_segments(), *random_segments(seed=1, prefix=(5,)), Segment([7], max_len=60)]
    together = results(engine, segments, beam_size=beam_size, batch_sentences=64)
    alone = [results(engine, [segment], beam_size=beam_size)[0] for segment in segments]
    assert_same(together, alone)


def test_int8_changes_log_probabilities_a_little(model, tmp_path):
    engine = export(model, tmp_path / "export", "int8")
    segments = random_segments(n=60)
    native = [hypotheses[0] for hypotheses in results(NativeEngine([model]), segments, beam_size=1)]
    scores = engine.score([(segment.ids, h) for segment, h in zip(segments, native, strict=True)])
    n_tokens = sum(len(h.ids) + h.finished for h in native)
    difference = sum(abs(score - h.log_prob) for score, h in zip(scores, native, strict=True)) / n_tokens
    most = 0.5 if remark_on("int8") else 0.05  # 0.14 and 0.01 measured; float32 is below 1e-6
    assert 1e-4 < difference < most


def test_a_type_that_this_machine_does_not_multiply_is_replaced_silently(model, tmp_path, capfd):
    engine = export(model, tmp_path / "export", "bfloat16")
    assert engine.quantization == "bfloat16"
    if engine.computes_in == "bfloat16":
        pytest.skip("this machine multiplies bfloat16")
    assert engine.computes_in == "float32"
    assert engine.arithmetic == "float32 on cpu"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"coverage_penalty": 0.2}, "decode.coverage_penalty=0.2"),
        ({"repetition_penalty": 1.5}, "decode.repetition_penalty=1.5"),
        ({"beam_groups": 2}, "decode.beam_groups=2"),
        ({"sampling": True}, "decode.sampling=True"),
        ({"mbr_samples": 8}, "decode.mbr_samples=8"),
        ({"terminology": "terms.tsv"}, "decode.terminology=terms.tsv"),
        ({"shortlist": True}, "decode.shortlist=True"),
        ({"min_len": 3}, "decode.min_len=3 with decode.beam_size=4"),
        ({"min_len_factor": 0.5}, "decode.min_len_factor=0.5 with decode.beam_size=4"),
        ({"no_repeat_ngram": 3}, "decode.no_repeat_ngram=3 with decode.beam_size=4"),
    ],
)
def test_an_unsupported_option_is_named(engine, options, named):
    assert unsupported(DecodeConfig.model_validate(options)) == [named]
    with pytest.raises(MtkitError, match=f"ctranslate2.*{named}.*decode.engine=native"):
        results(engine, random_segments(), **options)


def test_the_defaults_are_supported():
    assert unsupported(DecodeConfig()) == []
    assert unsupported(DecodeConfig(beam_size=1, min_len=2, min_len_factor=0.1, no_repeat_ngram=3)) == []


def test_a_model_that_ctranslate2_cannot_express_is_refused_by_its_key(tmp_path):
    model = random_model(decoder="ssru")
    with pytest.raises(MtkitError, match=r"CTranslate2 .*model\.decoder=ssru"):
        export(model, tmp_path / "export")


def test_the_longest_sentence_is_known(tmp_path):
    limits = {"learned": 64, "sinusoidal": 2048, "rotary": None, "relative": None, "alibi": 2048}
    for positions, limit in limits.items():
        assert export(random_model(positions=positions), tmp_path / positions).max_positions == limit


def test_a_folder_without_an_export_is_refused(model, tmp_path):
    with pytest.raises(BundleError, match=r"export\.json"):
        CTranslate2Engine(tmp_path)
    export(model, tmp_path / "export")
    weights = tmp_path / "export" / "model.bin"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(BundleError, match="export: "):
        CTranslate2Engine(tmp_path / "export")


@pytest.mark.parametrize("beam_size", [1, 3])
def test_nan_weights_are_an_error(tmp_path, beam_size):
    model = random_model()
    with torch.no_grad():
        model.output.bias.fill_(float("nan"))
    with pytest.raises(MtkitError, match="not a number"):
        results(export(model, tmp_path / "export"), random_segments(), beam_size=beam_size)


def test_an_unsupported_device_is_refused(engine, tmp_path, model):
    export(model, tmp_path / "export")
    with pytest.raises(MtkitError, match=r"device=mps.*cpu.*cuda"):
        CTranslate2Engine(tmp_path / "export", "mps")


def test_without_the_package_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ctranslate2", None)
    with pytest.raises(MtkitError, match=r"ctranslate2 .*pip install 'mtkit\[fast\]'"):
        CTranslate2Engine(tmp_path)
