"""Translating lines. With a model that copies, the output is known; a real one shows that batches do not matter."""

import json
import logging
from typing import cast

import pytest
import torch
from copying import LETTERS, CopyModel, Letters, copying
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import tiny_transformer

from mtkit.bundle import SHARE_OF_SEVERAL, read_bundle
from mtkit.cli.models import load_translator
from mtkit.config.decoding import DecodeConfig
from mtkit.config.model import ModelConfig
from mtkit.cores import usable_cores
from mtkit.engines.native import NativeEngine
from mtkit.engines.steps import ModelStep
from mtkit.errors import DataError, MtkitError
from mtkit.model.transformer import Transformer
from mtkit.search.greedy import greedy
from mtkit.search.step import SearchConfig
from mtkit.text.inline import cut
from mtkit.text.lines import list_mark
from mtkit.tokens.special_ids import BOS_ID, EOS_ID, PAD_ID
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.translation.translator import Translator


@pytest.fixture
def warnings(caplog, monkeypatch):
    """What was logged as a warning, also if the command line has set up mtkit's logger before."""
    monkeypatch.setattr(logging.getLogger("mtkit"), "propagate", True)
    caplog.set_level(logging.WARNING, logger="mtkit")
    return lambda: [record.getMessage() for record in caplog.records]


@given(
    lines=st.lists(st.text(alphabet="abc .,!", max_size=30), max_size=20),
    batch=st.integers(1, 5),
    window=st.integers(1, 9),
    beam_size=st.integers(1, 3),
)
def test_every_line_gives_one_line_in_its_place_and_blank_stays_blank(lines, batch, window, beam_size):
    translator = copying(batch_sentences=batch, beam_size=beam_size)
    texts = [translation.text for translation in translator.stream(lines, window=window)]
    marks = [list_mark(line.strip()) for line in lines]  # stay as they are
    read = [mark + " ".join(line.strip().removeprefix(mark).split()) for line, mark in zip(lines, marks, strict=True)]
    assert texts == [r if any(map(str.isalpha, line)) else line.strip() for line, r in zip(lines, read, strict=True)]


def test_blank_lines_never_reach_the_model():
    model = CopyModel()
    assert copying(model).translate(["", "  \t ", "\u3000", "\x07"]) == [""] * 4
    assert model.shapes == []


def test_line_breaks_inside_a_line_are_spaces_on_both_sides():
    class WithLineBreaks(Letters):
        def encode_batch(self, texts):
            assert texts == ["one two  three four five"]  # a tokenizer may keep what it is given
            return super().encode_batch(texts)

        def decode(self, ids):
            return "un\ndeux\u2028trois\x85"

    tokenizer = cast(Tokenizer, WithLineBreaks())
    engine = NativeEngine([cast(Transformer, CopyModel())])
    translator = Translator(engine, tokenizer, tokenizer, DecodeConfig(on_suspect="off"))
    assert translator.translate(["one\ntwo\r\nthree\u2028four\x0bfive\n"]) == ["un deux trois"]


def test_lines_of_similar_length_share_a_batch():
    model = CopyModel()
    copying(model, batch_sentences=2, beam_size=1).translate(["a" * 9, "b", "c" * 8, "dd"])
    assert model.shapes == [(2, 3), (2, 10)]  # EOS counted


def test_long_lines_come_in_smaller_batches():
    model = CopyModel()
    copying(model, batch_sentences=9, batch_tokens=20, beam_size=1).translate(["a" * 10, "b" * 9, "c", "d", "e" * 30])
    assert model.shapes == [(2, 2), (2, 11), (1, 31)]  # EOS is not counted against the limit


def test_a_window_is_translated_before_the_next_is_read():
    read = []

    def lines():
        for line in ("a", "b", "c", "d"):
            read.append(line)
            yield line

    stream = copying().stream(lines(), window=2)
    assert next(stream).text == "a"
    assert read == ["a", "b"]


