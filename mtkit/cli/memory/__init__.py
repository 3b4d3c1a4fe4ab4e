"""The commands of `mtkit memory`: translation memories."""
