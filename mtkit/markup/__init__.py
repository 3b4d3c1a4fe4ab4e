"""Read XML from any source safely with expat, and as tokens with their offsets."""
