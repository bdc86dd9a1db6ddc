"""The config groups: one frozen dataclass each, named as the group is in conf/.

Keys of trainer, task and model beyond the named ones are parameters: they belong to the trainer's, task's or
model's own code, are the ones that its file in conf/ lists, and reach a job unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from batchscout.config.fields import build, key, plain_fields
from batchscout.errors import ConfigError

if TYPE_CHECKING:  # numpy is not needed to read a configuration
    from batchscout.measure.target import Caps, EvaluationGrid, Target

EXECUTORS = ("local", "slurm", "debug", "replay")
LR_RULES = {"fixed": 0.0, "sqrt": 0.5, "linear": 1.0}
SEARCHES = ("grid", "random", "tpe", "gp", "time_to_target", "new_gpu")


@dataclass(frozen=True, slots=True)
class OpenConfig:
    """A group with named keys and further parameters, which lie flat beside the named keys in mappings."""

    name: str = key("")
    parameters: Mapping[str, Any] = key(dict)

    @classmethod
    def from_mapping(cls, mapping: Any, *, prefix: str) -> Self:
        if not isinstance(mapping, Mapping):
            raise ConfigError(prefix, mapping, f"must be the name of a file in conf/{prefix}")
        named = {k: v for k, v in mapping.items() if k in cls.__dataclass_fields__ and k != "parameters"}
        rest = {str(k): v for k, v in mapping.items() if k not in named}
        return build(cls, {**named, "parameters": rest}, prefix=prefix)

    def to_mapping(self) -> dict[str, Any]:
        flat = plain_fields(self)
        return {**{k: v for k, v in flat.items() if k != "parameters"}, **flat["parameters"]}


@dataclass(frozen=True, slots=True)
class TrainerConfig(OpenConfig):
    """What trains. function is "package.module:function", called in the job as function(config, reporter).

    check is "package.module:function", called with each job's mapping before any job starts; it raises
    ConfigError where the arithmetic cannot work. It must import quickly.
    """

    function: str = key("")
    check: str | None = key(None)


@dataclass(frozen=True, slots=True)
class TaskConfig(OpenConfig):
    """What is learnt. score_range: the lowest and highest possible score ([0, 1] for an accuracy)."""

    score_range: tuple[float, ...] | None = key(None)


@dataclass(frozen=True, slots=True)
class ModelConfig(OpenConfig):
    """Which model starts. seed draws its first parameters; every job of a sweep starts from the same ones."""

    seed: int = key(0, least=0)


@dataclass(frozen=True, slots=True)
class TargetConfig:
    """The score that counts as reached. levels are further scores, answered from the same journals."""

    score: float = key(0.8)
    direction: str = key("max", choices=("max", "min"))
    patience: int = key(2, least=1)
    levels: tuple[float, ...] = key(())
    clock: str = key("training", choices=("training", "training_evaluation", "wall"))

    def to_target(self) -> Target:
        from batchscout.measure.target import Target

        return Target(
            score=self.score,
            direction=self.direction,  # type: ignore[arg-type]  # limited by choices
            patience=self.patience,
            levels=self.levels,
            clock=self.clock,  # type: ignore[arg-type]  # limited by choices
        )


@dataclass(frozen=True, slots=True)
class EvaluationConfig:
    """How often and how well a job is evaluated.

    samples   rollouts trained on between evaluations, the same for every batch size
    prompts   held-out prompts of each evaluation
    """

    samples: int = key(2048, least=1)
    prompts: int = key(512, least=1)

    def to_grid(self) -> EvaluationGrid:
        from batchscout.measure.target import EvaluationGrid

        return EvaluationGrid(self.samples)


@dataclass(frozen=True, slots=True)
class CapsConfig:
    """Where one job ends at the latest; null is open. seconds count on the raw training clock."""

    samples: int | None = key(None, least=1)
    updates: int | None = key(None, least=1)
    seconds: float | None = key(None, above=0)

    def to_caps(self) -> Caps:
        from batchscout.measure.target import Caps

        return Caps(samples=self.samples, updates=self.updates, seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class BudgetConfig:
    """Where the sweep ends at the latest; null is open.

    seconds on the training clock of all jobs together; gpu_hours and money of allocated time; wall_seconds
    since the start
    """

    jobs: int | None = key(None, least=1)
    seconds: float | None = key(None, above=0)
    gpu_hours: float | None = key(None, above=0)
    money: float | None = key(None, above=0)
    wall_seconds: float | None = key(None, above=0)


@dataclass(frozen=True, slots=True)
class LrRuleConfig:
    """How a job's lr follows from what was typed.

    `fixed` takes `lr` as typed; `sqrt` and `linear` take lr_reference · (batch_size / reference_batch_size)^p
    with p = 1/2 and 1.
    """

    name: str = key("fixed", choices=tuple(LR_RULES))
    reference_batch_size: int | None = key(None, least=1)

    def lr(self, lr_reference: float, batch_size: int) -> float:
        """The rate the optimizer uses after warm-up, to six digits."""
        if self.name == "fixed" or self.reference_batch_size is None:
            return lr_reference
        return float(f"{lr_reference * (batch_size / self.reference_batch_size) ** LR_RULES[self.name]:.6g}")


@dataclass(frozen=True, slots=True)
class HardwareConfig:
    """Everything about where jobs run.

    slots               jobs at once
    gpus                GPUs of one job, on all its nodes together
    gpu                 the GPU type's name, recorded; rankings across types are refused
    nodes, tasks        of one job; tasks per node
    threads             CPU threads of one job (OMP_NUM_THREADS), null: left to the trainer
    cpus, memory        of one task / one node, in Slurm's notation
    time_limit          minutes or [D-]H:M:S, Slurm's notation
    setup               shell lines before the job's Python starts (module load)
    python              how to start Python, null: this one; a container's prefix goes here
    signal_seconds      how long before the time limit a job is told to write its checkpoint
    slurm_conf          the cluster, null: the site's; SLURM_CONF in the environment comes first
    extra               further sbatch options by name
    source              replay: the recorded sweep
    startup_seconds, queue_seconds   what a further job is expected to cost besides its curve
    """

    name: str = key("local")
    executor: str = key("local", choices=EXECUTORS)
    slots: int = key(1, least=1)
    gpus: int = key(0, least=0)
    gpu: str | None = key(None)
    nodes: int = key(1, least=1)
    tasks: int = key(1, least=1)
    threads: int | None = key(None, least=1)
    cpus: int | None = key(None, least=1)
    memory: str | None = key(None)
    partition: str | None = key(None)
    gres: str | None = key(None)
    constraint: str | None = key(None)
    account: str | None = key(None)
    qos: str | None = key(None)
    time_limit: str | None = key(None)
    exclude: str | None = key(None)
    setup: tuple[str, ...] = key(())
    python: str | None = key(None)
    signal_seconds: int = key(120, least=1)
    slurm_conf: str | None = key(None)
    extra: Mapping[str, Any] = key(dict)
    price_per_gpu_hour: float | None = key(None, least=0)
    poll_seconds: float | None = key(None, above=0)
    watchdog_seconds: float | None = key(None, above=0)
    source: str | None = key(None)
    startup_seconds: float = key(0.0, least=0)
    queue_seconds: float = key(0.0, least=0)

    @property
    def time_limit_minutes(self) -> int | None:
        """`time_limit` in whole minutes, rounded up."""
        return None if self.time_limit is None else slurm_minutes(self.time_limit)


def slurm_minutes(text: str) -> int:
    """Slurm's time notations (minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S) as whole minutes, rounded up."""
    days, dash, clock = text.strip().rpartition("-")
    parts = clock.split(":")
    if not all(p.isdigit() for p in parts) or (dash and not days.isdigit()) or len(parts) > 3:
        raise ConfigError("hardware.time_limit", text, 'must be minutes or [D-]H:M:S, as in 90 or "1:30:00"')
    numbers = [int(p) for p in parts]
    if dash:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
    else:
        hours, minutes, seconds = {1: (0, *numbers, 0), 2: (0, *numbers), 3: tuple(numbers)}[len(numbers)]
    total = int(days or 0) * 1440 + hours * 60 + minutes + (1 if seconds else 0)
    if total < 1:
        raise ConfigError("hardware.time_limit", text, "must be at least one minute")
    return total


