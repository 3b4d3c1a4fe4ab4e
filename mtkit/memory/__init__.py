"""Translation memory: sentences with their translations, and a search for those that nearly equal another sentence."""
