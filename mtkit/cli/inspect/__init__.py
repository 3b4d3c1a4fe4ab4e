"""`mtkit inspect`: show what is inside a model, one file a subcommand."""
