"""The parts of the server that the adapters of all dialects share."""

from dataclasses import dataclass
from functools import lru_cache

from mtkit.config.serving import ServeConfig
from mtkit.serving.detection import Detector
from mtkit.serving.documents import Documents
from mtkit.serving.keys import Gate
from mtkit.serving.models import ServedModels
from mtkit.serving.records.corrections import Corrections
from mtkit.serving.records.glossaries import Glossaries
from mtkit.serving.service import Service


@dataclass(frozen=True)
class Backend:
    """The parts of a server."""

    cfg: ServeConfig
    service: Service
    gate: Gate
    documents: Documents
    glossaries: Glossaries | None
    corrections: Corrections | None

    @property
    def detector(self) -> Detector:
        """The detector for the languages of the models that are served now."""
        return _detector(self.service.models)

    @classmethod
    def from_config(cls, cfg: ServeConfig) -> "Backend":
        """Create the parts. Raises MtkitError if one cannot be created."""
        corrections = None if cfg.corrections.file is None else Corrections(cfg)
        service = Service(cfg, corrections)
        glossaries = None if cfg.glossaries is None else Glossaries(cfg.glossaries, cfg.limits.max_terms)
        documents = Documents(service, cfg.limits, lambda text: _detector(service.models).detect(text).language)
        backend = cls(cfg, service, Gate(cfg), documents, glossaries, corrections)
        backend.detector.detect("a")  # loads its tables now, not while the first client and all others wait
        return backend


@lru_cache(maxsize=1)
def _detector(models: ServedModels) -> Detector:
    return Detector.from_models(models)
