"""The parts of the server that the adapters of all dialects share."""

from dataclasses import dataclass
from functools import lru_cache

from mtkit.config.serving import ServeConfig
from mtkit.serving.detection import Detector, Source, choose_source
from mtkit.serving.documents import Documents, remove_leftovers
from mtkit.serving.keys import Gate
from mtkit.serving.models import ServedModels
from mtkit.serving.records.corrections import Corrections
from mtkit.serving.records.glossaries import Glossaries
from mtkit.serving.records.memories import Memories
from mtkit.serving.service import Service


@dataclass(frozen=True)
class Backend:
    """The parts of a server."""

    cfg: ServeConfig
    service: Service
    gate: Gate
    documents: Documents
    glossaries: Glossaries | None
    memories: Memories | None
    corrections: Corrections | None

    @property
    def detector(self) -> Detector:
        """The detector for the languages of the models that are served now."""
        return _detector(self.service.models)

    def source_of(self, text: str, target: str) -> Source:
        """Choose the language to translate a text from, given the code of a served target.

        Raises BadRequest if nothing is translated into the target.
        """
        return _source(self.service.models, self.detector, text, target)

    @classmethod
    def from_config(cls, cfg: ServeConfig) -> "Backend":
        """Create the parts. Raises MtkitError if one cannot be created."""
        remove_leftovers()
        corrections = None if cfg.corrections.file is None else Corrections(cfg)
        service = Service(cfg, corrections)
        glossaries = None if cfg.glossaries is None else Glossaries(cfg.glossaries, cfg.limits.max_glossary_entries)
        limits = cfg.limits
        memories = None
        if cfg.memories is not None:
            memories = Memories(
                cfg.memories, limits.max_memory_units, limits.max_file_mb * 1e6, limits.document_deadline_s
            )
        documents = Documents(
            service, cfg.limits, lambda text, target: _source(service.models, _detector(service.models), text, target)
        )
        backend = cls(cfg, service, Gate(cfg), documents, glossaries, memories, corrections)
        backend.detector.detect("a")  # loads its tables now, not while the first client and all others wait
        return backend


def _source(models: ServedModels, detector: Detector, text: str, target: str) -> Source:
    return choose_source(detector.detect(text), models.sources_of(target), target)


@lru_cache(maxsize=1)
def _detector(models: ServedModels) -> Detector:
    return Detector.from_models(models)