def test_long_input_is_split_rejoined_and_reported_with_its_line(warnings):
    model = CopyModel()
    line = "The first sentence. The second one, rather longer. A third?"
    assert copying(model, max_src_tokens=20).translate(["", "short", line]) == ["", "short", line]
    assert max(length for _, length in model.shapes) <= 21
    [message] = warnings()
    assert message.startswith("line 3: 59 tokens") and "decode.max_src_tokens=20; translated in 4 segments" in message


def test_each_sentence_of_a_line_is_translated_by_itself_and_the_white_space_between_them_stays(warnings):
    model = CopyModel()
    line = "One cat.  Two dogs!\tA third?\u3000Mr. Smith e.g. here"
    translator = copying(model, by_sentence=True, batch_sentences=1)
    [translation] = translator.stream([line])
    assert (translation.text, translation.n_segments, translation.is_long) == (line, 4, False)
    assert sorted(length - 1 for _, length in model.shapes) == sorted(map(len, SPLIT))
    assert warnings() == []  # about a line that is too long


SPLIT = ["One cat.", "Two dogs!", "A third?", "Mr. Smith e.g. here"]


def test_the_model_reads_a_line_of_numbers():
    [numbers, code] = copying(by_sentence=True).pieces(["12 - 3.50", "A-12"])
    assert [piece.text for piece in numbers if not piece.is_blank] == ["12 - 3.50"]
    assert all(piece.is_blank for piece in code)


@pytest.mark.parametrize(
    ("line", "read", "n_segments"),
    [
        (r"One cat\nTwo dogs", ["One cat", "Two dogs"], 2),
        (r"One cat.\r\n\tTwo dogs.\n", ["One cat.", "Two dogs."], 2),
        ("One cat\tTwo dogs  \t B-2", ["One cat", "Two dogs"], 2),
        ("One cat.Two dogs", ["One cat.Two dogs"], 1),
        ("This is one cat.Two dogs are here", ["This is one cat.", "Two dogs are here"], 2),
        ("- One cat", ["One cat"], 1),
        ("3. One cat. Two dogs", ["One cat.", "Two dogs"], 2),
        ("*** A-12 ***", [], 1),
        ("One cat. 3.50! Two dogs", ["One cat.", "Two dogs"], 2),
        (r"C:\new is one", [r"C:\new is one"], 1),
    ],
)
def test_a_line_is_divided_as_the_text_of_a_document_and_the_rest_stays(line, read, n_segments):
    translator = copying(by_sentence=True)
    [pieces] = translator.pieces([line])
    assert [piece.text for piece in pieces if not piece.is_blank] == read == [line[a:b] for a, b in cut(line)]
    [translation] = translator.stream([line])
    assert translation.n_segments == n_segments
    if ".Two" in line and n_segments == 2:
        line = line.replace(".Two", ". Two")  # where sentences are divided by a space
    assert translation.text == line


def test_data_and_sentences_of_more_than_ten_thousand_characters_stay_and_are_named(warnings):
    model = CopyModel()
    translator = copying(model, by_sentence=True, on_suspect="warn")
    lines = ["a" * 50_000, "a cat " * 1_700, "b"]
    assert list(map(str.strip, translator.translate(lines))) == list(map(str.strip, lines))
    assert [width for _, width in model.shapes] == [2]  # "b" and EOS
    [message] = warnings()
    assert "2 leave text untranslated" in message and "lines 1, 2" in message


def test_a_form_feed_divides_a_line_and_becomes_a_space():
    translator = copying(by_sentence=True)
    assert [[piece.text for piece in of_line] for of_line in translator.pieces(["a cat\fa dog"])] == [
        ["a cat", "a dog"]
    ]
    assert translator.translate(["a cat\fa dog", "*\f*"]) == ["a cat a dog", "* *"]


def test_what_stays_between_sentences_belongs_to_each_candidate_and_a_prefix_to_the_first_sentence():
    translator = copying(by_sentence=True, beam_size=2)
    [translation] = translator.stream(["- a cat. B-2. A dog."], n_best=2)
    assert [candidate.text[:2] for candidate in translation.n_best] == ["- ", "- "]
    session = translator.session(prefix="the")
    [translation] = session.translate(["- a cat"])
    assert translation.text.startswith("- the")


