"""What the adapters of all dialects share."""

from dataclasses import dataclass

from mtkit.config.serving import ServeConfig
from mtkit.serving.corrections import Corrections
from mtkit.serving.documents import Documents
from mtkit.serving.glossaries import Glossaries
from mtkit.serving.keys import Gate
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

    @classmethod
    def from_config(cls, cfg: ServeConfig) -> "Backend":
        """Make the parts. Raises MtkitError if one cannot be."""
        corrections = Corrections.from_config(cfg)
        service = Service(cfg, corrections)
        glossaries = None if cfg.glossaries is None else Glossaries(cfg.glossaries, cfg.limits.max_terms)
        return cls(cfg, service, Gate(cfg), Documents(service, cfg.limits), glossaries, corrections)
