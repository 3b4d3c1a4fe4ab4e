"""Check the regular expressions of `data.placeholders`."""


def check_pattern(pattern: str) -> str:
    """Return the pattern; raise ValueError if it is no regular expression, or matches where there is no text."""
    import regex  # here: few configs need it

    try:
        compiled = regex.compile(pattern)
    except (regex.error, OverflowError, RecursionError) as error:
        raise ValueError(
            f"{pattern!r} is not a regular expression ({error}); write \\ before a character that stands for itself, "
            "and single quotes around the whole"
        ) from None
    if compiled.search("") or compiled.fullmatch(""):
        raise ValueError(f"{pattern!r} also matches the empty text; let it match at least one character")
    return pattern
