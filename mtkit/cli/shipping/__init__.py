"""Commands that bring models to other programs and people."""
