"""XLSX: texts of cells; openpyxl reads what comes out."""

import io

import pytest
from tiny_archives import OFFICE, X, member, types, zipped
from tiny_documents import loud, translated

KIND = f"{OFFICE}.spreadsheetml"


def xlsx(strings: str = "", sheet: str = "", **others: tuple[str, str]) -> bytes:
    """Return a workbook. others: the kinds and the texts of further members of the folder xl."""
    members = {
        "xl/workbook.xml": (f"{KIND}.sheet.main+xml", f'<workbook xmlns="{X}"/>'),
        "xl/sharedStrings.xml": (f"{KIND}.sharedStrings+xml", f'<sst xmlns="{X}" count="1">{strings}</sst>'),
        "xl/worksheets/sheet1.xml": (f"{KIND}.worksheet+xml", f'<worksheet xmlns="{X}">{sheet}</worksheet>'),
    } | {f"xl/{name}.xml": (f"{KIND}.{kind}+xml", text) for name, (kind, text) in others.items()}
    overrides = {name: kind for name, (kind, _) in members.items()}
    return zipped({"[Content_Types].xml": types(overrides)} | {name: text for name, (_, text) in members.items()})


def strings_of(raw: bytes) -> str:
    assert translated(raw, "xlsx").raw == raw
    found = member(translated(raw, "xlsx", loud).raw, "xl/sharedStrings.xml")
    return found.partition(">")[2].removesuffix("</sst>")


BOLD = "<r><rPr><b/></rPr><t>two</t></r>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<si><t>one</t></si><si><t>12</t></si>", "<si><t>ONE</t></si><si><t>12</t></si>"),
        ('<si><t xml:space="preserve">one </t></si>', '<si><t xml:space="preserve">ONE </t></si>'),
        (f'<si><r><t xml:space="preserve">one </t></r>{BOLD}</si>',
         f'<si><r><t xml:space="preserve">ONE </t></r>{BOLD.replace("two", "TWO")}</si>'),
        ("<si><t>A-12</t></si><si><t>one</t></si>", "<si><t>A-12</t></si><si><t>ONE</t></si>"),
        ("<si><t>one\ntwo</t></si>", "<si><t>ONE\nTWO</t></si>"),
        ("<si><t>one</t><rPh><t>x y</t></rPh></si>", "<si><t>ONE</t><rPh><t>x y</t></rPh></si>"),
    ],
)  # fmt: skip
def test_shared_strings_change_in_their_texts_alone(text, expected):
    assert strings_of(xlsx(text)) == expected


@pytest.mark.parametrize(
    ("sheet", "others"),
    [
        ('<c r="A1"><f>IF(B1="Yes",1,0)</f><v>1</v></c>', {}),
        ('<dataValidation type="list"><formula1>"yes,no"</formula1></dataValidation>', {}),
        ('<filterColumn><filters><filter val="Yes"/></filters></filterColumn>', {}),
        ("", {"tables/table1": ("table", f'<table xmlns="{X}"><tableColumn id="1" name="Yes"/></table>')}),
    ],
)
def test_a_text_by_which_formulas_filters_or_tables_find_cells_stays(sheet, others):
    text = "<si><t>Yes</t></si><si><t>Yes, we can</t></si>"
    assert strings_of(xlsx(text, sheet, **others)) == text.replace("Yes, we can", "YES, WE CAN")


def test_texts_in_sheets_change_and_results_of_formulas_do_not():
    sheet = (
        '<c r="A1" t="inlineStr"><is><t>one</t></is></c><c r="A2" t="str"><f>A1</f><v>one</v></c>'
        '<dataValidation prompt="fill this in" promptTitle="12"/>'
    )
    raw = xlsx("", sheet)
    assert translated(raw, "xlsx").raw == raw
    found = member(translated(raw, "xlsx", loud).raw, "xl/worksheets/sheet1.xml")
    assert sheet.replace("<t>one", "<t>ONE").replace("fill this in", "FILL THIS IN") in found


def test_a_cell_that_holds_its_own_text_changes_unless_a_formula_refers_to_it():
    sheet = (
        '<c r="A1" t="str"><v xml:space="preserve"> one &amp; two</v></c><c r="A2" t="str"><v>Yes</v></c>'
        '<c r="A3" t="str"><f>IF(A2="Yes","one","no")</f><v>one</v></c><c r="A4" t="str"><v/></c>'
    )
    raw = xlsx("", sheet)
    assert translated(raw, "xlsx").raw == raw
    found = translated(raw, "xlsx", loud)
    assert sheet.replace("one &amp; two", "ONE &amp; TWO") in member(found.raw, "xl/worksheets/sheet1.xml")
    assert found.n_segments == 1


def test_headers_of_pages_change_between_their_codes():
    header = '&amp;L&amp;"Arial,Bold"&amp;12one &amp;D two&amp;&amp;three&amp;CPage &amp;P of &amp;N&amp;R&amp;F'
    sheet = f"<headerFooter><oddHeader>{header}</oddHeader><evenFooter>plain</evenFooter></headerFooter>"
    raw = xlsx("", sheet)
    assert translated(raw, "xlsx").raw == raw
    found = member(translated(raw, "xlsx", loud).raw, "xl/worksheets/sheet1.xml")
    loud_header = header.replace("one", "ONE").replace("two", "TWO").replace("three", "THREE")
    loud_header = loud_header.replace("Page", "PAGE").replace(" of ", " OF ")
    assert sheet.replace(header, loud_header).replace("plain", "PLAIN") in found


def test_comments_change():
    text = (
        f'<comments xmlns="{X}"><authors><author>me</author></authors><text><r><t>look here</t></r></text></comments>'
    )
    raw = xlsx("", comments1=("comments", text))
    found = member(translated(raw, "xlsx", loud).raw, "xl/comments1.xml")
    assert found == text.replace("look here", "LOOK HERE")


def test_openpyxl_sees_the_same_cells_in_capitals():
    library = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    made = library.Workbook()
    made.active.title = "my sheet"
    rows = [["a cat", 12, None], ["a dog", "=A1", True]]
    for row in rows:
        made.active.append(row)
    saved = io.BytesIO()
    made.save(saved)
    found = library.load_workbook(io.BytesIO(translated(saved.getvalue(), "xlsx", loud).raw))
    assert found.sheetnames == ["my sheet"]
    assert [list(row) for row in found.active.values] == [["A CAT", 12, None], ["A DOG", "=A1", True]]
