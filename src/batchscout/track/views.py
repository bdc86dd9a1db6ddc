"""How MLflow's pages open: a shared view with columns, order and charts that make a sweep readable.

MLflow keeps a "shared view" as a tag of the experiment, `mlflow.sharedViewState.KEY`, which a link names by
`viewStateShareKey=KEY`: its UI's own format, JSON packed as "deflate;" and base64 (as MLflow 3.17 reads it,
checked by the browser test). A UI that no longer understands it shows the plain table: nothing is lost.
Without `workflowType=machine_learning` MLflow 3 opens an experiment on its pages for LLM traces.
"""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

from batchscout.run.listener import SweepView
from batchscout.track.description import describe

VIEW = "batchscout"
SHOWN_AT_ONCE = 40  # lines in the charts; of more jobs the fastest 20
#: The runs table: column → width in pixels, in this order (within MLflow's groups metrics, parameters, tags).
COLUMNS = {
    "metrics.`time_to_target`": 125,
    "metrics.`batch_size`": 95,
    "metrics.`lr`": 95,
    "metrics.`samples_to_target`": 150,
    "metrics.`throughput`": 110,
    "metrics.`update_seconds`": 130,
    "metrics.`sampling_share`": 125,
    "metrics.`cost_seconds`": 115,
    "metrics.`best_score`": 100,
    "params.`seed`": 60,
    "params.`gpu`": 110,
    "tags.`outcome`": 95,
    "tags.`reason`": 240,
}
OWN_COLUMNS = {"1": 75, "attributes.`Run Name`": 185, "runDateAndNestInfo": 130, "duration": 80}


def link(uri: str, experiment_id: str) -> str:
    """Address of the sweep's jobs, sorted by time_to_target. uri: the server's."""
    return f"{uri.rstrip('/')}/#/experiments/{experiment_id}/runs?{view_query()}"


def how_to_look(uri: str, experiment_id: str, directory: Path) -> tuple[str, ...]:
    """What to open or type to see the sweep in MLflow: addresses of a server, the command for a database."""
    if not uri.startswith(("http://", "https://")):
        return (f"batchscout ui {directory}",)
    return link(uri, experiment_id), chart_link(uri, experiment_id)


def chart_link(uri: str, experiment_id: str) -> str:
    """Address of the same jobs as charts: the score against samples and against training seconds."""
    return f"{link(uri, experiment_id)}&compareRunsMode=CHART"


def view_query() -> str:
    return f"workflowType=machine_learning&viewStateShareKey={VIEW}"


def experiment_tags(view: SweepView) -> dict[str, str]:
    """The description and the shared view of the sweep's experiment."""
    return {
        "mlflow.note.content": describe(view),
        "mlflow.experimentKind": "custom_model_development",
        f"mlflow.sharedViewState.{VIEW}": pack(view_state(len(view.result["jobs"]))),
    }


def pack(state: dict[str, Any]) -> str:
    """MLflow's form of a shared view."""
    text = json.dumps(state, separators=(",", ":"))
    return "deflate;" + base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def view_state(jobs: int) -> dict[str, Any]:
    """Jobs by time_to_target, with the columns and charts that answer the question. jobs: their number."""
    widths = {**OWN_COLUMNS, **COLUMNS}
    return {
        "searchFilter": "",
        "orderByKey": "metrics.`time_to_target`",
        "orderByAsc": True,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "selectedColumns": list(COLUMNS),
        "columnOrder": list(widths),
        "columnWidths": widths,
        "runsHiddenMode": "SHOW_ALL" if jobs <= SHOWN_AT_ONCE else "FIRST_20_RUNS",
        "groupBy": None,
        "compareRunSections": [
            _section("answer", "Time to target"),
            _section("rest", "Model metrics"),  # MLflow's name for what has no place of its own
        ],
        "isAccordionReordered": True,
        "compareRunCharts": _charts(),
        "hideEmptyCharts": True,
        "autoRefreshEnabled": True,
        "globalLineChartConfig": {"xAxisKey": "step", "lineSmoothness": 0, "selectedXAxisMetricKey": ""},
    }


def _charts() -> list[dict[str, Any]]:
    return [
        _line("score-by-samples", "score against samples", "step"),
        _line("score-by-seconds", "score against training seconds", "metric"),
        _scatter("time-by-batch", "time_to_target (s) against batch_size", "batch_size", "time_to_target"),
        _scatter(
            "samples-by-batch", "samples_to_target against batch_size", "batch_size", "samples_to_target"
        ),
        _scatter(
            "throughput-by-batch", "throughput (samples/s) against batch_size", "batch_size", "throughput"
        ),
        {
            **_chart("all", "PARALLEL", "settings and time_to_target"),
            "selectedParams": ["batch_size", "lr"],
            "selectedMetrics": ["samples_to_target", "throughput", "time_to_target"],
            "showAllRuns": False,
        },
    ]


def _chart(uuid: str, kind: str, title: str) -> dict[str, Any]:
    return {
        "uuid": f"batchscout-{uuid}",
        "type": kind,
        "runsCountToCompare": 100,
        "metricSectionId": "batchscout-answer",
        "deleted": False,
        "isGenerated": False,
        "displayName": title,
    }


def _line(uuid: str, title: str, axis: str) -> dict[str, Any]:
    return {
        **_chart(uuid, "LINE", title),
        "metricKey": "score",
        "selectedMetricKeys": ["score"],
        "lineSmoothness": 0,
        "xAxisScaleType": "log",
        "scaleType": "linear",
        "range": {},
        "xAxisKey": axis,
        "selectedXAxisMetricKey": "train_seconds" if axis == "metric" else "",
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "ignoreOutliers": False,
        "useGlobalXaxisKey": False,
        "useGlobalLineSmoothing": True,
    }


def _scatter(uuid: str, title: str, x: str, y: str) -> dict[str, Any]:
    axes = {"xaxis": {"key": x, "type": "METRIC"}, "yaxis": {"key": y, "type": "METRIC"}}
    return {**_chart(uuid, "SCATTER", title), **axes}


def _section(uuid: str, name: str) -> dict[str, Any]:
    return {
        "uuid": f"batchscout-{uuid}",
        "name": name,
        "display": True,
        "isReordered": True,
        "deleted": False,
        "isGenerated": False,
    }
