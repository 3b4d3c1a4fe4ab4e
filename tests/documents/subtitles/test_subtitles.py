"""Subtitles: sentences over several cues are one text, whose translation is shared out; no timing changes."""

import html
import re
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_counts import n_calls
from tiny_documents import loud, translated

from mtkit.documents.reading import Options, document_of
from mtkit.documents.subtitles.shares import MOST_IN_LINE, Word, lines, shares, tagged_words
from mtkit.errors import DataError

SRT = """1
00:00:01,000 --> 00:00:03,500
I went to the market yesterday,

2
00:00:03,600 --> 00:00:06,000
and there I met
an old friend of mine.

3
00:00:06,500 --> 00:00:08,000
- Hello.
- <i>Hi</i> there!

4
00:00:09,000 --> 00:00:10,000
<i>{\\an8}[door slams]</i>

5
00:00:11,000 --> 00:00:12,000

6
00:00:13,000 --> 00:00:16,000
<i>This sentence is all
in italics and</i>

8
00:00:16,000 --> 00:00:18,000
<i>it goes on here.</i>

9
00:00:20,000 --> 00:00:22,000 X1:1 X2:2
JOHN: What <b>is</b> this?

00:00:23,000 --> 00:00:25,000
♪ La la la ♪
♪ lo lo lo ♪
"""
VTT = """WEBVTT - a title
Kind: captions

NOTE
a comment here

STYLE
::cue { color: red }

intro
00:01.000 --> 00:04.000 align:start
<v Roger Bingham>We are in New York City &amp; it is
raining.

00:04.000 --> 00:06.000 align:start
<v Neil>I <c.loud>think</c> that <00:00:05.000>we are

00:06.000 --> 00:08.000
<v A>Yes.
<v B>No, not at all.
"""


@pytest.mark.parametrize("text", [SRT, VTT, "", "\n\n", "WEBVTT\n"])
def test_subtitles_that_are_translated_into_themselves_have_the_same_bytes(text):
    for raw in (text.encode(), text.replace("\n", "\r\n").encode(), text.replace("\n", "\r").encode()):
        assert translated(raw, "subtitles").raw == raw
        assert translated(b"\xef\xbb\xbf" + raw, "subtitles").raw == b"\xef\xbb\xbf" + raw


def test_text_is_translated_and_nothing_else():
    changed = SRT.replace("yesterday,\n\n", "yesterday,\n\n")
    for old in ("I went to the market yesterday,", "and there I met\nan old friend of mine.", "Hello", "Hi", "there!",
                "door slams", "This sentence is all\nin italics and", "it goes on here.", "John", "What", "is</b>",
                "this?", "La la la", "lo lo lo"):  # fmt: skip
        changed = changed.replace(old, old.upper().replace("</B>", "</b>"))
    found = translated(SRT.encode(), "subtitles", loud)
    assert _words(found.raw.decode()) == _words(changed)
    assert found.n_segments == 8


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d]+|<[^<>]*>", text)


def test_names_settings_and_comments_of_webvtt_stay():
    raw = translated(VTT.encode(), "subtitles", loud).raw.decode()
    first = "We are in New York City &amp; it is\nraining."
    assert raw == VTT.replace(first, "WE ARE IN NEW YORK CITY &amp; IT IS RAINING."
        ).replace("I <c.loud>think</c> that <00:00:05.000>we are", "I <c.loud>THINK</c> THAT <00:00:05.000>WE ARE"
        ).replace("Yes.", "YES.").replace("No, not at all.", "NO, NOT AT ALL.")  # fmt: skip


def test_cues_that_share_a_sentence_are_translated_together():
    seen = []

    def note(text: str) -> str:
        seen.append(text)
        return text

    translated(SRT.encode(), "subtitles", note)
    assert "I went to the market yesterday, and there I met an old friend of mine." in seen
    assert "This sentence is all in italics and it goes on here." in seen
    assert {"Hello.", "door slams", "JOHN: What is this?", "La la la"} <= set(seen)


@pytest.mark.parametrize(
    ("first", "gap_s", "second", "is_joined"),
    [
        ("We went", 0, "home.", True),
        ("We went home.", 0, "then slept.", False),
        ("We went home,", 0, "Peter and I.", True),
        ("We went to", 0, "Paris.", True),  # most cues of this file end in a full stop
        ("We went...", 0, "home.", True),
        ("We went...", 0, "Home.", False),
        ("We went", 9, "home.", False),
        ("We went", 0, "- home.", False),
        ("We went", 0, "{\\an8}home.", False),
        ("♪ We went", 0, "home. ♪", False),
        ("[laughs]", 0, "home.", False),
    ],
)
def test_cues_are_joined_if_the_sentence_goes_on(first, gap_s, second, is_joined):
    others = "".join(f"00:02:0{n},000 --> 00:02:0{n},500\nA full sentence.\n\n" for n in range(3))
    timings = "00:00:01,000 --> 00:00:02,000", f"00:00:{2 + gap_s:02},000 --> 00:00:{3 + gap_s:02},000"
    text = f"{timings[0]}\n{first}\n\n{timings[1]}\n{second}\n\n{others}"
    [part] = document_of(text.encode(), "subtitles", Options()).parts
    assert len(part.reading.segments) == (4 if is_joined else 5)


