"""What makes hypotheses of different lengths comparable. Every engine ranks by this; nothing here needs torch."""


def length_divisor(normalization: str, alpha: float, n_tokens: int) -> float:
    """What a sum of n_tokens log-probabilities, EOS counted, is divided by; it never falls as n_tokens grows.

    gnmt: ((5 + n) / 6)^alpha (Wu et al. 2016, eq. 14); average: n; none: 1.
    """
    if normalization == "gnmt":
        return float(((5 + n_tokens) / 6) ** alpha)
    return float(n_tokens) if normalization == "average" else 1.0
