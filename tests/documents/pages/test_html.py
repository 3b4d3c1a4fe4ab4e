"""Pages: what is text, what is not, and that only the text changes."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from lxml import html as lxml_html
from tiny_documents import loud, loud_prose, translated

from mtkit.documents.filling import LEFT
from mtkit.documents.pages import html_tags
from mtkit.documents.reading import Options, document_of

PAGE = """<!DOCTYPE html>
<html lang=en><head><title>My page</title><meta name="description" content="about us">
<script>if (a<b) document.write("<p>x</p>")</script><style>p > b {color: red}</style></head>
<body class="x"><!-- a comment <b> -->
<p>I <b>love</b> <img src="a.png" alt='big "oranges"'> and
   tea.<br>Second line &amp; more&nbsp;text.</p>
<ul><li><a href="x" title="go there">a link</a></li><li>1.2</li></ul>
<pre>code stays</pre><p translate=no>Brand <i>name</i></p><p>Run <code>ls -l</code> now.</p>
<p>An open <b>bold<p>and <i>crossed <b>tags</i> here</b>
<input placeholder="your name" value=kept></body></html>
"""


def test_a_page_that_is_translated_into_itself_has_the_same_bytes():
    assert translated(PAGE.encode(), "html").raw == PAGE.encode()


def test_text_and_some_attributes_are_translated_and_nothing_else():
    found = translated(PAGE.encode(), "html", loud).raw.decode()
    changed = (
        PAGE.replace("My page", "MY PAGE").replace("about us", "ABOUT US").replace("I <b>love</b>", "I <b>LOVE</b>")
    )
    changed = changed.replace("""alt='big "oranges"'""", "alt='BIG &quot;ORANGES&quot;'").replace(
        "and\n   tea.", "AND TEA."
    )
    changed = changed.replace("Second line &amp; more&nbsp;text.", "SECOND LINE &amp; MORE TEXT.")
    changed = changed.replace("go there", "GO THERE").replace("a link", "A LINK").replace("your name", "YOUR NAME")
    changed = changed.replace("Run <code>ls -l</code> now.", "RUN <code>ls -l</code> NOW.")
    changed = changed.replace("An open <b>bold", "AN OPEN <b>BOLD")
    changed = changed.replace("and <i>crossed <b>tags</i> here</b>", "AND <i>CROSSED <b>TAGS</i> HERE</b>")
    assert found == changed


def test_lxml_sees_the_same_elements_before_and_after():
    before, after = (lxml_html.fromstring(raw) for raw in (PAGE.encode(), translated(PAGE.encode(), "html", loud).raw))
    assert [element.tag for element in before.iter()] == [element.tag for element in after.iter()]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "iso-8859-1", "cp1252"])
def test_a_page_keeps_its_encoding(encoding):
    declared = "" if encoding.startswith("utf") else f'<meta charset="{encoding}">'
    page = f"{declared}<p>très élégant</p>"
    raw = translated(page.encode(encoding), "html", loud).raw
    assert raw == page.replace("très élégant", "TRÈS ÉLÉGANT").encode(encoding)


_PIECES = ["<b>", "</b>", "<p>", "</p>", "<i>", "</i>", "<br>", "<img alt='a word'>", "<script>", "</script>", "<pre>",
           "</pre>", "<!-- a <b> -->", "<a title=\"b c\" href='x'>", "</a>", "word",
           "two words. And more.", "&amp;", " ", "\n", "\"", "<?x?>", "é",
           "<code>", "</code>", "<div translate=no>", "</div>", "<p translate=yes>", "<b translate='yes'>"]  # fmt: skip


_BROKEN = ["<!--", "-->", "<", ">", "<x", "<!DOCTYPE", "<b", "='", "</", "&#x110000;", "&", "]]>", "<![CDATA["]


@given(st.lists(st.sampled_from([*_PIECES, *_BROKEN]), max_size=25).map("".join))
def test_any_broken_page_comes_back(page):
    assert translated(page.encode(), "html").raw == page.encode()
    translated(page.encode(), "html", loud)


@given(st.lists(st.sampled_from(_PIECES), max_size=25).map("".join))
def test_any_page_comes_back_and_keeps_its_tags(page):
    assert translated(page.encode(), "html").raw == page.encode()
    found = translated(page.encode(), "html", loud).raw.decode()
    assert sorted(_Tags(found).found) == sorted(_Tags(page).found)


class _Tags(HTMLParser):
    """Collects the tags as Python's own parser sees them."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)

    def handle_endtag(self, tag):
        self.found.append(f"/{tag}")


