"""Train translation models on parallel text, evaluate them, and translate with them."""

from importlib import import_module
from typing import TYPE_CHECKING

from mtkit.cores import let_threads_sleep
from mtkit.errors import MtkitError
from mtkit.version import __version__

if TYPE_CHECKING:
    from mtkit.classification.classifier import Classification, Classifier
    from mtkit.config.reading.loading import load_config
    from mtkit.config.schema import Config
    from mtkit.documents.filling import Note, TranslatedDocument
    from mtkit.documents.translate import translate_document, translate_text
    from mtkit.evaluation.evaluate import Evaluation, evaluate
    from mtkit.evaluation.metrics.scores import MetricScore
    from mtkit.runs.finish import TrainResult
    from mtkit.runs.train import train
    from mtkit.translation.candidates import Candidate, Translation
    from mtkit.translation.translator import Translator

__all__ = [
    "Candidate",
    "Classification",
    "Classifier",
    "Config",
    "Evaluation",
    "MetricScore",
    "MtkitError",
    "Note",
    "TrainResult",
    "TranslatedDocument",
    "Translation",
    "Translator",
    "__version__",
    "evaluate",
    "load_config",
    "train",
    "translate_document",
    "translate_text",
]
_MODULES = {
    "Candidate": "mtkit.translation.candidates",
    "Classification": "mtkit.classification.classifier",
    "Classifier": "mtkit.classification.classifier",
    "Config": "mtkit.config.schema",
    "Evaluation": "mtkit.evaluation.evaluate",
    "MetricScore": "mtkit.evaluation.metrics.scores",
    "Note": "mtkit.documents.filling",
    "TrainResult": "mtkit.runs.finish",
    "TranslatedDocument": "mtkit.documents.filling",
    "Translation": "mtkit.translation.candidates",
    "Translator": "mtkit.translation.translator",
    "evaluate": "mtkit.evaluation.evaluate",
    "load_config": "mtkit.config.reading.loading",
    "train": "mtkit.runs.train",
    "translate_document": "mtkit.documents.translate",
    "translate_text": "mtkit.documents.translate",
}

let_threads_sleep()


def __getattr__(name: str) -> object:
    """Import a public name when it is first read: `import mtkit` loads no torch."""
    if name not in _MODULES:
        raise AttributeError(f"module 'mtkit' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
