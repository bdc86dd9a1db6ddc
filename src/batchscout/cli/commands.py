"""The commands and their words; what they do is in the modules beside this one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Which batch size, with which learning rate, reaches the target soonest?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    rich_markup_mode=None,  # a help text may say NAME[/TIME], which markup takes for a closing tag
    context_settings={"help_option_names": ["-h", "--help"]},
)

Sweep = Annotated[
    str | None,
    typer.Argument(help="A sweep's directory, or NAME[/TIME] below runs/; the newest if left out."),
]
Json = Annotated[bool, typer.Option("--json", help="For scripts: one JSON object.")]
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SWEEP] [JOB]",
        help="A sweep (the newest if left out), then jobs by the start of their ids.",
    ),
]
NamedWords = Annotated[
    list[str],
    typer.Argument(
        metavar="SWEEP|JOB…",
        help="A sweep, or jobs by the start of their ids (of the newest sweep, if none comes first).",
    ),
]


@app.command()
def status(
    sweep: Sweep = None,
    all_jobs: Annotated[bool, typer.Option("--all", help="Every job.")] = False,
    json_output: Json = False,
) -> None:
    """How a sweep stands: jobs, cost, the recommendation so far."""
    from batchscout.cli.look import show_status

    show_status(sweep, all_jobs=all_jobs, json_output=json_output)


@app.command()
def logs(
    words: Words = None,
    lines: Annotated[int, typer.Option("-n", "--lines", min=1, help="Lines from the end.")] = 50,
) -> None:
    """What a job printed, its newest submission's last lines."""
    from batchscout.cli.look import show_log

    show_log(words or [], lines=lines)


@app.command()
def cancel(words: NamedWords) -> None:
    """Cancel jobs, or the whole sweep where none is named; what they measured is kept."""
    from batchscout.cli.act import cancel_jobs

    cancel_jobs(words)


@app.command()
def retry(
    words: Words = None,
    force: Annotated[bool, typer.Option(help="Also what the jobs themselves caused.")] = False,
    run: Annotated[bool, typer.Option(help="Go on with the sweep at once.")] = True,
) -> None:
    """Run jobs again that failed or were cancelled: those named, or all that the infrastructure lost."""
    from batchscout.cli.act import retry_jobs

    sys.exit(retry_jobs(words or [], is_forced=force, is_run=run))


@app.command()
def report(sweep: Sweep = None, json_output: Json = False) -> None:
    """Write report.html and the figures again; show table and recommendation."""
    from batchscout.cli.look import make_report

    make_report(sweep, json_output=json_output)


@app.command()
def export(
    sweep: Sweep = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File (.gz packs it); else printed.")
    ] = None,
) -> None:
    """The sweep as one file that `hardware=replay hardware.source=FILE` replays."""
    from batchscout.cli.look import export_to

    export_to(sweep, output)


@app.command()
def fit(
    source: Annotated[
        str | None, typer.Argument(help="A CSV table (batch_size, samples_to_target, …), or a sweep.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="All of it, as JSON.")] = False,
    gamma: Annotated[str, typer.Option(help="Sharpness of the knee: a number, or free.")] = "1",
) -> None:
    """The laws of a table of your own, or of a sweep: critical batch size, update seconds, learning rate."""
    from batchscout.cli.look import show_fit

    show_fit(source, json_output=json_output, gamma=gamma)


@app.command()
def plan(
    sweep: Annotated[
        str | None, typer.Argument(help="A finished sweep, or an exported file; the newest if left out.")
    ] = None,
    gpus: Annotated[str, typer.Option(help="Numbers of GPUs, as in 8,64,512.")] = "1,2,4,8,16,32,64",
    price: Annotated[float | None, typer.Option(help="Per GPU-hour; the sweep's own if left out.")] = None,
    deadline: Annotated[str | None, typer.Option(help="Time there is: 30d, 12h, 3600.")] = None,
    budget: Annotated[float | None, typer.Option(help="Money there is.")] = None,
    today: Annotated[
        int | None, typer.Option(min=1, help="Batch size in use; the recommended one if left out.")
    ] = None,
    probes: Annotated[
        list[str] | None, typer.Option(help="A further sweep on another number of GPUs; may be repeated.")
    ] = None,
    gamma: Annotated[str, typer.Option(help="Sharpness of the knee of S: a number, or free.")] = "1",
    json_output: Annotated[bool, typer.Option("--json", help="All of it, as JSON.")] = False,
) -> None:
    """What more GPUs buy: best batch size, time, GPU-hours and money for each number of them."""
    from batchscout.cli.plan import show_plan

    show_plan(
        sweep, gpus=gpus, price=price, deadline=deadline, budget=budget, today=today, probes=probes or [],
        gamma=gamma, json_output=json_output,
    )  # fmt: skip


@app.command()
def compare(
    sweeps: Annotated[list[str], typer.Argument(help="Two or more finished sweeps, or exported files.")],
    price: Annotated[
        list[float] | None, typer.Option(help="Per GPU-hour, once for each sweep, in order.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="All of it, as JSON.")] = False,
) -> None:
    """GPU types side by side: throughput, update seconds, best batch size, time and money to target."""
    from batchscout.cli.compare import show_comparison

    show_comparison(sweeps, price or [], json_output=json_output)


@app.command()
def sync(
    sweep: Sweep = None,
    uri: Annotated[
        str | None, typer.Option(help="MLflow's tracking URI; the sweep's own if left out.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Log a sweep to MLflow from its journals; repeating it changes nothing."""
    from batchscout.cli.act import sync_sweep

    sync_sweep(sweep, uri, json_output=json_output)


@app.command()
def ui(
    sweeps: Annotated[list[str] | None, typer.Argument(help="Sweeps, as directory or NAME[/TIME].")] = None,
    port: Annotated[int | None, typer.Option(help="5000 or the next free one if left out.")] = None,
    uri: Annotated[str | None, typer.Option(help="Where the sweeps are logged, if elsewhere.")] = None,
) -> None:
    """Complete the sweeps in MLflow, serve its pages on this machine only and print their addresses."""
    from batchscout.cli.act import serve_pages

    sys.exit(serve_pages(sweeps or [], port, uri))


@app.command()
def resume(
    sweep: Annotated[str, typer.Argument(help="A sweep's directory, or NAME[/TIME] below runs/.")],
    words: Annotated[list[str] | None, typer.Argument(metavar="key=value…", help="What changes.")] = None,
) -> None:
    """Go on with a sweep, with longer lists or a larger budget if you type them."""
    from batchscout.cli.act import resume_sweep

    sys.exit(resume_sweep(sweep, words or []))


@app.command()
def doctor(json_output: Json = False) -> None:
    """Check what sweeps need here: Python, GPUs, Slurm, disk, tracking."""
    from batchscout.cli.doctor import examine

    sys.exit(examine(json_output=json_output))


@app.command()
def init(
    directory: Annotated[Path, typer.Argument(help="An empty or new directory.")] = Path(),
) -> None:
    """Write a project to start from: sweep.py, conf/, sweeps/ and a trainer function of your own."""
    from batchscout.cli.project import write_project

    write_project(directory)
