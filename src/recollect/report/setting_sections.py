"""Sections that say under which circumstances it was found: search, network, assumptions, configuration, machine."""

from __future__ import annotations

from dataclasses import replace

from recollect.report.audit import read_findings
from recollect.report.curve_plots import attack_plots, training_plot
from recollect.report.facts import attack_facts, environment_facts, source_facts, target_facts
from recollect.report.folder import Run
from recollect.report.kernels import KERNEL_LIMIT, kernels
from recollect.report.section import Material, Section


def attack_section(material: Material) -> Section:
    run = material.run
    plots = () if run.trace is None else attack_plots(run.trace)
    facts = {"attack": attack_facts(run), "swept": (run.path / "trials.jsonl").is_file()}
    return Section("attack", "The search", "blocks/attack.html.j2", facts, plots)


def target_section(material: Material) -> Section:
    run = material.run
    caption = "Training of the attacked network. A value of zero is not drawn."
    plots = () if run.curve is None else (replace(training_plot(run.curve), caption=caption),)
    facts = {
        "target": target_facts(run.model) or source_facts(run.config),
        "elsewhere": isinstance(run.config.get("source"), dict),
        "kernels": material.pictures.get("kernels"),
        "kernels_caption": kernels_caption(run),
    }
    return Section("target", "The attacked network", "blocks/target.html.j2", facts, plots)


def assumptions_section(material: Material) -> Section:
    """What ``recollect check`` found, where the folder holds it."""
    findings, closing = read_findings(material.run.path)
    facts = {"findings": findings, "closing": closing}
    return Section("assumptions", "Assumptions", "blocks/assumptions.html.j2", facts)


def caution_section(material: Material) -> Section:
    excluded = [] if material.audit is None else material.audit.not_excluded
    return Section(
        "caution", "What “nothing found” does not mean", "blocks/caution.html.j2", {"not_excluded": excluded}
    )


def configuration_section(material: Material) -> Section:
    facts = {"config": material.run.config_text}
    return Section("configuration", "Configuration", "blocks/configuration.html.j2", facts)


def environment_section(material: Material) -> Section:
    of_audit = [] if material.audit is None else material.audit.environment
    facts = {"environment": environment_facts(material.run), "of_audit": of_audit}
    return Section("environment", "Environment", "blocks/environment.html.j2", facts)


def kernels_caption(run: Run) -> str:
    """What the kernels are, or nothing where the network has none."""
    found = kernels(run)
    if found is None:
        return ""
    count, _, height, width = found.shape
    shown = f"{count}" if count <= KERNEL_LIMIT else f"The first {KERNEL_LIMIT} of {count}"
    return (
        f"{shown} kernels of {height} x {width} as images, each stretched to full contrast (Buzaglo et al. 2023, "
        "Figure 16)."
    )
