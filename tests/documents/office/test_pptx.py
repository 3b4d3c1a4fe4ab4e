"""PPTX: paragraphs of slides, notes, tables and charts; python-pptx reads what comes out."""

import io

import pytest
from tiny_archives import OFFICE, A, member, types, zipped
from tiny_documents import loud, translated

from mtkit.documents.filling import CHECK, LEFT
from mtkit.errors import DataError

MAIN = f"{OFFICE}.presentationml.presentation.main+xml"
SPACES = (
    f'xmlns:a="{A}" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"'
)


def pptx(**members: tuple[str, str]) -> bytes:
    """Return a presentation. members: the kinds and the contents of members of the folder ppt."""
    overrides = {"ppt/presentation.xml": MAIN} | {
        f"ppt/{name}.xml": f"{OFFICE}.{kind}+xml" for name, (kind, _) in members.items()
    }
    texts = {f"ppt/{name}.xml": f"<x {SPACES}>{text}</x>" for name, (_, text) in members.items()}
    return zipped({"[Content_Types].xml": types(overrides), "ppt/presentation.xml": f"<p:x {SPACES}/>"} | texts)


def changed(kind: str, text: str) -> str:
    """Return the content of a member whose text is in capitals."""
    raw = pptx(one=(kind, text))
    assert translated(raw, "pptx").raw == raw
    found = member(translated(raw, "pptx", loud).raw, "ppt/one.xml")
    return found.removeprefix(f"<x {SPACES}>").removesuffix("</x>")


SLIDE = "presentationml.slide"
LINK = '<a:rPr><a:hlinkClick action="{}" tooltip="{}"/></a:rPr>'
LOWERED = '<a:rPr baseline="-25000"/>'
RAISED = '<a:r><a:rPr baseline="30000"/><a:t>1</a:t></a:r>'
BOLD = '<a:rPr lang="en-US" b="1"/>'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<a:p><a:pPr/><a:r><a:rPr lang="en-US" dirty="0"/><a:t>one </a:t></a:r><a:r><a:t>two</a:t></a:r></a:p>',
         '<a:p><a:pPr/><a:r><a:rPr lang="en-US" dirty="0"/><a:t>ONE TWO</a:t></a:r></a:p>'),
        (f"<a:p><a:r><a:t>one </a:t></a:r><a:r>{BOLD}<a:t>two</a:t></a:r><a:endParaRPr/></a:p>",
         f"<a:p><a:r><a:t>ONE </a:t></a:r><a:r>{BOLD}<a:t>TWO</a:t></a:r><a:endParaRPr/></a:p>"),
        (f"<a:p><a:pPr/><a:r><a:t>one </a:t></a:r><a:pPr/><a:r>{BOLD}<a:t>two</a:t></a:r></a:p>",
         f"<a:p><a:pPr/><a:r><a:t>ONE </a:t></a:r><a:pPr/><a:r>{BOLD}<a:t>TWO</a:t></a:r></a:p>"),
        ("<a:p><a:r><a:t>one</a:t></a:r><a:br><a:rPr/></a:br><a:r><a:t>two</a:t></a:r></a:p>",
         "<a:p><a:r><a:t>ONE</a:t></a:r><a:br><a:rPr/></a:br><a:r><a:t>TWO</a:t></a:r></a:p>"),
        ('<a:p><a:r><a:t>at </a:t></a:r><a:fld type="slidenum"><a:t>one</a:t></a:fld></a:p>',
         '<a:p><a:r><a:t>AT </a:t></a:r><a:fld type="slidenum"><a:t>one</a:t></a:fld></a:p>'),
        (f"<a:p><a:r><a:t>so</a:t></a:r>{RAISED}<a:r><a:t> on</a:t></a:r></a:p>",
         f"<a:p><a:r><a:t>SO</a:t></a:r>{RAISED}<a:r><a:t> ON</a:t></a:r></a:p>"),
        (f"<a:p><a:r>{LINK.format('1', 'a cat')}<a:t>o</a:t></a:r><a:r>{LINK.format('1', 'a cat')}<a:t>ne</a:t></a:r>"
         f"<a:r>{LINK.format('1', 'a dog')}<a:t> two</a:t></a:r></a:p>",
         f"<a:p><a:r>{LINK.format('1', 'A CAT')}<a:t>ONE </a:t></a:r>"
         f"<a:r>{LINK.format('1', 'A DOG')}<a:t>TWO</a:t></a:r></a:p>"),
        ('<p:cNvPr id="1" name="no"><a:hlinkHover tooltip="a cat"/></p:cNvPr>',
         '<p:cNvPr id="1" name="no"><a:hlinkHover tooltip="A CAT"/></p:cNvPr>'),
        (f"<a:p><a:r><a:t>a H</a:t></a:r><a:r>{LOWERED}<a:t>2</a:t></a:r><a:r><a:t>O b</a:t></a:r></a:p>",
         f"<a:p><a:r><a:t>A H</a:t></a:r><a:r>{LOWERED}<a:t>2</a:t></a:r><a:r><a:t>O B</a:t></a:r></a:p>"),
        ('<p:cNvPr id="1" name="Image" descr="a cat"/><a:p/>', '<p:cNvPr id="1" name="Image" descr="A CAT"/><a:p/>'),
    ],
)  # fmt: skip
def test_only_text_changes(text, expected):
    assert changed(SLIDE, text) == expected