def test_a_page_that_says_in_ascii_that_it_is_utf_16_is_not():
    page = "<meta charset=utf-16><p>a house</p>"
    assert translated(page.encode(), "html", loud).raw.decode() == page.replace("a house", "A HOUSE")


def test_values_without_quotes_get_them_and_buttons_are_text():
    page = """<p title=hello class=x>a</p><input type=submit value='Send it'><option label="one more">"""
    page += "<noscript>go on</noscript>"
    assert translated(page.encode(), "html").raw.decode() == page
    changed = page.replace("title=hello", 'title="HELLO"').replace(">a<", ">A<").replace("Send it", "SEND IT")
    assert translated(page.encode(), "html", loud).raw.decode() == changed.replace("one more", "ONE MORE").replace(
        "go on", "GO ON"
    )


def test_hostile_pages_take_no_deep_recursion():
    for page in (
        "<p>a</p>" + "<script>" * 1500,
        "<p>a</p>" + "<script " * 1500,
        "<b>" * 1500 + "x" + "</i>" * 1500,
        "a " + "<b>" * 1500 + "b" + "</b>" * 1500,
    ):
        assert translated(page.encode(), "html").raw.decode() == page


def test_a_comment_may_end_as_browsers_allow():
    assert translated(b"<p><!-- a --!>word</p>", "html", loud).raw == b"<p><!-- a --!>WORD</p>"


def test_identifiers_in_cells_stay():
    page = "<table><tr><td>A-12</td><td>the door</td><td>order_id</td></tr></table>"
    assert translated(page.encode(), "html", loud).raw.decode() == page.replace("the door", "THE DOOR")


XHTML = """<?xml version="1.0"?>
<!DOCTYPE html [<!-- ] > --><!ENTITY nbsp "&#160;"><!ENTITY maker "A-B"> ]>
<html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="a.js"/><style/></head><body>
<p>one&nbsp;<b/>cat of &maker;</p><p title="by &maker;" lang="en"><![CDATA[a < b]]> and <i>more</i></p><textarea/>
<script>//<![CDATA[
if (a<b) "<p>x</p>"
//]]></script><ul><li>the end</li></ul></body></html>
"""


def test_xhtml_is_read_as_xml():
    found = translated(XHTML.encode(), "html", loud)
    assert found.notes == ()
    text = found.raw.decode()
    head, before = XHTML[: XHTML.index("<p>")], XHTML[XHTML.index("<textarea/>") :]
    assert text.startswith(head)
    assert text.endswith(before.replace("the end", "THE END"))
    assert "&maker;</p>" in text
    assert '<p title="by &maker;" lang="en">A &lt; B AND <i>MORE</i></p>' in text


def test_lxml_sees_the_same_xml_before_and_after():
    parser = etree.XMLParser(resolve_entities=False)
    after = translated(XHTML.encode(), "html", loud).raw
    elements = [
        sorted((str(node.tag), sorted(node.attrib.items())) for node in etree.fromstring(raw, parser).iter("*"))
        for raw in (XHTML.encode(), after)
    ]
    assert elements[0] == elements[1]


def test_the_check_after_merging_does_not_share_the_faults_of_the_reader(monkeypatch):
    page = '<html xmlns="http://www.w3.org/1999/xhtml"><script src="a.js"/><p>the cat</p></html>'
    monkeypatch.setattr(html_tags, "_xml_tags", lambda text: iter(()))
    found = translated(page.encode(), "html", loud)
    assert found.raw.decode() == page
    assert [note.kind for note in found.notes] == [LEFT]


def test_xhtml_that_is_not_well_formed_is_read_as_html_and_the_user_learns_why():
    page = '<html xmlns="http://www.w3.org/1999/xhtml">\n<p>the cat & dog</html>'
    document = document_of(page.encode(), "html", Options())
    [remark] = document.remarks
    assert all(fact in remark for fact in ["line 2", "XML", "HTML"])
    assert "THE CAT &amp; DOG" in translated(page.encode(), "html", loud).raw.decode()


