"""Commands that make models available to other programs and people."""
