"""Which of a run's validated steps are the best."""

from mtkit.config.schema import TrainConfig
from mtkit.training.state import Scored, TrainState
from mtkit.training.validation import DevScores


def scored(step: int, scores: DevScores, cfg: TrainConfig) -> Scored:
    """The step with what its scores are compared by."""
    return Scored(step, scores.figures()[cfg.metric], scores.loss)


def quality(one: Scored, cfg: TrainConfig) -> tuple[float, float]:
    """More is better; equal values of the metric are told apart by the loss."""
    return (-one.value if cfg.metric == "loss" else one.value, -one.loss)


def plainly_better(best: Scored, other: Scored, cfg: TrainConfig) -> bool:
    """Whether the best of many validations is better than another model by the metric and by the loss.

    The metric alone would favour it: the best BLEU of many is in part luck, the more the fewer dev sentences there are.
    """
    return quality(best, cfg) > quality(other, cfg) and not best.loss >= other.loss


def rank(state: TrainState, scores: DevScores, cfg: TrainConfig) -> bool:
    """Note the state's step among the best if it is one, and that it is validated; returns whether it is the best."""
    new = scored(state.step, scores, cfg)
    is_best = not state.best or quality(new, cfg) > quality(state.best[0], cfg)
    n_best = 1 if cfg.average_last else cfg.average_best
    state.best = sorted([*state.best, new], key=lambda one: quality(one, cfg), reverse=True)[:n_best]
    state.last = [*state.last, new][-cfg.average_last :] if cfg.average_last else []
    state.bad_validations = 0 if is_best else state.bad_validations + 1
    state.validated_step = state.step
    return is_best
