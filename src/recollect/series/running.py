"""A series under way: its members are ordinary runs, done one after the other, each of which can be gone on with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from recollect import pipeline
from recollect.config import Config, to_toml
from recollect.core import RecollectError
from recollect.progress import Narrator
from recollect.report import write_series_report
from recollect.runs import RunFolder
from recollect.series.members import Member, members
from recollect.series.record import gather, member_folder
from recollect.stages.run import Run

_STAGES = ("members", "report")


@dataclass(frozen=True)
class Series:
    """The counterpart of a ``Run``; ``plan`` is that of every member."""

    folder: RunFolder
    config: Config
    plan: str
    narrator: Narrator
    command: str


def is_series(folder: Path) -> bool:
    run = RunFolder(folder)
    return run.has("status.json") and "members" in run.read_json("status.json")


def start(config: Config, out: Path, plan: str, narrator: Narrator, command: str, overwrite: bool = False) -> Series:
    """A new folder for a series all of whose members are possible; none of them has begun yet."""
    chosen = members(config)
    for member in chosen:
        pipeline.require_possible(member.config, out)
    facts = {"plan": plan, "members": {member.slug: "pending" for member in chosen}, "failures": {}}
    folder = RunFolder.create(out, config.name, _STAGES, overwrite, facts)
    folder.write_text("config.toml", to_toml(config))
    return Series(folder, config, plan, narrator, command)


def resume(out: Path, narrator: Narrator, command: str, device: str | None = None) -> Series:
    """A series that was interrupted, as its folder describes it."""
    folder = RunFolder.open(out)
    config = pipeline.stored_config(folder, device)
    status = folder.read_json("status.json")
    plan, listed = status.get("plan"), status["members"]
    if plan not in pipeline.PLANS or not isinstance(listed, dict) or list(listed) != _slugs(config):
        raise RecollectError(
            f"'{out / 'status.json'}' does not fit config.toml, it has another plan or other members; start anew with "
            "--overwrite."
        )
    return Series(folder, config, plan, narrator, command)


def go(series: Series) -> None:
    """Every member that is not done yet; one that fails is noted, and the others do not suffer."""
    with series.folder.locked():
        series.folder.set_stage("members", "running")
        series.folder.set_stage("report", "pending")
        try:
            failures = _go_through(series)
            series.folder.set_stage("members", "failed" if failures else "done")
        finally:  # an interrupted series shows what it has
            path = _write_report(series)
        series.folder.set_stage("report", "done")
    series.narrator.say(f"Report of the series written to {path}")
    if failures:
        slug, reason = next(iter(failures.items()))
        count = f"{len(failures)} of {len(members(series.config))}"
        raise RecollectError(
            f"{count} members failed, the first of them, '{slug}': {reason.rstrip('.')}; the others are in "
            f"'{path}', try again with --resume {series.folder.path}."
        )


def _go_through(series: Series) -> dict[str, str]:
    """Why members failed."""
    chosen = members(series.config)
    for place, member in enumerate(chosen, start=1):
        if not _finished(member_folder(series.folder, member)):
            series.narrator.say(f"Member {place} of {len(chosen)}: {member.name}")
            _note(series, member, "running")
            _note(series, member, *_outcome(series, member))
            _write_record(series)
        elif series.folder.read_json("status.json")["members"][member.slug] != "done":
            _note(series, member, "done")
    return series.folder.read_json("status.json")["failures"]


def judge_again(series: Series, config: Config) -> None:
    """Match and report once more for every member that has candidates, after the data or the rule changed."""
    changed = [member for member in members(config) if _found(series, member)]
    if not changed:
        raise RecollectError(
            f"no member of '{series.folder.path}' has candidates yet; go on with --resume {series.folder.path}."
        )
    with series.folder.locked():
        for member in changed:
            run = _run(series, member)
            series.narrator.say(f"Member {member.slug}")
            rule = {"match": member.config.match, "data": member.config.data}
            pipeline.judge_again(replace(run, config=run.config.model_copy(update=rule)))
        series.folder.write_text("config.toml", to_toml(config))
        _write_report(replace(series, config=config))


def report_again(series: Series) -> None:
    with series.folder.locked():
        for member in members(series.config):
            if member_folder(series.folder, member).has("config.toml"):
                pipeline.report_again(_run(series, member))
        _write_report(series)


def _outcome(series: Series, member: Member) -> tuple[str, str | None]:
    try:
        folder = member_folder(series.folder, member)
        if not folder.has("config.toml"):  # not begun, or killed before anything was computed
            pipeline.create(member.config, folder.path, series.plan, series.narrator, series.command, overwrite=True)
        pipeline.go(_run(series, member))
    except RecollectError as error:
        series.narrator.say(f"  failed: {error}")
        return "failed", str(error)
    return "done", None


def _run(series: Series, member: Member) -> Run:
    path = member_folder(series.folder, member).path
    return pipeline.resume(path, series.narrator, series.command, series.config.device)


def _finished(folder: RunFolder) -> bool:
    return folder.has("config.toml") and all(state == "done" for state in RunFolder.open(folder.path).stages.values())


def _found(series: Series, member: Member) -> bool:
    return member_folder(series.folder, member).has("candidates.safetensors")


def _note(series: Series, member: Member, state: str, failure: str | None = None) -> None:
    """What became of a member, in the status of the series."""
    status = series.folder.read_json("status.json")
    status["members"][member.slug] = state
    others = {slug: reason for slug, reason in status["failures"].items() if slug != member.slug}
    status["failures"] = others if failure is None else others | {member.slug: failure}
    series.folder.write_json("status.json", status)


def _write_report(series: Series) -> Path:
    """``series.json`` and the page, from what the members' folders hold now."""
    _write_record(series)
    return write_series_report(series.folder.path)


def _write_record(series: Series) -> None:
    status = series.folder.read_json("status.json")
    record = gather(series.folder, series.config, members(series.config), status["members"], status["failures"])
    series.folder.write_json("series.json", record)


def _slugs(config: Config) -> list[str]:
    return [member.slug for member in members(config)]
