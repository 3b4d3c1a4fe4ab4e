"""Which part of a text is an address."""

import pytest

from mtkit.text.addresses import addresses_in, without_addresses
from mtkit.text.placeholders import placeholder_pattern


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org/a_b?q=1,5&r=2#x",
        "HTTP://EXAMPLE.ORG",
        "www.हिन्दी",
        "ftp://example.org/pub/",
        "https://en.wikipedia.org/wiki/Orange_(fruit)",
        "https://example.org/users/{id}",
        "http://[::1]:8080/",
        "www.example.org/x.html",
        "example.com",
        "Booking.com",
        "bbc.co.uk/news",
        "jane.doe+news@example.co.uk",
        "jürgen@bücher.de",
        "почта@пример.рф",
        r"C:\new\red.txt",
    ],
)
@pytest.mark.parametrize("frame", ["See {}.", "({}), please", "“{}”!", "{}'da", "请看{}。", "在{}上", "«{}»"])
def test_an_address_ends_before_marks_and_letters_of_other_scripts(address, frame):
    text = frame.format(address)
    assert addresses_in(text) == [address]
    assert placeholder_pattern().findall(text) == [address]  # a document keeps it exactly
    assert without_addresses(text) == frame.format(" ")


@pytest.mark.parametrize(
    "text",
    ["He came e.g. on Monday.", "It is my house.It rains.", "at 3.50", "a@b", "user@", "://", r"Plan B:\nGo", r"B:\n"],
)
def test_other_text_with_marks_is_not_an_address(text):
    assert addresses_in(text) == []
