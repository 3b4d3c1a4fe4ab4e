"""What a translation must keep exactly: variables of programs, addresses."""

_ADDRESS = r"\b(?:https?|ftp)://[^\s<>\"']*[^\s<>\"'.,;:!?)\]}]|\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b"
_BRACES = r"\$?\{\{[^{}\n]{1,80}\}\}|\$?\{[\w.:$@#-]{0,60}\}|\$\([\w.]{1,60}\)"
_PERCENT = r"%(?:\(\w+\)|\d+\$)?[-+#0]*\d*(?:\.\d+)?(?:hh?|ll?|[jztL])?[diouxXeEfFgGcsrpaA@](?![a-z])|%%"

PROSE = (_ADDRESS, _BRACES)  # of text for people
STRINGS = (_ADDRESS, _BRACES, _PERCENT)  # of the messages of programs
