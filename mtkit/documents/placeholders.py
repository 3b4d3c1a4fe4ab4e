"""What a translation must keep exactly: variables of programs, addresses."""

_ADDRESS = r"\b(?:https?|ftp)://[^\s<>\"']*[^\s<>\"'.,;:!?)\]}]|\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b"
_BRACES = r"\$?\{\{[^{}\n]{1,80}\}\}|[$%]?\{[\w.:$@#!,<>^=+*%\[\]-]{0,60}\}|\$\([\w.]{1,60}\)"
_PERCENT = (
    r"%(?:\(\w+\)|\d+\$)?[-+#0']*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh?|ll?|[jztL])?[a-zA-Z@](?![a-z])"  # also of dates
    r"|(?<!\d)%(?:\(\w+\)|\d+\$)?[sd]"  # before a word, too: %shere%s
    r"|%L?\d{1,2}(?!\w)|%<\w+>[a-z]?|%%"  # of Qt, of Ruby
)
_OPTION = r"(?<![\w-])(?:--[a-zA-Z][\w-]*|-[a-zA-Z0-9](?![\w-]))"  # of a command, such as --help
_ARGUMENT = r"\{\s{0,9}\w{1,60}\s{0,9}(?:,\s{0,9}(?:number|date|time|spellout|ordinal|duration|list)\b[^{}\n]{0,80})?\}"
_NESTED = r"\$t\([^()\n]{1,200}\)|@(?:\.\w{1,40})?:(?:\([\w.-]{1,100}\)|\w[\w-]*(?:\.\w[\w-]*)*)"  # i18next, Vue

PROSE = (_ADDRESS, _BRACES)  # of text for people
STRINGS = (_ADDRESS, _BRACES, _PERCENT, _OPTION, _ARGUMENT, _NESTED)  # of the messages of programs
