"""Commands that translate, or prepare a model for translation."""
