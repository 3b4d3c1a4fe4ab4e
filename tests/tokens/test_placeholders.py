import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.config.tags import TOKENS
from mtkit.config.tokenizer import TokenizerConfig
from mtkit.errors import DataError
from mtkit.tokens.placeholders import Placeholders, fill, restore, with_own_tokens
from mtkit.tokens.tokenizer import train_tokenizer

PATTERNS = [r"\{\w+\}", r"%[sd]", r"\d+(?:\.\d+)?", r"https?://\S+"]
PARTS = [
    "{name}",
    "{a b}",
    "%s",
    "%d",
    "3.14",
    "12",
    "http://a.b/c?d=1",
    "<ph1>",
    "<ph9>",
    "<PH2>",
    "<ph",
    "1>",
    "<ph0>",
]
PARTS += [
    " ",
    "  ",
    "\u2581",
    "the cat",
    "été",
    "\U0010abcd",
    "\ufb01",
    "\0",
    "<unk>",
    "<0x41>",
    "\U0001f469\u200d\U0001f467",
]
TEXTS = st.lists(st.sampled_from(PARTS) | st.text(st.characters(exclude_categories=["Cs"])), max_size=12).map("".join)


@pytest.fixture(scope="module")
def placeholders():
    return Placeholders(PATTERNS)


@pytest.fixture(scope="module")
def tokenizer(make_lines, tmp_path_factory):
    """A tokenizer that keeps every character, so that only the placeholders can change the text."""
    path = tmp_path_factory.mktemp("placeholders") / "any.spm"
    cfg = TokenizerConfig(vocab_size=400, normalization="identity")
    return train_tokenizer(make_lines("tgt", 200), cfg, path, TOKENS).with_placeholders(PATTERNS)


@given(text=TEXTS)
def test_a_text_comes_back_exactly_from_its_tokens(placeholders, text):
    if len(placeholders.values(text)) <= len(TOKENS):
        replaced = placeholders.replace(text)
        assert restore(replaced.text, replaced.values) == (text, 0)
        assert list(replaced.values.values()) == placeholders.values(text)


@given(text=TEXTS)
def test_the_tokenizer_sees_one_reserved_token_for_each_match_and_no_other(placeholders, tokenizer, text):
    values = placeholders.values(text)
    pieces = tokenizer.pieces(tokenizer.encode(text))
    assert len([piece for piece in pieces if piece in TOKENS]) == min(len(values), len(TOKENS))
    if len(values) <= len(TOKENS):
        again = fill(tokenizer.decode(tokenizer.encode(text)), placeholders.replace(text).values)
        assert again == _plain(placeholders, text)


def _plain(placeholders: Placeholders, text: str) -> str:
    """The text as a tokenizer without normalisation gives it back: its own mark is a space, outside placeholders."""
    parts, at = [], 0
    for start, end in placeholders.spans(text):
        parts += [text[at:start].replace("\u2581", " "), text[start:end]]
        at = end
    return "".join([*parts, text[at:].replace("\u2581", " ")])


@given(src=TEXTS, tgt=TEXTS)
def test_a_pair_has_the_same_tokens_on_both_sides(placeholders, src, tgt):
    src_text, tgt_text, agree = placeholders.replace_pair(src, tgt)
    tokens = re.compile("<ph[1-9]>")
    assert sorted(tokens.findall(src_text)) == sorted(tokens.findall(tgt_text))
    assert len(set(tokens.findall(src_text))) == len(tokens.findall(src_text))
    assert agree == (sorted(placeholders.values(src)) == sorted(placeholders.values(tgt)))


@given(lines=st.lists(st.tuples(TEXTS, st.randoms()), min_size=2, max_size=4))
def test_joined_pairs_have_one_token_for_each_value_on_both_sides(placeholders, lines):
    pairs = []
    for src, random in lines:
        values = placeholders.values(src)
        random.shuffle(values)  # the target has them in another order
        pairs.append(placeholders.replace_pair(src, " x ".join(values))[:2])
    own = with_own_tokens(pairs)
    tokens, in_pairs = re.compile("<ph[1-9]>"), [len(re.findall("<ph[1-9]>", src)) for src, _ in pairs]
    assert len(own) == max(n for n in range(1, len(pairs) + 1) if sum(in_pairs[:n]) <= 9)
    srcs, tgts = (tokens.findall(" ".join(side)) for side in zip(*own, strict=True))
    assert len(set(srcs)) == len(srcs)
    assert sorted(srcs) == sorted(tgts)
    for before, after in zip(pairs, own, strict=False):  # each pair is the same apart from the numbers
        renamed = dict(zip(tokens.findall(before[0]), tokens.findall(after[0]), strict=True))
        for text, own_text in zip(before, after, strict=True):
            assert [renamed[token] for token in tokens.findall(text)] == tokens.findall(own_text)
            assert tokens.sub("", text) == tokens.sub("", own_text)


def test_joined_pairs_have_the_tokens_of_the_same_text_in_one_line(placeholders):
    pairs = [("{a} is {b}.", "{b}: {a}."), ("No {c}!", "{c} nein!")]
    srcs, tgts = zip(*with_own_tokens([placeholders.replace_pair(*pair)[:2] for pair in pairs]), strict=True)
    line = [" ".join(side) for side in zip(*pairs, strict=True)]
    first = TOKENS.index(re.findall("<ph.>", srcs[0])[0])
    a, b, c = (TOKENS[(first + i) % 9] for i in range(3))
    assert (" ".join(srcs), " ".join(tgts)) == (f"{a} is {b}. No {c}!", f"{b}: {a}. {c} nein!")
    assert restore(" ".join(tgts), dict(zip((a, b, c), ("{a}", "{b}", "{c}"), strict=True))) == (line[1], 0)


