"""MLflow's own pages, opened by the links that batchscout prints: the answer and the mountain."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.made_sweep import Made, make_sweep

from batchscout.track.ui import free_port, serve

#: MLflow 3.17 on SQLAlchemy 2.1 uses a loader that is to go away.
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy"),
]
TIMEOUT = 60_000  # milliseconds, on a busy machine


@pytest.fixture(scope="module")
def addresses(made: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """`batchscout ui` on two sweeps; the addresses that it printed."""
    directory, _ = made
    other = directory.parent / "other"
    make_sweep(other, Made(name="demo/other", batch_sizes=(16, 256), reachable=False))
    said: list[str] = []
    ready, over = threading.Event(), threading.Event()

    def say(line: str) -> None:
        said.append(line)
        if line.startswith("Ctrl-C"):
            ready.set()

    port = free_port(5400)
    thread = threading.Thread(
        target=serve, args=([directory, other],), kwargs={"port": port, "say": say, "until": over.is_set}
    )
    thread.start()
    assert ready.wait(180), "`batchscout ui` did not come up"
    yield [line.split()[-1] for line in said if "http" in line]
    over.set()
    thread.join(30)
    assert not thread.is_alive()


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    context = chromium.new_context(viewport={"width": 2200, "height": 1100})
    page = context.new_page()
    page.set_default_timeout(TIMEOUT)
    yield page
    context.close()


def column(page: Any, name: str) -> list[str]:
    """Texts of one column of the runs table, from the top."""
    cells = page.locator(f'[role="row"] [role="gridcell"][col-id="{name}"]')
    rows = cells.evaluate_all(
        "cells => cells.map(cell => [Number(cell.closest('[role=row]').getAttribute('row-index')), "
        "cell.innerText])"
    )
    return [text for _, text in sorted(rows, key=lambda row: row[0])]


def test_the_link_opens_the_jobs_sorted_by_time_to_target(page, addresses, made):
    _, result = made
    page.goto(addresses[0])
    page.locator('[col-id="metrics.`time_to_target`"]').first.wait_for()
    page.wait_for_timeout(1500)
    times = [float(text) for text in column(page, "metrics.`time_to_target`") if text not in ("", "-")]
    wanted = sorted(row["time_to_target"] for row in result["jobs"] if row["time_to_target"] is not None)
    assert len(times) == len(wanted)
    for shown, value in zip(times, wanted, strict=True):
        assert shown == pytest.approx(value, rel=1e-6)
    best = result["recommendation"]
    assert column(page, "metrics.`batch_size`")[0] == str(best["batch_size"])
    assert float(column(page, "metrics.`lr`")[0]) == best["lr"]
    assert "reaches score 0.7 soonest" in page.locator("body").inner_text()


def test_the_chart_link_draws_the_score_against_samples_and_against_seconds(page, addresses, made):
    _, result = made
    page.goto(addresses[1])
    page.locator(".js-plotly-plot .scatterlayer .trace").first.wait_for()
    page.wait_for_timeout(2500)
    charts = page.locator(".js-plotly-plot").evaluate_all(
        "plots => plots.map(plot => [plot.layout?.xaxis?.title?.text, "
        "new Set((plot.data || []).filter(d => (d.x || []).length > 2).map(d => d.name)).size])"
    )
    # MLflow draws each line twice, as it is and smoothed
    assert charts[:2] == [["Step", len(result["jobs"])], ["train_seconds", len(result["jobs"])]]


def test_the_sweeps_own_run_shows_the_report(page, addresses, made):
    from mlflow import MlflowClient

    directory, result = made
    client = MlflowClient(f"sqlite:///{directory.parent.parent}/mlflow.db")
    experiment = client.get_experiment_by_name(result["sweep"])
    runs = client.search_runs([experiment.experiment_id], "tags.`batchscout.kind` = 'sweep'")
    base = addresses[0].split("/#/")[0]
    run = runs[0].info.run_id
    page.goto(f"{base}/#/experiments/{experiment.experiment_id}/runs/{run}/artifacts/report.html")
    report = page.frame_locator("iframe").first
    report.locator(".sentence").wait_for()
    assert report.locator("figure svg").count() == 6
    paths = {item.path for item in client.list_artifacts(run)}
    assert paths == {"figures", "report.html", "result.json", "tables"}


def test_both_sweeps_have_their_pages(page, addresses):
    assert len(addresses) == 4
    page.goto(addresses[2])
    page.locator('[col-id="metrics.`batch_size`"]').first.wait_for()
    assert "No job reached score 0.7" in page.locator("body").inner_text()
