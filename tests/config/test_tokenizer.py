"""The normalisation rule of each side, where the config does not set it."""

import pytest

from mtkit.config.tokenizer import TokenizersConfig


@pytest.mark.parametrize(
    ("section", "rules"),
    [
        ({}, ("nfc_forms", "nfc")),
        ({"shared": True}, ("nfc", "nfc")),
        ({"shared": True, "src": {"normalization": "nfc_forms"}}, ("nfc", "nfc")),  # the target needs its characters
        ({"shared": True, "src": {"normalization": "nmt_nfkc"}}, ("nmt_nfkc", "nfc")),
        ({"src": {"vocab_size": 300}}, ("nfc_forms", "nfc")),
        ({"src": {"normalization": "identity"}, "tgt": {"normalization": "nfkc"}}, ("identity", "nfkc")),
    ],
)
def test_only_a_source_alone_folds_the_forms_of_letters(section, rules):
    cfg = TokenizersConfig.model_validate(section).with_source_rule()
    assert (cfg.src.normalization, cfg.tgt.normalization) == rules