def test_text_in_another_language_stays_and_is_listed():
    rest = "<a:p><a:r><a:t>the old man loves his house and the red cat</a:t></a:r></a:p>"
    french = '<a:r><a:rPr lang="fr-FR"/><a:t>bon appétit</a:t></a:r>'
    text = f"<a:p><a:r><a:t>he eats </a:t></a:r>{french}<a:r><a:t> now</a:t></a:r></a:p><a:p>{french}</a:p>{rest}"
    found = translated(pptx(one=(SLIDE, text)), "pptx", loud, src_lang="en")
    upper = text.replace("he eats", "HE EATS").replace("now", "NOW")
    wanted = upper.replace("the old man loves his house and the red cat", "THE OLD MAN LOVES HIS HOUSE AND THE RED CAT")
    assert member(found.raw, "ppt/one.xml") == f"<x {SPACES}>{wanted}</x>"
    assert [note.kind for note in found.notes] == [CHECK, LEFT]


@pytest.mark.parametrize(
    "label",
    [
        "<c:strRef><c:f>Sheet1!A1</c:f><c:strCache><c:pt><c:v>cats</c:v></c:pt></c:strCache></c:strRef>",
        "<c:multiLvlStrCache><c:lvl><c:pt><c:v>cats</c:v></c:pt></c:lvl></c:multiLvlStrCache>",
        "<c:cat><c:strLit><c:pt><c:v>cats</c:v></c:pt></c:strLit></c:cat>",
        "<c:ser><c:tx><c:v>cats</c:v></c:tx></c:ser>",
    ],
)
def test_labels_of_charts_are_text_and_numbers_and_formulas_are_not(label):
    text = f"{label}<c:numCache><c:v>one</c:v></c:numCache><c:numLit><c:pt><c:v>two</c:v></c:pt></c:numLit>"
    assert changed("drawingml.chart", text) == text.replace("cats", "CATS")


def test_of_layouts_only_what_shows_is_text():
    shown, hidden = (
        "<p:sp><a:p><a:r><a:t>us</a:t></a:r></a:p></p:sp>",
        "<p:sp><p:ph/><a:p><a:r><a:t>x y</a:t></a:r></a:p></p:sp>",
    )
    assert changed("presentationml.slideLayout", hidden + shown) == hidden + shown.replace("us", "US")


def test_python_pptx_sees_the_same_slide_in_capitals():
    library = pytest.importorskip("pptx", reason="python-pptx is not installed")
    made = library.Presentation()
    slide = made.slides.add_slide(made.slide_layouts[1])
    slide.shapes.title.text = "the title"
    text = slide.placeholders[1].text_frame.paragraphs[0]
    text.add_run().text = "one more "
    bold = text.add_run()
    bold.text, bold.font.bold = "bold", True
    slide.notes_slide.notes_text_frame.text = "say this"
    table = slide.shapes.add_table(1, 2, 0, 0, 9999, 9999).table
    table.cell(0, 1).text = "in a cell"
    saved = io.BytesIO()
    made.save(saved)
    found = library.Presentation(io.BytesIO(translated(saved.getvalue(), "pptx", loud).raw)).slides[0]
    assert found.shapes.title.text == "THE TITLE"
    assert [(r.text, r.font.bold) for r in found.placeholders[1].text_frame.paragraphs[0].runs] == [
        ("ONE MORE ", None),
        ("BOLD", True),
    ]
    assert found.notes_slide.notes_text_frame.text == "SAY THIS"
    assert next(s for s in found.shapes if s.has_table).table.cell(0, 1).text == "IN A CELL"


def test_another_office_document_is_refused():
    raw = zipped({"[Content_Types].xml": types({"a.xml": f"{OFFICE}.spreadsheetml.sheet.main+xml"}), "a.xml": "<a/>"})
    with pytest.raises(DataError, match="another kind of file than PPTX"):
        translated(raw, "pptx")