def test_a_longer_translation_is_shared_out_and_broken_into_lines():
    def longer(text: str) -> str:
        return " ".join(f"{word}-{word}" if word.isalpha() else word for word in text.split())

    raw = translated(SRT.encode(), "subtitles", longer).raw.decode()
    first, second = (cue.split("\n")[2:] for cue in raw.split("\n\n")[:2])
    assert len(first) == len(second) == 2
    assert max(map(len, [*first, *second])) <= MOST_IN_LINE
    assert " ".join([*first, *second]).startswith("I-I went-went to-to the-the market-market yesterday, and-and")


@pytest.mark.parametrize(("header", "dots", "last"), [("", "...", "..."), ("WEBVTT\n\n", "&hellip;", "…")])
def test_dots_at_the_cut_stay_out_of_the_text(header, dots, last):
    first, second = "00:00:01.000 --> 00:00:02.000", "00:00:02.000 --> 00:00:03.000"
    text = f"{header}{first}\nWe can see the{dots}\n\n{second}\n{dots}red house{dots}\n"
    seen = []
    raw = translated(text.encode(), "subtitles", lambda text: seen.append(text) or text.upper()).raw.decode()
    assert seen == [f"We can see the red house{last}"]
    assert raw.replace("\n", " ").count(dots) + (dots != last) == 3
    assert f"{dots}\n\n{second}\n{dots}" in raw


@pytest.mark.parametrize(
    "cue", ["&lrm;{}&lrm;", "&rlm;{}", "\u202b{}\u202c", "&quot;{}&quot;", "{}&lrm; &amp; so on.", "&lrm;- {}"]
)
@pytest.mark.parametrize("header", ["WEBVTT\n\n", ""])
def test_cues_with_entities_or_marks_of_direction_keep_their_sentences(header, cue):
    lines = [cue.format(sentence) for sentence in ("Where are my keys?", "The sofa is yellow.", "I love oranges.")]
    cues = [f"00:00:0{second}.000 --> 00:00:0{second}.900\n{line}\n" for second, line in enumerate(lines)]
    text = header + "\n".join(cues)
    seen = []
    raw = translated(text.encode(), "subtitles", lambda text: seen.append(text) or text.upper()).raw.decode()
    assert len(seen) >= len(lines)  # none was joined with another cue's
    assert not any("lrm" in sentence or "rlm" in sentence or "\u202b" in sentence for sentence in seen)
    for line, again in zip(text.splitlines(), raw.splitlines(), strict=True):
        assert html.unescape(again).lower() == html.unescape(line).lower()


def test_cues_without_milliseconds_are_read_and_keep_their_timings():
    text = "1\n00:00:18 --> 00:00:20 X1:1\nThe dog\n\n2\n0:00:20 --> 0:00:21,5 X1:1\nruns.\n"
    seen = []
    raw = translated(text.encode(), "subtitles", lambda text: seen.append(text) or text.upper()).raw.decode()
    assert seen == ["The dog runs."]  # the second begins when the first ends
    assert raw == text.replace("The dog", "THE DOG").replace("runs.", "RUNS.")


def test_a_tag_over_two_cues_is_closed_and_opened_again():
    text = SRT.replace("<i>This sentence is all\nin italics and</i>", "This <i>sentence is all").replace(
        "<i>it goes", "it goes"
    )
    raw = translated(text.encode(), "subtitles", loud).raw.decode()
    for cue in raw.split("\n\n"):
        assert cue.count("<i>") == cue.count("</i>")


def test_fewer_words_than_cues_leave_the_last_cues_empty():
    raw = translated(SRT.encode(), "subtitles", lambda text: text if "market" not in text else "Bonjour").raw.decode()
    assert raw.startswith("1\n00:00:01,000 --> 00:00:03,500\nBonjour\n\n2\n00:00:03,600 --> 00:00:06,000\n\n\n3\n")


_WORDS = st.lists(st.tuples(st.integers(1, 12), st.sampled_from(["", "", "", ",", "."])), min_size=3, max_size=9)


@given(_WORDS, st.lists(st.integers(5, 60), min_size=2, max_size=3))
def test_shares_are_those_of_the_least_cost_of_all(sizes, wanted):
    words = [Word(" " + "x" * size + mark, size + len(mark) + 1) for size, mark in sizes]
    most = [30.0] * len(wanted)
    if len(words) > len(wanted):
        found = [len(share) for share in shares(words, wanted, most)]
        ends = [sum(found[: n + 1]) for n in range(len(found) - 1)]
        every = combinations(range(1, len(words)), len(wanted) - 1)
        assert _cost(words, ends, wanted, most) == pytest.approx(min(_cost(words, e, wanted, most) for e in every))


