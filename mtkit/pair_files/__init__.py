"""File formats of parallel text, one module per format, and the lines of text files."""
