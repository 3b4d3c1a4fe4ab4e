"""Commands that train models, and make text to train on."""
