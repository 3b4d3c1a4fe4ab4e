"""mtkit's version, in a module of its own: whoever reads it needs nothing else of the package."""

__version__ = "0.1.0"
