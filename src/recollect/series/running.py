"""A series under way: its members are ordinary runs, each of which can be gone on with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from recollect import pipeline
from recollect.config import Config, to_toml
from recollect.core import RecollectError
from recollect.devices import resolve_devices
from recollect.progress import Narrator
from recollect.report import write_series_report
from recollect.runs import RunFolder
from recollect.series.members import Member, members
from recollect.series.record import gather, member_folder
from recollect.series.together import Together
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


def go(series: Series, jobs: int = 1) -> None:
    """Every member that is not done yet, ``jobs`` at a time; one that fails is noted, and the others do not suffer."""
    with series.folder.locked():
        series.folder.set_stage("members", "running")
        series.folder.set_stage("report", "pending")
        try:
            failures = _go_through(series, jobs)
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


def _go_through(series: Series, jobs: int) -> dict[str, str]:
    """Why members failed."""
    left: list[Member] = []
    for member in members(series.config):
        if not _finished(member_folder(series.folder, member)):
            left.append(member)
        elif series.folder.read_json("status.json")["members"][member.slug] != "done":
            _note(series, member, "done")
    if jobs == 1:
        _one_by_one(series, left)
    else:
        _together(series, left, jobs)
    return series.folder.read_json("status.json")["failures"]


def _one_by_one(series: Series, left: Sequence[Member]) -> None:
    for member in left:
        series.narrator.say(f"Member {_place(series, member)}: {member.name}")
        _note(series, member, "running")
        _note(series, member, *_outcome(series, member))
        _write_record(series)


def _together(series: Series, left: Sequence[Member], jobs: int) -> None:
    """Several at a time, each in a process of its own, of which only the stage is seen."""
    known = {member_folder(series.folder, member).path: member for member in left}
    for member in left:
        _begin(series, member)
    devices = [str(device) for device in resolve_devices(series.config.device)]
    under_way: dict[str, str] = {}
    ended = 0
    with series.narrator.bar("members", len(left)) as advance:
        for path, state, failure, stage in Together(jobs, devices).go(list(known)):
            member = known[path]
            if stage is None:
                why = "" if failure is None else f": {failure}"
                series.narrator.say(f"Member {_place(series, member)}: {member.name}, {state}{why}")
                _note(series, member, state, failure)
                _write_record(series)
            if state == "running":
                under_way[member.name] = stage or "starting"
            else:
                ended += 1
                del under_way[member.name]
            advance(ended, ", ".join(f"{name}: {doing}" for name, doing in under_way.items()))


def _place(series: Series, member: Member) -> str:
    slugs = _slugs(series.config)
    return f"{slugs.index(member.slug) + 1} of {len(slugs)}"


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
        _begin(series, member)
        pipeline.go(_run(series, member))
    except RecollectError as error:
        series.narrator.say(f"  failed: {error}")
        return "failed", str(error)
    return "done", None


def _begin(series: Series, member: Member) -> None:
    folder = member_folder(series.folder, member)
    if not folder.has("config.toml"):  # not begun, or killed before anything was computed
        pipeline.create(member.config, folder.path, series.plan, series.narrator, series.command, overwrite=True)


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
