"""What a translation must keep exactly: variables of programs, addresses."""

_ADDRESS = r"\b(?:https?|ftp)://[^\s<>\"']*[^\s<>\"'.,;:!?)\]}]|\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b"
_BRACES = r"\$?\{\{[^{}\n]{1,80}\}\}|[$%]?\{[\w.:$@#!,<>^=+*%\[\]-]{0,60}\}|\$\([\w.]{1,60}\)"
_PERCENT = (
    r"%(?:\(\w+\)|\d+\$)?[-+#0']*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh?|ll?|[jztL])?[a-zA-Z@](?![a-z])"  # also of dates
    r"|(?<!\d)%(?:\(\w+\)|\d+\$)?[sd]"  # before a word, too: %shere%s
    r"|%L?\d{1,2}(?!\w)|%<\w+>[a-z]?|%%"  # of Qt, of Ruby
)
_OPTION = r"(?<![\w-])(?:--[a-zA-Z][\w-]*|-[a-zA-Z0-9](?![\w-]))"  # of a command, such as --help

PROSE = (_ADDRESS, _BRACES)  # of text for people
STRINGS = (_ADDRESS, _BRACES, _PERCENT, _OPTION)  # of the messages of programs
