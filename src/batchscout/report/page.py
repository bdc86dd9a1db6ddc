"""report.html: one file without a network, that answers first and shows its evidence after."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from batchscout import __version__
from batchscout.report.captions import CAPTIONS, WIDTHS
from batchscout.report.data_files import data_files
from batchscout.report.decisions import decisions
from batchscout.report.doubts import doubts
from batchscout.report.figures import page_figures, write_figures
from batchscout.report.figures.theme import DARK, LIGHT, css_variables
from batchscout.report.jobs import job_cells, job_columns
from batchscout.report.law_words import law_words
from batchscout.report.numbers import count, digits, duration, percent, rate
from batchscout.report.reasons import reasons, uncertain, why_ended
from batchscout.report.sentence import recommendation
from batchscout.report.sweep import Sweep
from batchscout.report.table import cells, is_near_tie, is_recommended
from batchscout.run.listener import SweepView


def write(directory: Path) -> Path:
    """Write figures/*.png and report.html and return the page's path.

    Raises  SweepError if the directory holds no result.json.
    """
    sweep = Sweep.read(directory)
    write_figures(sweep, sweep.view.directory / "figures")
    path = sweep.view.directory / "report.html"
    draft = path.with_suffix(".html.tmp")
    draft.write_text(render(sweep), encoding="utf-8")
    os.replace(draft, path)
    return path


class ReportWriter:
    """A Listener that writes the report at the end: before a tracker that is told after it and uploads it."""

    def on_start(self, view: SweepView) -> None:
        """Nothing to report yet."""

    def on_change(self, view: SweepView) -> None:
        """`batchscout report` shows a sweep that still runs."""

    def on_event(self, event: dict[str, Any]) -> None:
        """Decisions are read from events.jsonl."""

    def on_end(self, view: SweepView) -> None:
        if view.result["status"] != "interrupted":  # who typed Ctrl-C wants the terminal back
            write(view.directory)


def render(sweep: Sweep) -> str:
    """The whole page as text."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    figures = [
        {"name": name, "svg": Markup(svg), "caption": CAPTIONS[name], "width": WIDTHS[name]}
        for name, svg in page_figures(sweep)
    ]
    columns, texts = cells(sweep.result["table"])
    embedded = data_files(sweep)
    answer = sweep.result["recommendation"]
    return environment.from_string(_resource("page.html")).render(
        version=__version__,
        css=Markup(_css(environment)),
        script=Markup(_resource("page.js")),
        files=Markup(_script_json(embedded)),
        file_names=list(embedded),
        title=f"batchscout: {sweep.view.sweep}",
        subtitle=_subtitle(sweep),
        result=sweep.result,
        sentence=recommendation(sweep.result),
        facts=_facts(sweep.result) if answer is not None else _spent(sweep.result),
        warnings=doubts(sweep.result),
        figures=figures,
        has_laws=any(figure["name"] == "laws" for figure in figures),
        columns=columns,
        rows=[
            {"style": _style(row, sweep.result), "cells": line}
            for row, line in zip(sweep.result["table"], texts, strict=True)
        ],
        levels=_levels(sweep.result),
        law_facts=law_words(sweep.result),
        job_columns=job_columns(sweep.result["jobs"]),
        jobs=job_cells(sweep.result["jobs"]),
        why_ended=why_ended(sweep.result, sweep.decisions),
        uncertain=uncertain(sweep.result),
        reasons=reasons(sweep.result, sweep.decisions),
        decisions=decisions(sweep.decisions),
        provenance=_provenance(sweep),
        config=json.dumps(sweep.view.config, indent=2, ensure_ascii=False) if sweep.view.config else "",
    )


def _facts(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """The recommendation's numbers, large."""
    answer = result["recommendation"]
    interval = answer["interval"]
    note = ""
    if interval is not None and None not in interval:
        note = f"90% interval {duration(interval[0])} to {duration(interval[1])}"
    ties = [str(batch) for batch in answer["near_ties"] if batch != answer["batch_size"]]
    probability = answer.get("probability_best")
    facts = [
        ("batch size", str(answer["batch_size"]), f"near ties: {', '.join(ties)}" if ties else "no near tie"),
        ("learning rate", rate(answer["lr"]), ""),
        ("time to target", duration(answer["time_to_target"]), note),
        ("samples to target", count(answer["samples_to_target"]), f"score {digits(result['target'])}"),
        ("throughput", digits(answer["throughput"]), "samples/s"),
    ]
    if probability is not None:
        facts.append(("best with probability", percent(probability), ""))
    return [{"name": name, "value": value, "note": note} for name, value, note in facts] + _spent(result)


def _spent(result: Mapping[str, Any]) -> list[dict[str, str]]:
    cost = result["cost"]
    notes = []
    if cost["gpu_hours"]:
        notes.append(f"{digits(cost['gpu_hours'])} GPU-hours")
    if cost["money"] is not None:
        notes.append(f"price {digits(cost['money'])}")
    if cost["lost_seconds"]:
        notes.append(f"{duration(cost['lost_seconds'])} lost")
    return [
        {
            "name": f"cost of {len(result['jobs'])} jobs",
            "value": duration(cost["seconds"]),
            "note": ", ".join(notes),
        }
    ]


def _levels(result: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for level in result["levels"]:
        answer, law = level["recommendation"], level.get("samples") or {}
        missed = ", ".join(str(size) for size in level.get("never_reached") or ())
        row = [digits(level["target"]), "not reached", "", "", ""]
        if answer is not None:
            numbers = [duration(answer["time_to_target"]), count(answer["samples_to_target"])]
            row[1:] = [str(answer["batch_size"]), rate(answer["lr"]), *numbers]
        rows.append([*row, digits(law.get("b_crit")) if law else "", missed])
    return rows


def _subtitle(sweep: Sweep) -> str:
    config = sweep.view.config
    names = []
    for group in ("task", "model", "trainer", "hardware"):
        chosen = config.get(group)
        name = chosen.get("name") if isinstance(chosen, Mapping) else chosen
        if name:
            names.append(f"{group} {name}")
    return ", ".join(names)


def _provenance(sweep: Sweep) -> list[tuple[str, str]]:
    """sweep.json's facts, whatever it holds besides the configuration."""
    facts = [("directory", str(sweep.view.directory.absolute())), ("batchscout", __version__)]
    for key, value in sweep.provenance.items():
        if key in ("v", "config", "sweep") or value in (None, "", [], {}):
            continue
        if isinstance(value, Mapping):
            text = ", ".join(
                f"{name} {item}" for name, item in value.items() if not isinstance(item, Mapping | list)
            )
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            text = " ".join(value)
        elif isinstance(value, str | int | float):
            text = str(value)
        else:
            continue
        facts.append((key.replace("_", " "), text[:2000]))
    gpus = sorted(
        {f"{row['gpus']} × {row['gpu']}" for row in sweep.result["jobs"] if row["gpu"] and row["gpus"]}
    )
    return [*facts, ("GPUs", ", ".join(gpus))] if gpus else facts


def _style(row: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    if is_recommended(row, result):
        return "best"
    if row["time_to_target"] is None:
        return "unreached"
    return "tie" if is_near_tie(row, result) else ""


def _css(environment: Environment) -> str:
    colours = {
        name: " ".join(f"{key}: {value};" for key, value in css_variables(theme).items())
        for name, theme in (("light", LIGHT), ("dark", DARK))
    }
    return environment.from_string(_resource("page.css")).render(**colours)


def _script_json(content: object) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(content, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _resource(name: str) -> str:
    return files("batchscout.report").joinpath(name).read_text(encoding="utf-8")