@dataclass(frozen=True, slots=True)
class TrackingConfig:
    """Where runs are logged. embedded: a database beside sweep.py; server: `uri`; none: only the journals.

    trainer_joins  trainers log to MLflow themselves; each is told the run of its job
    study          SQL address of the Optuna study (postgresql+psycopg://…), null: study.journal in the sweep
    """

    name: str = key("embedded", choices=("embedded", "server", "none"))
    uri: str | None = key(None)
    trainer_joins: bool = key(False)
    study: str | None = key(None)


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """What decides which job is next.

    function    "package.module:Class" of one's own Search, with any name
    tolerance   the relative time-to-target that may be lost by stopping the search
    seed        the sampler's own
    stops_jobs  whether jobs whose projected time exceeds the best are stopped
    parameters  further ones of that search
    """

    name: str = key("grid")
    function: str | None = key(None)
    tolerance: float = key(0.05, above=0, most=10)
    seed: int = key(0, least=0)
    stops_jobs: bool = key(True)
    parameters: Mapping[str, Any] = key(dict)


@dataclass(frozen=True, slots=True)
class NewGpuConfig:
    """What a sweep on a new GPU type carries over (search=new_gpu).

    source  a finished sweep's directory, or an exported file
    accept  names of differences to it that may be, as the refusal spells them (trainer.precision)
    """

    source: str | None = key(None)
    accept: tuple[str, ...] = key(())


@dataclass(frozen=True, slots=True)
class ScaleOutConfig:
    """Numbers of GPUs to measure one after the other, each in a sweep of its own; () is an ordinary sweep.

    gpus_per_node   more than these go to several nodes
    tasks           processes per GPU, 0: the trainer starts its own
    source          a finished sweep whose plan is shown then
    """

    gpus: tuple[int, ...] = key(())
    gpus_per_node: int = key(8, least=1)
    tasks: int = key(1, least=0)
    source: str | None = key(None)