@pytest.mark.parametrize(
    "page",
    [
        '<p {% if a > b %}class="x"{% endif %}>the cat</p>',
        "<{{ tag }}>the cat</{{ tag }}>",
        '<p title="{{ t }}">the cat {{ a && b > c }}</p>',
        "<p>the cat <?= h($x->y) ?> runs <% if x > y %>now<% end %></p>",
        '<?php if ($a > $b) { echo "<p>no</p>"; } ?><p>the cat</p><?php echo "no',
        '<p>{% trans "No. No." %} the cat {# no #} {{#if x}}runs{{/if}} {{> part }}</p>',
        "<p>the cat {%\n  no\n%} runs</p>",
        "<p>the *|NO|* cat [[no]] %%no%% #{no} $no$ __no__ [no] :no ${no} {{{no}}} {0} %{no}</p>",
        "<!-- <script> no --><p>the cat</p>",
        "<!--[if mso]><p>no</p><![endif]--><p>the cat</p><![if !mso]><p>runs</p><![endif]>",
        '<!DOCTYPE html [<!ENTITY no "no > no">]><p>the cat & dog</p>',
        "<p>the cat &lt;%= no %&gt; runs {{ no && no }}</p>",
        "<template><p>the cat</p></template><object>runs</object><noscript>now</noscript>",
        "<script src=no /><p>no</p></script><p>the cat</p>",
        "<textarea>no <b> no</textarea><iframe><p>no</p></iframe><p>the cat</p>",
        "<p>the <svg><style>no</style><title>cat</title><g><text x=1>runs <tspan>now</tspan></text></g></svg></p>",
        "<svg translate=no><text>no</text></svg><math><mi>no</mi><mtext>the cat</mtext></math>",
        '<p>the <a href=no/>cat</a> runs <img src=no alt="now"/></p>',
    ],
)
def test_only_language_is_translated(page):
    found = translated(page.encode(), "html", loud_prose)
    wanted = re.sub(r"\b(?:the|cat|runs|now|dog)\b", lambda word: word[0].upper(), page)
    assert found.raw.decode() == wanted.replace("CAT & DOG", "CAT &amp; DOG")
    assert found.notes == ()


@pytest.mark.parametrize("page", ['<p title="<b>big</b> text">a cat</p>', "<p>&#123;{ a() }} b</p><p>a cat</p>"])
def test_a_tag_in_an_attribute_and_template_code_that_would_come_to_life_are_refused(page):
    found = translated(page.encode(), "html", loud)
    assert found.raw.decode() == page.replace("a cat", "A CAT")
    assert [note.kind for note in found.notes] == [LEFT]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("a cat<sup>1</sup>, a dog", "A CAT<sup>1</sup>, A DOG"),
        ("a cat.<sup><a href='#n'>[2]</a></sup> A dog", "A CAT.<sup><a href='#n'>[2]</a></sup> A DOG"),
        ("a cat <a href='x.html#n'>3</a> and", "A CAT <a href='x.html#n'>3</a> AND"),
        ("a cat (<a href='#n'>12</a>), a dog", "A CAT (<a href='#n'>12</a>), A DOG"),
        ("a cat<a role='doc-noteref' href='x'>*</a>.", "A CAT<a role='doc-noteref' href='x'>*</a>."),
        ("a cat<sup>a</sup> and", "A CAT<sup>a</sup> AND"),
        ("a cat <sup>2</sup>dog", "A CAT <sup>2</sup>DOG"),
        ("a cat, <b>5</b> dogs", "A CAT, <b>5</b> DOGS"),
        (
            "<ruby>a cat<rp>(</rp><rt>neko</rt><rp>)</rp></ruby> runs",
            "<ruby>A CAT<rp>(</rp><rt>neko</rt><rp>)</rp></ruby> RUNS",
        ),
        ("<ruby>a<rt>x</rt> b<rt>y</ruby> runs", "<ruby>A<rt>x</rt> B<rt>y</ruby> RUNS"),
        ("<b>A cat runs!</b> A dog", "<b>A CAT RUNS!</b> A DOG"),
    ],
)
def test_marks_of_notes_and_readings_stay_behind_their_words(page, expected):
    for around in ("<p>{}</p>", "<p>Hi. {} now</p>"):
        found = translated(around.format(page).encode(), "html", loud).raw.decode()
        assert found == around.replace("Hi", "HI").replace("now", "NOW").format(expected)


