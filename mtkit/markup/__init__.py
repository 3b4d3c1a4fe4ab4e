"""XML of any source: read safely by expat, and as tokens with their offsets."""
