"""Train the tokenizers of a run before the run itself."""

import time

from mtkit.config.schema import Config
from mtkit.console import log
from mtkit.distributed.communicator import ALONE
from mtkit.files import locked
from mtkit.runs.folder import with_its_choices
from mtkit.tokens.tokenizer import Tokenizer
from mtkit.training.preparation import run_tokenizers, warm_start
from mtkit.training.preparation.choices import choose_learning, choose_pieces
from mtkit.training.update.checkpoint import Checkpoints


def make_tokenizers(cfg: Config) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers that training with cfg would have; train them if the run has none.

    Raises MtkitError as `train` does.
    """
    since, run_dir = time.monotonic(), cfg.run_dir
    if run_dir is None:
        raise ValueError("cfg.run_dir is not set")
    with locked(run_dir):
        if cfg.train.init_from is not None:
            return warm_start.run_tokenizers(cfg, run_dir)
        if Checkpoints(run_dir / "checkpoints").exist():
            cfg = with_its_choices(cfg, started=True)
        else:
            reasons: dict[str, str] = {}
            cfg = choose_pieces(choose_learning(cfg, {}), run_dir, since, ALONE, reasons)
            for key, what in reasons.items():
                log.info(f"{key}: {what}")
        return run_tokenizers.train_tokenizers(cfg, run_dir)