@pytest.mark.parametrize("exponent", ["2", "-3", "&minus;6", "2+", "+", "1.5", "1,2", "3–5, 8", "®"])
def test_an_exponent_stays_and_the_translator_does_not_read_it(exponent):
    seen = []
    page = f"<p>so<sup>{exponent}</sup> on</p>".encode()
    found = translated(page, "html", lambda text: seen.append(text) or "i tak")
    assert (seen, found.raw) == (["so on"], f"<p>i<sup>{exponent}</sup> tak</p>".encode())


def test_text_that_stays_is_counted():
    page = "<pre>a b</pre><pre>1</pre><p>a</p><textarea>c</textarea><pre translate=no>d</pre><!--[if mso]>e<![endif]-->"
    [remark] = document_of(page.encode(), "html", Options()).remarks
    assert all(part in remark for part in ["1 <pre>", "1 <textarea>", "1 conditional comment"])
    assert document_of(b"<p>a</p><pre>1</pre>", "html", Options()).remarks == []
    [remark] = document_of(b"<p>a</p>\n<script>b<p>c</p>", "html", Options()).remarks
    assert all(fact in remark for fact in ["line 2", "script"])


def test_a_custom_element_in_a_sentence_is_part_of_it_and_one_around_blocks_is_not():
    page = "<p>a <my-link>cat</my-link> runs</p><my-card><my-title>a dog</my-title><p>b</p></my-card>"
    page += "c <my-box><p>d</p></my-box>"
    document = document_of(page.encode(), "html", Options())
    [part] = document.parts
    assert [segment.inline.text for segment in part.reading.all_segments] == ["a cat runs", "a dog", "b", "c", "d"]


def test_blade_directives_and_values_stay():
    page = """<p>@if ($user->age > 3)</p>
<p>the cat</p>
@endif
@foreach ($users as $user)
  <p>it is {!! $user->cat !!} and {{ $user->name }} <b @class(['a' => $b])>now</b></p>
@endforeach
@include('shared.errors', ['a b' => f($c)])
<p>go to @home @
"""
    wanted = page.replace("the cat", "THE CAT").replace("it is", "IT IS").replace("} and {", "} AND {")
    wanted = wanted.replace("now", "NOW").replace("go to", "GO TO")
    assert translated(page.encode(), "html", loud_prose).raw.decode() == wanted


@pytest.mark.parametrize(
    ("page", "wanted"),  # W3C, Internationalization Tag Set 2.0, section 8.1, and HTML, section 3.2.6.2
    [
        ("<div translate=no>a <p translate=yes>b <i>c</i></p> d <img alt=e></div>f", "b c f"),
        ("<p>a <b translate='no'>b <i translate=''>c</i> d</b> e", "a c e"),
        ("<p translate='NO' title='a b'>c <b translate=yes title='d e'>f</b></p>", "d e f"),
        ("<div translate=no><div translate=yes><p translate=no>a</p><p>b</p></div>c</div>d", "b d"),
        ("<p>a <code translate=yes>b</code> <code>c</code>", "a b"),
        ("<p class='x notranslate'>a</p><p class=notranslate>b</p><p class=notranslate-x>c</p>", "c"),
        ("<p class=notranslate translate=yes>a</p><p translate=maybe>b</p><p translate=no-x>c</p>", "a b c"),
        ("<script translate=yes>a</script><svg translate=no><text>b</text></svg><p>c", "c"),
        ("<p translate=no>a <br> <b translate=yes>b <b translate=no>c <b translate=yes>d</b></b></b></p>", "b d"),
    ],
)
def test_what_is_to_be_translated_is_inherited(page, wanted):
    assert translated(page.encode(), "html").raw.decode() == page
    found = translated(page.encode(), "html", loud).raw.decode()
    assert found.lower().replace('"', "'") == page.lower().replace('"', "'")
    outside = re.sub("translate='NO'", "", found)
    assert sorted(re.findall(r"\b[A-Z]\b", outside)) == wanted.upper().split()
