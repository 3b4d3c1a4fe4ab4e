"""`mtkit inspect`: pictures and figures of what is inside a model, one file a subcommand."""