def _cost(words, ends, wanted, most) -> float:
    total = sum(word.width for word in words)
    mean = total / len(wanted)
    cost = 0.0
    for start, end, want, limit in zip([0, *ends], [*ends, len(words)], wanted, most, strict=True):
        wide = sum(word.width for word in words[start:end])
        cost += ((wide - max(1.0, total * want / sum(wanted))) / mean) ** 2 + 4 * max(0.0, wide - limit) / mean
    marks = [words[end - 1].text[-1] for end in ends]
    return cost + sum(0.0 if mark == "." else 0.1 if mark == "," else 0.3 for mark in marks)


def test_lines_end_after_punctuation_and_have_like_lengths():
    words = tagged_words("We are going to the cinema tonight, because my sister wants to see it.")
    assert lines(words, 2) == ["We are going to the cinema tonight,", "because my sister wants to see it."]
    assert lines(tagged_words("我们今天晚上去看电影，因为我的妹妹想看，而且我们都有时间。"), 2) == [
        "我们今天晚上去看电影，",
        "因为我的妹妹想看，而且我们都有时间。",
    ]


@given(
    st.lists(st.sampled_from(["<i>", "</i>", " ", "word", ",", "茶", "。", "<", "{\\an8}", "{"]), max_size=20).map(
        "".join
    )
)
def test_words_are_the_text(text):
    assert "".join(word.text for word in tagged_words(text)).strip() == text.strip()


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("Some prose\nin lines\n", ["line 1", "Some prose", "00:00:01,000 --> "]),
        ("1\n00:00:01,000 --> 00:0x\nHello\n", ["line 2", "00:00:01,000 --> 00:0x"]),
        ("1\n0:0:1;5 --> 0:0:2\nHello\n", ["line 2", "0:0:1;5 --> 0:0:2"]),
    ],
)
def test_damaged_subtitles_are_refused(text, facts):
    with pytest.raises(DataError) as error:
        document_of(text.encode(), "subtitles", Options())
    assert all(fact in str(error.value) for fact in facts)


_PIECES = ["1\n", "00:00:01,000 --> 00:00:02,000\n", "00:00:03.000 --> 00:00:04.000 line:0\n", "\n", "Hello there",
           "\n- ", "<i>", "</i>", " you,", ".", "♪ ", "[x y]", "{\\an8}", "NOTE\n", "WEBVTT\n", "<v A>", "\r\n", "<b>",
           "</b>", "é", "&amp;", "-->", "# ", "\\N"]  # fmt: skip


@given(st.lists(st.sampled_from(_PIECES), max_size=30).map("".join), st.booleans())
def test_any_subtitles_come_back_and_keep_their_timings(text, is_vtt):
    text = f"{'WEBVTT' if is_vtt else '0'}\n\n00:00:00.000 --> 00:00:00.500\n{text}"
    try:
        assert translated(text.encode(), "subtitles").raw == text.encode()
    except DataError:
        return
    raw = translated(text.encode(), "subtitles", loud).raw.decode()
    assert _timings(raw) == _timings(text)


def _timings(text: str) -> list[str]:
    return re.findall(r"^[\d:.,]+ --> [\d:.,]+", text, re.MULTILINE)


def test_pysubs2_sees_the_same_timings_and_as_many_cues():
    pysubs2 = pytest.importorskip("pysubs2", reason="another reader of subtitles; pip install pysubs2")
    for text in (SRT, VTT):
        found = translated(text.encode(), "subtitles", loud).raw.decode()
        before, after = (pysubs2.SSAFile.from_string(each) for each in (text, found))
        assert [(event.start, event.end) for event in before] == [(event.start, event.end) for event in after]
        assert " ".join(event.plaintext for event in after).split() == [
            word.upper() if not word.startswith("&") else word
            for word in " ".join(event.plaintext for event in before).split()
        ]


@pytest.mark.parametrize(
    "piece",
    [
        "<i>",
        "</i>",
        "<i",
        "{\\",
        "- ",
        "a\n",
        "♪",
        "[",
        "1\n",
        "00:00:00,000 --> 00:00:09,000\na\n",
        "<v A>a\n",
    ],
)
def test_hostile_subtitles_take_work_in_proportion_to_their_length(piece):
    def n_calls_to_read(n: int) -> int:
        raw = f"00:00:00,000 --> 00:00:09,000\n{piece * n}".encode()
        return n_calls(document_of, raw, "subtitles", Options())

    assert n_calls_to_read(600) < 2.5 * n_calls_to_read(300)
