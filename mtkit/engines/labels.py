"""The engine of a classifier: it computes labels and their probabilities from token ids."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from mtkit.bundle import BundleFiles, load_network
from mtkit.config.decoding import DecodeConfig
from mtkit.console import log
from mtkit.engines.native import pad
from mtkit.engines.side_by_side import in_threads
from mtkit.errors import MtkitError
from mtkit.model.network import Network
from mtkit.model.quantization import quantize, supported_precision
from mtkit.runtime import bound_kernel_stores, choose_device, is_out_of_memory, set_threads
from mtkit.tokens.special_ids import EOS_ID

DECIMALS = 4  # of a probability
# Of the difference of two logits, relative to the largest such difference. Batches of other sizes changed it by up to
# 9e-7 (measured with 2 and 6 layers, d_model 128 to 512, 3 to 1,000 labels).
_ROUNDING = 2e-6
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Decisions:
    """The labels of N examples."""

    best: npt.NDArray[np.int64]  # (N,): the index of the likeliest label
    probs: _Floats  # (N, L), with four decimals


class LabelEngine:
    """Predicts labels with one network."""

    def __init__(self, model: Network, decode: DecodeConfig, device: torch.device | str = "cpu") -> None:
        """Move the model to the device, and use a copy of it that is prepared for inference."""
        self.device = torch.device(device)
        self.decode = decode
        self.n_labels = model.output.out_features
        wanted = decode.exact_precision
        self.precision = supported_precision(wanted, self.device)
        self.model = quantize(model.to(self.device), self.precision).eval()
        if self.precision != wanted:
            log.warning(f"decode.precision={decode.precision}: not supported here; using {self.precision}")

    def decide(self, examples: Sequence[Sequence[int]]) -> Decisions:
        """Return the labels of N examples: ids without the last <end>.

        Examples of similar length share a batch. In fp32, if the label, or its probability with four decimals, is
        within rounding error of another one, the example is computed again on its own: so neither depends on the batch.
        The probability of another label may, by 0.0001: with hundreds of labels, one of them nearly always is so close.
        """
        batches = list(self._batches(examples))

        def computed(batch: list[int]) -> tuple[list[int], _Floats]:
            logits = self._logits([examples[index] for index in batch])
            if self.precision == "fp32" and len(batch) > 1:
                for place in np.flatnonzero(_is_close_call(logits)).tolist():
                    logits[place] = self._logits([examples[batch[place]]])[0]
            return batch, logits

        n_at_once = min(torch.get_num_threads(), len(batches)) if self.device.type == "cpu" else 1
        done = in_threads(computed, batches, n_at_once) if n_at_once > 1 else map(computed, batches)
        logits = np.empty((len(examples), self.n_labels))
        for batch, part in done:
            logits[batch] = part
        return Decisions(logits.argmax(axis=1), _softmax(logits).round(DECIMALS))

    @torch.no_grad()
    def _logits(self, examples: Sequence[Sequence[int]]) -> _Floats:
        """Return the labels' logits (N, L)."""
        src = pad([[*ids, EOS_ID] for ids in examples]).to(self.device)
        try:
            logits = self.model(src, src[:, :1])[:, 0]
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise MtkitError(
                f"{self.device}: not enough memory for a batch of {len(examples)} texts of up to {src.size(1)} tokens; "
                f"lower decode.batch_tokens={self.decode.batch_tokens}"
            ) from error
        return np.asarray(logits.double().cpu().numpy())

    def _batches(self, examples: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Yield the indices of examples of like length, within decode.batch_tokens; shortest first."""
        batch: list[int] = []
        for index in sorted(range(len(examples)), key=lambda index: len(examples[index])):
            if batch and (1 + len(batch)) * (1 + len(examples[index])) > self.decode.batch_tokens:
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch


def label_engine(files: BundleFiles, device: str, threads: int | None) -> LabelEngine:
    """Return the engine over a bundle's classifier."""
    set_threads(threads)
    bound_kernel_stores(torch.get_num_threads())
    return LabelEngine(load_network(files), files.config.decode, choose_device(device))


def _is_close_call(logits: _Floats) -> npt.NDArray[np.bool_]:
    """Return for which examples rounding errors could change the label, or a decimal of its probability: (N,)."""
    error = _ROUNDING * np.ptp(logits, axis=1)
    second, first = np.partition(logits, -2, axis=1)[:, -2:].T
    prob = _softmax(logits).max(axis=1)
    scaled = prob * 10**DECIMALS
    to_next_decimal = np.abs(scaled - np.floor(scaled) - 0.5)
    of_scaled = error * prob * (1 - prob) * 10**DECIMALS  # d p / d log-odds = p (1 - p)
    return np.asarray((first - second < error) | (to_next_decimal < of_scaled))


def _softmax(logits: _Floats) -> _Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
