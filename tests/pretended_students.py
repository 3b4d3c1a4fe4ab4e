"""What takes time in making a student, pretended: each has tests of its own."""

from types import SimpleNamespace

from mtkit.config.distillation import DistillConfig
from mtkit.config.schema import Config
from mtkit.data.corpus import read_pairs
from mtkit.runs.students.frontier import Figures

SOURCES = [f"source {n}" for n in range(400)]


class StandIns:
    """What takes time: a line takes the teacher 0.1 seconds, and its translations are their sources in capitals."""

    def __init__(self, save_model) -> None:
        self.save_model = save_model
        self.timings = 0
        self.distilled: list[DistillConfig] = []
        self.trained: list[Config] = []
        self.sources: list[str] = []
        self.references: list[str] = []

    def seconds_per_line(self, files, lines):
        self.timings += 1
        return 0.1

    def with_teachers_text(self, cfg):
        self.distilled.append(cfg.distill)
        corpora = []
        for n, corpus in enumerate(cfg.data.train):
            path = cfg.run_dir / f"made-{n}.tsv"
            self.sources += [pair.src for pair in read_pairs([corpus])]
            self.references += [pair.tgt for pair in read_pairs([corpus])]
            path.write_text("".join(f"{line}\t{line.upper()}\n" for line in self.sources))
            corpora.append(corpus.model_copy(update={"src": None, "tgt": None, "tsv": path}))
        return cfg.model_copy(update={"data": cfg.data.model_copy(update={"train": corpora})})

    def train(self, cfg, since):
        self.trained.append(cfg)
        (cfg.run_dir / "checkpoints" / "step-1").mkdir(parents=True, exist_ok=True)
        dump = cfg.data.model_dump(mode="json")
        return SimpleNamespace(bundle=self.save_model(cfg.run_dir / "model", train=dump["train"]))

    def export_bundle(self, files, to, out, *rest):
        assert to == "bergamot"
        assert (files.folder / "shortlist.npz").exists()
        out.mkdir(exist_ok=True)
        (out / "model.enfr.bin").write_bytes(b"1234")
        return SimpleNamespace(searches=[SimpleNamespace(equal_lines=3, bleu_change=-0.25)])

    def figures(self, files, weights, dev):
        return Figures(40.0, weights.stat().st_size, 100.0, 600.0)