def test_without_the_fact_that_lines_are_sentences_a_line_is_translated_as_a_whole():
    model = CopyModel()
    copying(model).translate(["One cat. Two dogs."])
    assert model.shapes == [(1, 19)]


@pytest.mark.parametrize(("share", "is_split"), [(0.011, True), (0.032, False), (None, True), ("many", True)])
def test_a_line_is_divided_unless_training_recorded_that_lines_have_several_sentences(bundle, share, is_split):
    path = bundle / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    if share is not None:
        manifest["training"][SHARE_OF_SEVERAL] = share
    path.write_text(json.dumps(manifest), encoding="utf-8")
    translator = Translator.load(bundle, device="cpu")
    [pieces] = translator.pieces(["It rains. I love oranges."])
    assert [piece.text for piece in pieces] == (
        ["It rains.", "I love oranges."] if is_split else ["It rains. I love oranges."]
    )


def test_learned_positions_bound_input_and_output(warnings):
    model = CopyModel("learned", max_positions=10)
    translator = copying(model, max_len_constant=50)
    assert translator.translate(["aaaa bbbb cccc"]) == ["aaaa bbbb cccc"]
    assert len(warnings()) == 1
    assert max(length for _, length in model.shapes) <= 10


def test_translations_that_hit_the_length_limit_are_counted(warnings):
    translator = copying(beam_size=1, max_len_factor=0.5, max_len_constant=0)
    translations = list(translator.stream(["abcdefgh", "", "abcdef"]))
    assert [t.text for t in translations] == ["abcde", "", "abcd"]  # half the source, and the place of EOS
    assert [t.finished for t in translations] == [False, True, False]
    [message] = warnings()
    assert message.startswith("2 of 3 translations") and "decode.max_len_factor" in message


def test_no_warning_without_a_reason(warnings):
    copying().translate(["abc"])
    assert warnings() == []


def test_a_string_instead_of_a_list_is_refused():
    with pytest.raises(TypeError, match="list"):
        copying().translate("I love oranges.")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (None, r"line 2: .*NoneType"),
        (b"bytes", r"line 2: .*bytes.*decode"),
        (7, r"line 2: .*int"),
        (["a"], r"line 2: .*list"),
        ("a \ud83d b", r"line 2: character 3 .*surrogate.*U\+D83D"),
    ],
)
def test_a_line_that_is_not_text_is_named(line, message):
    translator = copying()
    for translate in (translator.translate, lambda lines: list(translator.stream(lines)), translator.search):
        with pytest.raises(DataError, match=message):
            translate(["I love oranges.", line, "It rains."])


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] . DefaultCPUAllocator: not enough memory: you tried to"),
    ],
)
def test_a_batch_that_does_not_fit_into_memory_is_an_error_with_its_remedy(error):
    class TooLarge(CopyModel):
        def start_decoding(self, src, beam_size):
            raise error

    with pytest.raises(MtkitError, match=r"^cpu: .* 2 sentences .*\b4 tokens; lower decode\.batch_sentences=64, "):
        copying(TooLarge()).translate(["abc", "", "de"])


def test_any_other_error_of_torch_passes_unchanged():
    class Broken(CopyModel):
        def start_decoding(self, src, beam_size):
            raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match=r"^mat1 and mat2"):
        copying(Broken()).translate(["abc"])


def test_a_program_keeps_its_threads_unless_it_asks_for_others(shared_bundle):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        Translator.load(shared_bundle, device="cpu", threads=None)
        assert torch.get_num_threads() == 3
        Translator.load(shared_bundle, device="cpu", threads=2)
        assert torch.get_num_threads() == 2
        load_translator([shared_bundle], overrides=["decode.threads=3"], device="cpu")
        assert torch.get_num_threads() == 3
        assert read_bundle(shared_bundle).config.train.threads == 1  # which is of no importance here
        load_translator([shared_bundle], overrides=["decode.threads=null"], device="cpu")
        assert torch.get_num_threads() == usable_cores()
    finally:
        torch.set_num_threads(before)


# From here on a real Transformer with random weights: what it says means nothing, but it must always say the same.