@given(text=TEXTS, values=st.lists(st.text(), max_size=9), n_more=st.integers(0, 3), n_less=st.integers(0, 3))
def test_whatever_a_model_writes_each_value_is_there_once(text, values, n_more, n_less):
    words = ["x", *TOKENS[n_less : len(values)], *TOKENS[:n_more], "y"]
    by_token = dict(zip(TOKENS, values, strict=False))
    restored, _ = restore(" ".join(words), by_token)
    rest = restored
    for value in sorted(values, key=len, reverse=True):
        assert value in rest
        rest = rest.replace(value, "", 1) if value else rest
    assert not re.search("<ph[1-9]>", rest) or any("<ph" in value for value in values)


@given(src=TEXTS, tgt=TEXTS)
def test_each_token_tells_its_place_in_the_text_as_it_was(tokenizer, src, tgt):
    values = tokenizer.placeholders.replace(src).values
    [tgt_ids] = tokenizer.encode_translations([tgt], [src])
    for text, ids, spans in (
        (src, tokenizer.encode(src), tokenizer.spans(src)),
        (tgt, tgt_ids, tokenizer.spans(tgt, src)),
    ):
        assert len(ids) == len(spans)
        assert "".join(text[start:end] for start, end in spans) == text
        for piece, (start, end) in zip(tokenizer.pieces(ids), spans, strict=True):
            assert piece not in TOKENS or text[start:end] == values[piece]


def test_equal_texts_apart_from_their_placeholders_get_the_same_tokens(placeholders):
    first, second = placeholders.replace("Hello {name}, 3 times."), placeholders.replace("Hello {other}, 44 times.")
    assert first.text == second.text
    assert first.values != second.values


def test_all_tokens_are_in_use_equally_often(placeholders):
    firsts = [next(iter(placeholders.replace(f"word {'x' * n} {{name}}").values)) for n in range(900)]
    assert {token: 60 < firsts.count(token) < 140 for token in TOKENS} == dict.fromkeys(TOKENS, True)


@pytest.mark.parametrize(
    ("patterns", "text", "values"),
    [
        (["ab", "bc"], "abc", ["ab"]),  # the first
        (["a", "ab+"], "abbc", ["abb"]),  # of those that begin there the longest
        ([r"(\w)\1", r"(?P<x>\d)(?P=x)"], "aa 11 ab", ["aa", "11"]),  # groups count from 1 in each pattern
        (["(?i)abc", "d"], "ABC D d", ["ABC", "d"]),  # flags are of one pattern
        ([r"\b", r"x(?=y)"], "xy x", ["x"]),  # empty matches are none
        (["{x}"], "<ph3> {x}", ["<ph3>", "{x}"]),
        ([r"<[^>]+>"], "<b><ph1></b>", ["<b>", "<ph1>", "</b>"]),
    ],
)
def test_which_matches_count(patterns, text, values):
    assert Placeholders(patterns).values(text) == values


def test_a_match_that_one_side_lacks_stays_text_on_the_other(placeholders):
    src, tgt, agree = placeholders.replace_pair("Pay {sum} in 3 days, 3!", "Payez en 3 jours {somme} <ph4>")
    token = next(token for token in TOKENS if token in src)
    assert (src, tgt) == (f"Pay {{sum}} in {token} days, 3!", f"Payez en {token} jours {{somme}} (ph4)")
    assert not agree


def test_a_tenth_match_stays_text(placeholders):
    text = " ".join(map(str, range(100, 112)))
    replaced = placeholders.replace(text)
    assert len(replaced.values) == len(TOKENS)
    assert replaced.text.endswith(" 109 110 111")


def test_what_a_model_loses_comes_last_and_what_it_doubles_goes():
    values = {"<ph2>": "{a}", "<ph3>": "{b}"}
    assert restore("x <ph3> y", values) == ("x {b} y {a}", 1)
    assert restore("<ph2> x <ph2> <ph3>", values) == ("{a} x  {b}", 1)
    assert restore("<ph2> <ph3> <ph7>", values) == ("{a} {b}", 1)
    assert restore("", values) == ("{a} {b}", 2)
    assert fill("x <ph3>", values) == "x {b}"


def test_a_pattern_that_takes_for_ever_is_stopped_and_named(monkeypatch):
    monkeypatch.setattr("mtkit.tokens.placeholders._LIMIT_S", 0.2)
    with pytest.raises(DataError, match=r"data\.placeholders: '\(\?:a\|aa\)\+\$' .* 101 characters"):
        Placeholders([r"(?:a|aa)+$"]).replace("a" * 100 + "b")


def test_the_target_has_the_tokens_of_its_source(tokenizer):
    src, tgt = "{b} of {a}, {b}", "{a} de {b} ; {b} {c}"
    values = tokenizer.placeholders.replace(src).values
    [ids] = tokenizer.encode_translations([tgt], [src])
    pieces = [piece for piece in tokenizer.pieces(ids) if piece in TOKENS]
    assert [values[piece] for piece in pieces] == ["{a}", "{b}", "{b}"]
    assert fill(tokenizer.decode(ids), values) == tgt


def test_a_tokenizer_without_reserved_tokens_is_refused(make_lines, tmp_path):
    plain = train_tokenizer(make_lines("tgt", 200), TokenizerConfig(vocab_size=300), tmp_path / "any.spm")
    with pytest.raises(DataError, match=r"any\.spm: .*<ph1> to <ph9>.* data\.placeholders"):
        plain.with_placeholders(PATTERNS)
