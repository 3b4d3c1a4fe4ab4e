"""DOCX: formats, fields, links, notes and text boxes; python-docx reads what comes out."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_archives import OFFICE, W, member, types, zipped
from tiny_documents import loud, translated

from mtkit.documents.filling import CHECK, LEFT
from mtkit.errors import DataError

MAIN = f"{OFFICE}.wordprocessingml.document.main+xml"
HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\r\n'
SPACES = (
    f'xmlns:w="{W}" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"'
)
RELATIONS = (
    '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>'
)


def document(body: str) -> str:
    return f"{HEAD}<w:document {SPACES}><w:body>{body}</w:body></w:document>"


def docx(body: str, **others: tuple[str, str]) -> bytes:
    """Return a document. others: the types and texts of further members of the folder word."""
    overrides = {"word/document.xml": MAIN} | {f"word/{name}.xml": kind for name, (kind, _) in others.items()}
    members = {"[Content_Types].xml": types(overrides), "_rels/.rels": RELATIONS, "word/document.xml": document(body)}
    return zipped(members | {f"word/{name}.xml": text for name, (_, text) in others.items()})


def paragraph(inside: str) -> str:
    return f'<w:p w:rsidR="00A1"><w:pPr><w:jc w:val="left"/></w:pPr>{inside}</w:p>'


def run(text: str, properties: str = "", rsid: str = "") -> str:
    properties = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    space = ' xml:space="preserve"' if text != text.strip() else ""
    revision = f' w:rsidR="{rsid}"' if rsid else ""
    return f"<w:r{revision}>{properties}<w:t{space}>{text}</w:t></w:r>"


def field(code: str, result: str) -> str:
    begin, separate, end = (f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end"))
    return f"{begin}<w:r><w:instrText>{code}</w:instrText></w:r>{separate}{result}{end}"


def box(inside: str) -> str:
    """A text box, with the fallback for old programs."""
    content = f"<w:txbxContent>{inside}</w:txbxContent>"
    return (
        f"<w:r><mc:AlternateContent><mc:Choice Requires='wps'><w:drawing>{content}</w:drawing></mc:Choice>"
        f"<mc:Fallback><w:pict>{content}</w:pict></mc:Fallback></mc:AlternateContent></w:r>"
    )


DELETED = '<w:del w:id="1"><w:r><w:delText>old words</w:delText></w:r></w:del>'
LINKED, CODE = ('<w:rStyle w:val="Hyperlink"/>', '<w:rStyle w:val="VerbatimChar"/>')
LINK = f'<w:hyperlink r:id="rId5">{run("the dog", LINKED)}</w:hyperlink>'
TABS = "<w:r><w:tab/><w:t>one</w:t><w:br/><w:t>two</w:t></w:r>"
CONTROL = f'<w:sdt><w:sdtPr><w:alias w:val="kept"/></w:sdtPr><w:sdtContent>{run("a form")}</w:sdtContent></w:sdt>'


def joined(text: str) -> str:
    """Return a text whose neighbouring runs without properties are one: that makes no difference."""
    return text.replace("</w:r><w:r><", "<").replace("<w:rPr>", "</w:r><w:r><w:rPr>")


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        (run("one") + '<w:proofErr w:type="spellStart"/>' + run(" two", rsid="00B2"), run("ONE TWO")),
        (run("one ") + run("two", "<w:b/>"), run("ONE ") + run("TWO", "<w:b/>")),
        (run("one two", '<w:lang w:val="en-GB"/>') + run(" six"), run("ONE TWO SIX", '<w:lang w:val="en-GB"/>')),
        (run("a", "<w:i/>") + run(" big box", "<w:b/>"), run("A", "<w:i/>") + run(" BIG BOX", "<w:b/>")),
        (run("see ") + LINK, run("SEE ") + LINK.replace("the dog", "THE DOG")),
        (LINK, LINK.replace("the dog", "THE DOG")),
        (run("new ") + DELETED + run("words"), run("NEW ") + DELETED + run("WORDS")),
        (run("in ") + CONTROL, run("IN ") + CONTROL.replace("a form", "A FORM")),
        (f"<w:ins w:id='1'>{run('new')}</w:ins>", f"<w:ins w:id='1'>{run('NEW')}</w:ins>"),
        (run("Page ") + field(" PAGE ", run("one")), run("PAGE ") + field(" PAGE ", run("one"))),
        (field(' HYPERLINK "x" ', run("go on")), field(' HYPERLINK "x" ', run("GO ON"))),
        (run("by ") + field(' HYPERLINK "x" ', run("me")), run("BY ") + field(' HYPERLINK "x" ', run("ME"))),
        (f'<w:fldSimple w:instr=" REF x "><w:r><w:t>two</w:t></w:r></w:fldSimple>{run("b")}',
         f'<w:fldSimple w:instr=" REF x "><w:r><w:t>two</w:t></w:r></w:fldSimple>{run("B")}'),
        (TABS, TABS.replace("one", "ONE").replace("two", "TWO")),
        (run("run ") + run("ls -l", CODE), run("RUN ") + run("ls -l", CODE)),
        ("<w:r><w:t>co</w:t><w:softHyphen/><w:t>at</w:t><w:noBreakHyphen/><w:t>x</w:t></w:r>", run("COAT\u2011X")),
        (run("a &amp; b &lt;3>"), run("A &amp; B &lt;3&gt;")),
        (run("12 + 3"), run("12 + 3")),
    ],
)  # fmt: skip
def test_only_text_changes(inside, expected):
    found = member(translated(docx(paragraph(inside)), "docx", loud).raw, "word/document.xml")
    assert joined(found) == joined(document(paragraph(expected)))


def test_a_format_follows_its_words_to_another_place():
    raw = docx(paragraph(run("the ") + run("red", "<w:b/>") + run(" car")))
    found = translated(raw, "docx", lambda text: " ".join(reversed(text.split())))  # aligned as if in this order
    assert member(found.raw, "word/document.xml") == document(
        paragraph(run("car ") + run("red", "<w:b/>") + run(" the"))
    )


def test_a_superscript_that_the_translation_lacks_does_not_raise_a_whole_word():
    raised = '<w:vertAlign w:val="superscript"/>'
    raw = docx(paragraph(run("le 1") + run("er", raised) + run(" mai")))
    found = translated(raw, "docx", lambda _: "the first may")
    assert member(found.raw, "word/document.xml") == document(paragraph(run("the first may")))
    assert len(found.notes) == 1
    found = translated(raw, "docx", lambda _: "the 1st may")
    kept = paragraph(run("the 1") + run("st", raised) + run(" may"))
    assert member(found.raw, "word/document.xml") == document(kept)


def test_both_copies_of_a_text_box_are_translated_and_move_as_a_whole():
    raw = docx(paragraph(run("around ") + box(paragraph(run("in the box"))) + run("it")))
    found = translated(raw, "docx", loud)
    expected = paragraph(run("AROUND ") + box(paragraph(run("IN THE BOX"))) + run("IT"))
    assert joined(member(found.raw, "word/document.xml")) == joined(document(expected))
    assert found.n_segments == 3


def test_boxes_around_the_text_of_a_paragraph_are_translated():
    raw = docx(paragraph(box(paragraph(run("first box"))) + run("one two") + box(paragraph(run("last box")))))
    expected = document(paragraph(box(paragraph(run("FIRST BOX"))) + run("ONE TWO") + box(paragraph(run("LAST BOX")))))
    assert joined(member(translated(raw, "docx", loud).raw, "word/document.xml")) == joined(expected)


def test_boxes_inside_boxes_are_read_in_no_time():
    n = 30
    opened, closed = "<w:p><w:r><w:txbxContent>", f"</w:txbxContent></w:r>{run('b')}</w:p>"
    raw = docx(opened * n + paragraph(run("a")) + closed * n)
    assert translated(raw, "docx", loud).n_segments == n + 1


def test_comment_ranges_and_notes_stay_with_their_words():
    start, end = '<w:commentRangeStart w:id="0"/>', '<w:commentRangeEnd w:id="0"/>'
    note = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:footnoteReference w:id="2"/></w:r>'
    raw = docx(paragraph(run("the ") + start + run("dog") + end + note + run(" runs")))
    found = member(translated(raw, "docx", loud).raw, "word/document.xml")
    assert found == document(paragraph(run("THE ") + start + run("DOG") + end + note + run(" RUNS")))


def test_headers_notes_comments_and_properties_are_read():
    kind = f"{OFFICE}.wordprocessingml"
    others = {
        name: (f"{kind}.{of_type}+xml", f"<w:x {SPACES}>{paragraph(run(f'words of {name}'))}</w:x>")
        for name, of_type in [
            ("header1", "header"),
            ("footer1", "footer"),
            ("notes", "footnotes"),
            ("talk", "comments"),
        ]
    }
    found = translated(docx("", **others), "docx", loud).raw
    for name, (_, text) in others.items():
        assert member(found, f"word/{name}.xml") == text.replace(f"words of {name}", f"WORDS OF {name.upper()}")


def test_a_table_of_contents_over_paragraphs_is_text_but_its_page_numbers_are_not():
    entry = "<w:r><w:t>The dog</w:t><w:tab/></w:r>"
    begin, end = (f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "end"))
    opened = field(' TOC \\o "1-3" ', "").removesuffix(end)
    page = field(" PAGEREF _Toc1 ", run("vi"))
    raw = docx(paragraph(opened + entry + page) + paragraph(entry + page + end))
    assert begin in opened
    found = member(translated(raw, "docx", loud).raw, "word/document.xml")
    assert found == member(raw, "word/document.xml").replace("The dog", "THE DOG")


def test_descriptions_of_pictures_are_text_unless_they_name_files():
    picture = '<w:r><w:drawing><wp:docPr id="1" name="Picture 1" descr="a big dog" title="dog.png"/></w:drawing></w:r>'
    raw = docx(paragraph(picture + run("and words")))
    found = member(translated(raw, "docx", loud).raw, "word/document.xml")
    assert found == document(paragraph(picture.replace("a big dog", "A BIG DOG") + run("AND WORDS")))


def test_tooltips_of_links_are_text_also_in_fields():
    link = run("see ") + '<w:hyperlink r:id="r1" w:tooltip="{}">' + run("{}") + "</w:hyperlink>" + run(" now")
    code = 'HYPERLINK "http://a.b" \\o &quot;{}&quot; \\t "x"'
    raw = docx(paragraph(link.format("the cat", "this")) + paragraph(field(code.format("a dog"), run("that"))))
    found = member(translated(raw, "docx", loud).raw, "word/document.xml")
    links = paragraph(link.format("THE CAT", "THIS")).replace("see", "SEE").replace("now", "NOW")
    assert found == document(links + paragraph(field(code.format("A DOG"), run("THAT"))))
    quoted = translated(raw, "docx", lambda text: text.replace("a dog", 'a "x"'))
    assert code.format(r"a \"x\"") in member(quoted.raw, "word/document.xml")


def test_code_stays():
    style = '<w:p><w:pPr><w:pStyle w:val="SourceCode"/></w:pPr>'
    raw = docx(f"{style}{run('print this')}</w:p>{paragraph(run('one'))}")
    assert translated(raw, "docx", loud).n_segments == 1


def test_another_prefix_than_the_usual_one_is_understood():
    other = document(paragraph(run("one"))).replace("w:", "ns0:").replace("xmlns:w=", "xmlns:ns0=")
    raw = zipped({"[Content_Types].xml": types({"word/document.xml": MAIN}), "word/document.xml": other})
    assert "<ns0:t>ONE</ns0:t>" in member(translated(raw, "docx", loud).raw, "word/document.xml")


_PIECES = st.sampled_from(
    [run("one"), run(" two. "), run("bold", "<w:b/>"), run(" "), LINK, DELETED, CONTROL, box(paragraph(run("boxed"))),
     field(" PAGE ", run("7")), field(" HYPERLINK x ", run("go") + run("on", "<w:i/>")), "\n  ", "<!-- x -->",
     '<w:bookmarkStart w:id="1"/>', '<w:bookmarkEnd w:id="1"/>', '<w:r><w:fldChar w:fldCharType="begin"/></w:r>',
     '<w:r><w:fldChar w:fldCharType="end"/></w:r>', '<w:r><w:fldChar w:fldCharType="separate"/></w:r>',
     "<w:r><w:tab/><w:t>x y</w:t><w:tab/></w:r>", "<w:r/>", "<w:hyperlink/>", "<w:sdt/>", "<w:r><w:t/></w:r>",
     "<w:r><w:t><![CDATA[a < b]]></w:t></w:r>", f"<w:ins>{run('ins')}{LINK}</w:ins>"]
)  # fmt: skip


@given(st.lists(st.lists(_PIECES, max_size=7), max_size=3))
def test_any_document_comes_back_and_keeps_all_but_its_text(paragraphs):
    raw = docx("".join(paragraph("".join(pieces)) for pieces in paragraphs))
    assert translated(raw, "docx").raw == raw
    found = translated(raw, "docx", loud)
    assert not [note for note in found.notes if note.kind == "left"]
    before, after = (member(each, "word/document.xml") for each in (raw, found.raw))
    assert sorted(words(after).upper()) == sorted(words(before).upper())  # deleted text leaves the middle of words


def words(text: str) -> str:
    return re.sub(r"\s+", "", re.sub(r"<!--.*?-->|</?w:[^>]*>|</?mc:[^>]*>|<!\[CDATA\[|\]\]>", "", text)).replace(
        "a<b", "a&lt;b"
    )


def test_python_docx_sees_the_same_runs_in_capitals():
    library = pytest.importorskip("docx", reason="python-docx is not installed")
    made = library.Document()
    made.core_properties.title = "my title"
    made.add_heading("the heading", 1)
    text = made.add_paragraph("one ")
    text.add_run("bold").bold = True
    text.add_run(" and ")
    text.add_run("slanted").italic = True
    made.add_table(1, 2).rows[0].cells[1].text = "in a cell"
    made.sections[0].header.paragraphs[0].text = "on each page"
    saved = io.BytesIO()
    made.save(saved)
    found = library.Document(io.BytesIO(translated(saved.getvalue(), "docx", loud).raw))
    assert found.core_properties.title == "MY TITLE"
    assert [p.text for p in found.paragraphs] == ["THE HEADING", "ONE BOLD AND SLANTED"]
    runs = [(r.text, r.bold, r.italic) for r in found.paragraphs[1].runs]
    assert runs == [("ONE ", None, None), ("BOLD", True, None), (" AND ", None, None), ("SLANTED", None, True)]
    assert found.tables[0].rows[0].cells[1].text == "IN A CELL"
    assert found.sections[0].header.paragraphs[0].text == "ON EACH PAGE"


@pytest.mark.parametrize(
    ("raw", "facts"),
    [
        (zipped({"x.txt": "text"}), ["[Content_Types].xml", "DOCX"]),
        (zipped({"[Content_Types].xml": types({})}), ["another kind of file", "DOCX"]),
        (docx("<w:p>"), ["word/document.xml", "line 2", "mismatched"]),
        (docx("").replace(b"xx", b"xx")[:200], ["zip"]),
        (zipped({"[Content_Types].xml": types({"word/document.xml": MAIN}),
                 "word/document.xml": '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>'}), ["word/document.xml", "DOCTYPE"]),
        (docx(paragraph(run("\U000ffffc"))), ["word/document.xml", "U+FFFFC"]),
    ],
)  # fmt: skip
def test_what_is_no_docx_is_refused(raw, facts):
    with pytest.raises(DataError) as caught:
        translated(raw, "docx")
    assert all(fact in str(caught.value) for fact in facts)


FRENCH = '<w:i/><w:lang w:val="fr-FR"/>'
REST = paragraph(run("the old man loves his house and the red cat very much today"))


def texts_of(raw: bytes) -> str:
    """Return the text of the main story, its paragraphs divided by bars."""
    found = member(raw, "word/document.xml").replace("</w:p>", ">|<")
    return "".join(re.findall(r">([^<>]+)<", found)).strip()


@pytest.mark.parametrize(
    ("inside", "expected", "kind", "listed"),
    [
        (
            run("he eats ") + run("bon", FRENCH) + run(" appétit", FRENCH) + run(" now"),
            "HE EATS bon appétit NOW",
            *(CHECK, "bon appétit"),
        ),
        (run("it is ") + run("bon", FRENCH) + run("."), "IT IS bon.", CHECK, "bon"),
        (run("bon appétit", FRENCH), "bon appétit", LEFT, "it is in another language"),
    ],
)
def test_text_in_another_language_stays(inside, expected, kind, listed):
    found = translated(docx(paragraph(inside) + REST), "docx", loud, src_lang="en")
    assert [(note.kind, listed in note.reason) for note in found.notes] == [(kind, True)]
    assert texts_of(found.raw) == f"{expected}|THE OLD MAN LOVES HIS HOUSE AND THE RED CAT VERY MUCH TODAY|"
    assert member(found.raw, "word/document.xml").count(f"<w:rPr>{FRENCH}</w:rPr>") == 1  # one run is enough


@pytest.mark.parametrize(
    "body",
    [
        paragraph(run("he ") + run("loves the cat", FRENCH)) + REST,  # words that the rest has, too
        paragraph(run("bon appétit", FRENCH) + run(" now")),  # most of the text has the mark
        paragraph(run("he eats ") + run("bon appétit", FRENCH.replace("fr-FR", "zxx"))) + REST,
        paragraph(run("he eats ") + run("bon appétit", FRENCH.replace("fr-FR", "en-GB"))) + REST,
    ],
)
def test_a_mark_of_a_language_that_is_probably_wrong_does_not_count(body):
    found = translated(docx(body), "docx", loud, src_lang="en")
    assert found.notes == ()
    assert texts_of(found.raw) == texts_of(found.raw).upper()
