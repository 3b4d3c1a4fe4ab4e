"""Commands that translate, and prepare a model for it."""
