"""Commands that judge translations and models."""
