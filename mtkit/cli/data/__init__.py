"""`mtkit data`: work on parallel text, one file a subcommand."""
