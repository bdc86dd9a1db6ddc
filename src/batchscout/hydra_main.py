"""What sweep.py calls: the command line before Hydra sees it, one job, and every error as one line."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from batchscout.errors import BatchscoutError
from batchscout.home import HOME

EXIT_ERROR = 1
EXIT_INTERRUPTED = 130


def start(task: Callable[..., Any]) -> None:
    """Run sweep.py's Hydra function on the command line; ends the process with the exit code of DESIGN."""
    home = Path(inspect.getsourcefile(inspect.unwrap(task)) or "sweep.py").resolve().parent
    os.environ[HOME] = str(home)
    arguments = list(sys.argv[1:])
    try:
        _check_flags(arguments)
        sys.argv[1:] = with_default_sweep(arguments)
        _run(task)
    except BatchscoutError as error:
        _end(str(error))
    except (HydraException, OmegaConfBaseException) as error:
        from batchscout.hydra_errors import explain

        _end(explain(error, arguments, home / "conf"))
    except ValueError as error:
        from batchscout.hydra_errors import explain_choice

        message = explain_choice(error, arguments, home / "conf")
        if message is None:
            raise
        _end(message)
    except BrokenPipeError:  # `… dry_run=true | head`: nobody reads on
        sys.stdout = None
        sys.exit(EXIT_ERROR)
    except OSError as error:  # a directory that cannot be made, a full disk
        if error.filename is None:
            raise
        _end(f"{error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


def _check_flags(arguments: Sequence[str]) -> None:
    """Wrong flags as one line; Hydra's parser would print its usage and end with 2."""
    parser = get_args_parser()
    parser.error = _end  # type: ignore[method-assign]
    parser.exit = lambda *_: None  # type: ignore[method-assign,assignment]  # --version: Hydra prints it again
    unknown = parser.parse_known_args(list(arguments))[1]
    flags = [a for a in unknown if a.startswith("-")]
    if flags:
        _end(f"{flags[0]} is no flag of sweep.py; python sweep.py --hydra-help lists them")
    if unknown:
        _end(f"{unknown[0]} stands apart; type flags before or after all key=value words")


def _run(task: Callable[..., Any]) -> None:
    """With Hydra's own error printing off, so that errors arrive here."""
    wanted = os.environ.get("HYDRA_FULL_ERROR")
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        task()
    finally:
        if wanted is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = wanted


def _end(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(EXIT_ERROR)


def with_default_sweep(arguments: Sequence[str]) -> list[str]:
    """Listed batch sizes or rates without `sweep=` or `search=` mean `sweep=grid`: an ordinary Hydra grid."""
    given = [a for a in arguments if "=" in a and not a.startswith("-")]
    keys = {a.partition("=")[0].lstrip("+") for a in given}
    is_multirun = any(a in ("-m", "--multirun") for a in arguments)
    if not is_multirun or keys & {"sweep", "search"}:
        return list(arguments)
    listed = [a for a in given if a.partition("=")[0] in ("batch_size", "lr", "lr_reference")]
    if any("," in a.partition("=")[2] and "interval(" not in a for a in listed) or any(
        "range(" in a for a in listed
    ):
        first = arguments.index(given[0])  # beside the others: flags may follow
        return [*arguments[:first], "sweep=grid", *arguments[first:]]
    return list(arguments)


def run_job(config: DictConfig) -> float | None:
    """One job; sweep.py's Hydra function. Returns its time_to_target in seconds, None if it was not reached.

    A single run (no -m) is a sweep of one job in this process (on Slurm: submitted and followed). Called by
    another sweeper or launcher, it runs the job in its own output directory.
    """
    from batchscout import hydra_job

    hydra = HydraConfig.get()
    if hydra.mode == RunMode.RUN:
        try:
            code, seconds = hydra_job.run_alone(config)
        except BatchscoutError as error:  # here, since Hydra would print words of its own first
            _end(str(error))
        finally:
            hydra_job.remove_if_unused(Path(hydra.runtime.output_dir))
        if code:
            sys.exit(code)
        return seconds
    return hydra_job.run_in(config, Path(hydra.runtime.output_dir))