@pytest.fixture(scope="module")
def random_model() -> Transformer:
    shape = {"d_model": 32, "d_ff": 64, "n_heads": 4, "n_encoder_layers": 2, "n_decoder_layers": 2}
    model = tiny_transformer(Letters.vocab_size, seed=5, scale=2.5, **shape)
    with torch.no_grad():
        model.output.bias[EOS_ID] = 1.0
    return model


LINES = ["I love oranges.", "a", "", "The cat sleeps, and it snores.", "Why?", "No.", "bb cc dd", "xyz " * 9]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_line_is_translated_the_same_alone_in_any_batch_and_in_any_order(random_model, beam_size):
    translator = Translator(
        NativeEngine([random_model]), LETTERS, LETTERS, DecodeConfig(beam_size=beam_size, on_suspect="off")
    )
    alone = [translator.translate([line])[0] for line in LINES]
    assert len(set(alone)) >= 6  # the model does not say one thing to everything
    assert translator.translate(LINES) == alone
    assert translator.translate(LINES[::-1]) == alone[::-1]
    assert translator.translate(LINES * 3) == alone * 3


def test_n_best_never_changes_the_best_and_is_sorted(random_model):
    translator = Translator(NativeEngine([random_model]), LETTERS, LETTERS, DecodeConfig(beam_size=4, on_suspect="off"))
    best = list(translator.stream(LINES))
    for one, translation in zip(best, translator.stream(LINES, n_best=4), strict=True):
        assert translation.n_best[0].ids == one.n_best[0].ids
        keys = [(candidate.finished, candidate.score) for candidate in translation.n_best]
        assert keys == sorted(keys, reverse=True)
        assert len(keys) == (4 if translation.src else 1)


def test_decoding_with_caches_finds_what_the_full_model_finds(random_model):
    """Greedy decoding by hand: the whole prefix through `forward` at every position, no cache."""
    src = torch.tensor([[*Letters().encode(text), EOS_ID] for text in ("I love oranges.", "You sleep well.")])
    with torch.no_grad():
        results = greedy(
            ModelStep(random_model, src, 1), torch.tensor([25, 25]), SearchConfig(1), bos_id=BOS_ID, eos_id=EOS_ID
        )
        for row, [hypothesis] in enumerate(result.n_best for result in results):
            prefix = [BOS_ID]
            while len(prefix) <= 25 and EOS_ID not in prefix:
                logits = random_model(src[row : row + 1], torch.tensor([prefix]))[0, -1]
                logits[[PAD_ID, BOS_ID]] = -torch.inf
                prefix.append(int(logits.argmax()))
            assert hypothesis.ids == [token for token in prefix[1:] if token != EOS_ID]
            assert len(hypothesis.ids) > 3


def test_pad_and_bos_are_never_chosen_and_the_others_keep_their_log_prob(random_model):
    src = torch.tensor([[9, 8, EOS_ID]])
    with torch.no_grad():
        step = ModelStep(random_model, src, 1)
        random_model.output.bias[[PAD_ID, BOS_ID]] += 50.0
        log_probs = step(torch.tensor([[BOS_ID]]))[0, 0]
        expected = random_model(src, torch.tensor([[BOS_ID]]))[0, 0].log_softmax(0)
        random_model.output.bias[[PAD_ID, BOS_ID]] -= 50.0
    assert log_probs[PAD_ID] == log_probs[BOS_ID] == -torch.inf
    others = [i for i in range(Letters.vocab_size) if i not in (PAD_ID, BOS_ID)]
    torch.testing.assert_close(log_probs[others], expected[others], atol=1e-4, rtol=1e-5)


def test_a_model_in_training_mode_can_translate_and_stays_in_training_mode():
    torch.manual_seed(0)
    cfg = ModelConfig(d_model=16, d_ff=32, n_heads=2, n_encoder_layers=1, n_decoder_layers=1, residual_dropout=0.9)
    model = Transformer(cfg, Letters.vocab_size, Letters.vocab_size)
    translator = Translator(NativeEngine([model]), LETTERS, LETTERS, DecodeConfig(max_len_constant=5, on_suspect="off"))
    model.eval()
    expected = translator.translate(LINES)
    model.train()
    assert translator.translate(LINES) == expected
    assert model.training
