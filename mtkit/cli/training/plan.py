"""`mtkit plan`: predict what training a config takes: parameters, memory, steps, time, disk."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from mtkit.cli.options import OptionalConfigOption, SetOption, check_budget, load_run_config
from mtkit.config.durations import duration_of
from mtkit.console import counted
from mtkit.errors import TrainingError, UsageError
from mtkit.interop.support import Target, export_problems

if TYPE_CHECKING:
    from mtkit.config.model import ModelConfig
    from mtkit.runs import plan as plans
    from mtkit.runs.students import plan as student_plan

_MOST_LABELS = 8  # listed


def print_plan(
    config_path: OptionalConfigOption = None,
    overrides: SetOption = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=3600,
            metavar="SECONDS",
            help="Seconds for which the probe of a config runs updates. Default: 30.",
        ),
    ] = None,
    teacher: Annotated[
        Path | None,
        typer.Option(
            "--student",
            metavar="FOLDER",
            help="Instead of a config, plan the students that `mtkit make-student` can make of this run or bundle.",
        ),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time for --student, as for `mtkit make-student`.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON, in bytes and seconds.")] = False,
) -> None:
    """Predict what training a config takes, from a short probe of real updates on this machine.

    The command leaves nothing in the run's folder. Its times assume that the machine stays as busy as during the probe.
    With --student, it shows the size, speed and number of updates of each student, and the BLEU that students of the
    same shape lost on other text.
    """
    since = time.monotonic()
    if (config_path is None) == (teacher is None):
        raise UsageError("give a config, or --student with the folder of a teacher")
    if (teacher is None) != (budget is None):
        raise UsageError(
            "--student and --budget need each other, as in `mtkit plan --student runs/teacher --budget 2h`; for the "
            "budget of a config, use --set train.budget=TIME"
        )
    if teacher is not None and budget is not None:
        if overrides or seconds is not None:
            raise UsageError("--set and --seconds are for a config; leave them out with --student")
        check_budget(budget)
        _print_students(teacher, budget, as_json)
        return
    assert config_path is not None

    config = load_run_config(config_path, overrides)

    from mtkit.runs import plan as plans

    prediction = plans.make_plan(config, seconds or 30.0, since)
    exports = _exports(config.model) if config.task == "translate" else {}  # a classifier has none
    if as_json:
        print(json.dumps({**asdict(prediction), "exports": exports}, indent=2))
    else:
        print("\n".join(_lines(prediction, exports)))
    if prediction.problem:
        raise TrainingError(prediction.problem)


def _print_students(teacher: Path, budget: str, as_json: bool) -> None:
    from mtkit.runs.students import plan as student_plan

    plan = student_plan.plan_students(teacher, budget)
    print(json.dumps(asdict(plan), indent=2) if as_json else "\n".join(_students(plan)))
    if all(one.problem for one in plan.shapes):
        raise TrainingError(plan.shapes[0].problem)


def _students(plan: student_plan.StudentsPlan) -> list[str]:
    """Return the lines about students: what holds for all of them, a table, and what its columns mean."""
    teacher = plan.teacher
    lines = [
        f"{'teacher':<24}dev BLEU {teacher.bleu:.2f} on {counted(plan.n_sentences, 'sentence')}",
        f"{'text':<24}{counted(plan.n_lines, 'line')}; the teacher translates {plan.translated_share:.0%} of them in "
        f"{duration_of(plan.translating_s)}",
    ]
    if plan.used_by_others:
        lines.append(
            f"{'machine':<24}other programs used {plan.used_by_others}: the updates below assume that they continue"
        )
    lines.append(
        f"\n{'':<20}{'MB':>7}{'words/s':>9}{'updates':>9}{'epochs':>8}  {'BLEU lost':<21}{'browser':<9}CTranslate2"
    )
    lines.append(f"{'teacher':<20}{teacher.megabytes:>7.1f}{teacher.words_per_s:>9,.0f}")
    for one in plan.shapes:
        course = f"{'too short':>17}" if one.problem else f"{one.updates:>9,}{one.epochs:>8.1f}"
        exports = ["no" if one.exports[target] else "yes" for target in ("bergamot", "ctranslate2")]
        lines.append(
            f"{one.shape:<20}{one.megabytes:>7.1f}{one.words_per_s:>9,.0f}{course}  {_lost(one):<21}"
            f"{exports[0]:<9}{exports[1]}"
        )
    lines += ["", *(f"{one.shape}: {one.updates:,} updates: {one.expect}" for one in plan.shapes if one.expect)]
    lines += [
        "MB: the file with the weights, of students in int8",
        "words/s: words of the source in a second of one core; of students about, measured with random weights",
        "BLEU lost: how far the test BLEU of measured students was below that of their teachers, or (-) above:",
    ]
    for run in (run for one in plan.shapes for run in one.measured):
        length = f"{counted(run.updates, 'update')}, {run.epochs:.1f} epochs"
        lines.append(f"  {run.shape}, {run.pair}: {run.bleu_lost:.1f} after {length}")
    return lines


def _lost(shape: student_plan.ShapePlan) -> str:
    """Return the range of what students of this shape lost, and their number."""
    lost = sorted(run.bleu_lost for run in shape.measured)
    if not lost:
        return "not measured"
    least, most = f"{lost[0]:.1f}", f"{lost[-1]:.1f}"
    return f"{least if least == most else f'{least} to {most}'} ({counted(len(lost), 'run')})"


def _exports(cfg: ModelConfig) -> dict[str, list[str]]:
    """Return each export format with the reasons why it cannot hold the model."""
    return {target: export_problems(cfg, target) for target in get_args(Target)}


def _lines(plan: plans.RunPlan, exports: dict[str, list[str]]) -> list[str]:
    rows = [*_model_rows(plan), *_data_rows(plan), *_course_rows(plan), *_disk_rows(plan)]
    for target, problems in exports.items():
        rows.append((f"export to {target}", "; ".join(problems) if problems else "possible"))
    rows += [("chosen" if not i else "", f"{key}: {what}") for i, (key, what) in enumerate(plan.chosen.items())]
    rows += [("not included", what) for what in plan.left_out]
    return [f"{name:<24}{value}" for name, value in rows]


def _model_rows(plan: plans.RunPlan) -> list[tuple[str, str]]:
    parts = ", ".join(f"{part} {number:,}" for part, number in plan.parameters.items() if part != "total")
    where = f"{plan.device}, {counted(plan.n_threads, 'thread')}" if plan.device == "cpu" else plan.device
    memory, libraries = plan.memory, ", libraries included" if plan.device == "cpu" else ""
    used = plan.used_by_others
    shared = (
        [("", f"other programs used {used} during the probe: the times below assume that they continue")]
        if used
        else []
    )
    return [
        ("machine", f"{plan.precision} on {where}"),
        *shared,
        ("parameters", f"{plan.parameters['total']:,} ({parts})"),
        ("memory", f"{_size(memory.peak)} at the peak of the probe{libraries}"),
        ("", f"{_size(memory.estimated)} (estimate) for weights, gradients, optimizer and activations"),
    ]


def _data_rows(plan: plans.RunPlan) -> list[tuple[str, str]]:
    pairs = plan.pairs
    left_out = {
        plan.words.blank: pairs["blank"],
        "longer than data.max_tokens": pairs["too_long"],
        "beyond data.max_length_ratio": pairs["ratio"],
    }
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in left_out.items() if number)
    rows = [
        (
            f"{plan.words.one}s",
            f"{pairs['kept']:,} of {pairs['read']:,} kept" + (f"; left out: {reasons}" if reasons else ""),
        ),
    ]
    if plan.tgt is None:
        rows += [("text", _tokens(plan.src, "an example")), ("labels", _labels(plan.labels))]
    else:
        rows += [("source", _tokens(plan.src, "a sentence")), ("target", _tokens(plan.tgt, "a sentence"))]
    rows += _mix_rows(plan)
    rows += zip(["changed pairs", *[""] * len(plan.changes)], map(str, plan.changes), strict=False)
    rows.append(("batches", f"{plan.batch_tokens:,} tokens, {plan.padding_share:.1%} of them padding"))
    return rows


def _tokens(side: plans.SidePlan, each: str) -> str:
    return (
        f"{side.vocab_size:,} pieces, {side.tokens_per_sentence:.1f} tokens {each}; "
        f"{side.byte_share:.2%} of them single bytes, {side.unknown_share:.2%} unknown"
    )


def _labels(counts: dict[str, int]) -> str:
    """Return the share of each label, most frequent first; if there are many, return the first ones and the rarest."""
    n, by_count = sum(counts.values()), sorted(counts, key=lambda label: -counts[label])
    shown = by_count if len(by_count) <= _MOST_LABELS else [*by_count[: _MOST_LABELS - 1], by_count[-1]]
    shares = [f"{label} {counts[label] / n:.1%}" for label in shown]
    if shown != by_count:
        shares.insert(-1, "...")
    return f"{len(counts):,}: {', '.join(shares)}"


def _mix_rows(plan: plans.RunPlan) -> list[tuple[str, str]]:
    """Yield how often training uses each corpus, if there are several or one whose use changes."""
    if len(plan.corpora) == 1 and not plan.stages:
        return []
    names = ["mix of the run" if plan.steps is not None else "mix of an epoch", *[""] * len(plan.corpora)]
    one = plan.words.one
    rows = list(zip(names, (use.described(one) for use in plan.corpora), strict=False))
    for stage in plan.stages:
        names = [f"{100 * stage.begin:.4g} % to {100 * stage.end:.4g} %", *[""] * len(stage.corpora)]
        rows += zip(names, (use.described(one) for use in stage.corpora), strict=False)
    return rows


def _course_rows(plan: plans.RunPlan) -> list[tuple[str, str]]:
    took = plan.time
    ends = ", ".join(
        f"train.{key}" + (" (unpredictable)" if step is None else f" (step {step:,})")
        for key, step in plan.ends.items()
    )
    least = "" if took.at_least is None else f", at least {duration_of(took.at_least)}"
    total = f"until train.patience stops it{least}" if took.total is None else duration_of(took.total)
    steps = "unknown" if plan.steps is None else f"{plan.steps:,}"
    looks = "" if took.n_validations is None else f", {took.n_validations:,} in all"
    epochs = "" if plan.steps is None else f" ({plan.steps / plan.steps_per_epoch:.1f} epochs)"
    return [
        ("steps", f"{plan.steps_per_epoch:,} an epoch, {steps} in all{epochs}" + (plan.expect and f": {plan.expect}")),
        *_bleu_rows(plan),
        ("ended by", ends),
        ("speed", f"{1000 * took.update:,.0f} ms a step, {plan.targets_per_s:,.0f} {plan.words.target}s a second"),
        ("validation", f"{took.validation:.1f} s{looks}; a checkpoint {took.saving:.1f} s"),
        (
            "time",
            f"{total} ({duration_of(took.preparing)} to the first step, {duration_of(took.ending)} at the end)",
        ),
    ]


def _bleu_rows(plan: plans.RunPlan) -> list[tuple[str, str]]:
    from mtkit.training.preparation.learning_curve import LANGUAGES

    measured = f"four of five measured runs, with {LANGUAGES}, ended in such a range"
    rows = [("dev BLEU", f"about {plan.bleu}; {measured}")] if plan.bleu else []
    if plan.no_bleu:
        rows = [("dev BLEU", f"no forecast, because this run is unlike the measured ones: {plan.no_bleu}")]
    if plan.bleu_of_longer:
        longer = ", ".join(f"{times} times: {bleu}" for times, bleu in plan.bleu_of_longer.items())
        rows.append(("with more updates", longer))
    return rows


def _disk_rows(plan: plans.RunPlan) -> list[tuple[str, str]]:
    disk = plan.disk
    return [
        ("disk", f"{_size(disk.total)} at the end, {_size(disk.peak)} at most"),
        (
            "",
            f"{counted(disk.n_checkpoints, 'checkpoint')} of {_size(disk.checkpoint)}, {disk.n_best} older of the best "
            f"of {_size(disk.best)}, model {_size(disk.bundle)}, encoded text {_size(disk.cache)}",
        ),
    ]


def _size(n_bytes: int) -> str:
    mib = n_bytes / 2**20
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.1f} MiB"
