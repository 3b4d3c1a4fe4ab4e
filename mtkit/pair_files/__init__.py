"""File formats of parallel text, one a module, and the lines of text files."""
