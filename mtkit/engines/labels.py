"""The engine of a classifier: ids in, the probabilities of the labels out."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch

from mtkit.bundle import BundleFiles, load_network
from mtkit.config.decoding import DecodeConfig
from mtkit.console import log
from mtkit.data.special_ids import EOS_ID
from mtkit.engines.native import pad
from mtkit.engines.side_by_side import in_threads
from mtkit.errors import MtkitError
from mtkit.model.network import Network
from mtkit.model.quantization import quantize, supported_precision
from mtkit.runtime import bound_kernel_stores, choose_device, is_out_of_memory, set_threads

DECIMALS = 4  # of a probability
# Between batches, rounding changed the logit of the same text by up to 8e-6 (measured).
_LOGIT_ERROR = 5e-5
_Probs = npt.NDArray[np.float64]


class LabelEngine:
    """Computes the probabilities of the labels, with one network."""

    def __init__(self, model: Network, decode: DecodeConfig, device: torch.device | str = "cpu") -> None:
        """Move the model to the device, and use a copy of it that is prepared for inference."""
        self.device = torch.device(device)
        self.decode = decode
        self.n_labels = model.output.out_features
        self.model = quantize(model.to(self.device), decode.precision).eval()
        self.precision = supported_precision(decode.precision, self.device)
        if self.precision != decode.precision:
            log.warning(f"decode.precision={decode.precision}: not supported here; using {self.precision}")

    def probabilities(self, examples: Sequence[Sequence[int]]) -> _Probs:
        """Return the probability of each label (N, L), with four decimals; examples: ids without the last <end>.

        Examples of similar length share a batch. In fp32, if a probability is within rounding error of another value
        with four decimals, the example is computed again on its own: so it does not depend on the batch.
        """
        batches = list(self._batches(examples))

        def computed(batch: list[int]) -> tuple[list[int], _Probs]:
            probs = self._probabilities([examples[index] for index in batch])
            if self.precision == "fp32" and len(batch) > 1:
                for place in np.flatnonzero(_is_close_call(probs)).tolist():
                    probs[place] = self._probabilities([examples[batch[place]]])[0]
            return batch, probs

        n_at_once = min(torch.get_num_threads(), len(batches)) if self.device.type == "cpu" else 1
        done = in_threads(computed, batches, n_at_once) if n_at_once > 1 else map(computed, batches)
        probs = np.empty((len(examples), self.n_labels))
        for batch, part in done:
            probs[batch] = part
        return probs.round(DECIMALS)

    @torch.no_grad()
    def _probabilities(self, examples: Sequence[Sequence[int]]) -> _Probs:
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
        return np.asarray(logits.double().softmax(dim=1).cpu().numpy())

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


def _is_close_call(probs: _Probs) -> npt.NDArray[np.bool_]:
    """Return for which examples rounding errors could change a decimal: (N,)."""
    error = _LOGIT_ERROR * probs * (1 - probs)  # of a probability; d p / d logit = p (1 - p)
    scaled = probs * 10**DECIMALS
    return np.asarray((np.abs(scaled - np.floor(scaled) - 0.5) < error * 10**DECIMALS).any(axis=1))
