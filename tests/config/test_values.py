"""One wrong value each: the error is one line that names field, value and what is right."""
# ruff: noqa: E501  # a table is read by its lines

import pytest

from batchscout.config import JobConfig, SweepConfig
from batchscout.errors import ConfigError

ACCURACY = {"name": "addition", "score_range": [0, 1]}

TABLE = [
    ({"bach_size": 3}, "bach_size=3 is not a known key; did you mean batch_size?"),
    ({"target": {"scor": 0.8}}, "target.scor=0.8 is not a known key; did you mean target.score?"),
    ({"caps": {"minutes": 3}}, "caps.minutes=3 is not a known key; known keys: caps.samples, caps.seconds"),
    ({"batch_size": "abc"}, "batch_size=abc must be a whole number"),
    ({"batch_size": 1.5}, "batch_size=1.5 must be a whole number; use 1 or 2"),
    ({"batch_size": 0}, "batch_size=0 must be at least 1"),
    ({"batch_size": True}, "batch_size=true must be a whole number"),
    ({"lr": -1e-4}, "lr=-0.0001 must be above 0; did you mean 0.0001?"),
    ({"lr": "fast"}, "lr=fast must be a finite number above 0"),
    ({"lr": float("nan")}, "lr=nan must be a finite number"),
    ({"lr": 0}, "lr=0 must be above 0"),
    ({"seeds": 0}, "seeds=0 must be at least 1"),
    ({"seed": -1}, "seed=-1 must be at least 0"),
    ({"fresh": "yes"}, "fresh=yes must be true or false"),
    ({"max_failures": 0}, "max_failures=0 must be at least 1"),
    ({"target": {"patience": 0}}, "target.patience=0 must be at least 1"),
    ({"target": {"direction": "maximum"}}, "target.direction=maximum is not known; did you mean target.direction=max"),
    ({"target": {"clock": "waal"}}, "target.clock=waal is not known; did you mean target.clock=wall?"),
    ({"target": {"levels": 0.5}}, "target.levels=0.5 must be a list, as in target.levels=[0.5]"),
    ({"target": {"score": 80}, "task": ACCURACY}, "target.score=80 is outside the range of this task's score, 0 to 1; did you mean 0.8?"),
    ({"target": {"score": -0.1}, "task": ACCURACY}, "did you mean 0?"),
    ({"target": {"score": 0.5, "levels": [0.4, 1.2]}, "task": ACCURACY}, "target.levels=1.2 is outside the range"),
    ({"task": {"score_range": [0]}}, "task.score_range=[0.0] must be [lowest, highest]"),
    ({"caps": {"seconds": 0}}, "caps.seconds=0 must be above 0"),
    ({"caps": {"samples": -5}}, "caps.samples=-5 must be at least 1"),
    ({"budget": {"gpu_hours": -1}}, "budget.gpu_hours=-1 must be above 0"),
    ({"evaluation": {"samples": 0}}, "evaluation.samples=0 must be at least 1"),
    ({"hardware": {"slots": 0}}, "hardware.slots=0 must be at least 1"),
    ({"hardware": {"executor": "slrum"}}, "hardware.executor=slrum is not known; did you mean hardware.executor=slurm?"),
    ({"hardware": {"executor": "replay"}}, "hardware.source=null must name a recorded sweep"),
    ({"hardware": {"time_limit": "1:3x"}}, "hardware.time_limit=1:3x must be minutes or [D-]H:M:S"),
    ({"hardware": {"gpus": 3, "nodes": 2}}, "hardware.gpus=3 must be a multiple of hardware.nodes × hardware.tasks = 2"),
    ({"search": {"name": "tpee"}}, "search=tpee is not known; did you mean search=tpe?"),
    ({"search": {"name": "time_to_target", "stops_jobs": False}}, "search.stops_jobs=false is for search=tpe, gp or random"),
    ({"search": {"name": "mine", "function": "mine.Search"}}, "search.function=mine.Search must look like package.module:function"),
    ({"trainer": {"function": "train"}}, "trainer.function=train must look like package.module:function"),
    ({"tracking": {"name": "server"}}, "tracking.uri=null must name the server"),
    ({"tracking": {"name": "server", "uri": "http://me:secret@host:5000"}}, "tracking.uri=http://me:…@host:5000 must not"),
    ({"tracking": {"study": "postgresql+psycopg://me:secret@host/db"}}, "use ~/.pgpass or PGPASSWORD"),
    ({"tracking": {"study": "study.db"}}, "tracking.study=study.db must be an SQL address"),
    ({"tracking": {"name": "none", "trainer_joins": True}}, "needs tracking=embedded or tracking=server"),
    (
        {"tracking": {"trainer_joins": True}, "hardware": {"name": "slurm", "executor": "slurm"}},
        "needs a server that the nodes reach",
    ),
    ({"lr_rule": {"name": "cubic"}}, "lr_rule.name=cubic is not known; choose one of fixed, sqrt, linear"),
    ({"lr_rule": {"name": "sqrt"}}, "lr_rule.reference_batch_size=null must be given where lr_rule=sqrt"),
    (
        {"lr_rule": {"name": "sqrt", "reference_batch_size": 64}, "lr": 1e-4},
        "lr=0.0001 contradicts lr_rule=sqrt, which computes it; type lr_reference=0.0001 or lr_rule=fixed",
    ),
    ({"lr_reference": 1e-4}, "lr_reference=0.0001 is only read by lr_rule=sqrt or linear"),
    ({"trainer": "policy_gradient"}, "trainer=policy_gradient must be the name of a file in conf/trainer"),
    ({"caps": 3}, "caps=3 must be a group of keys"),
]  # fmt: skip


@pytest.mark.parametrize(("mapping", "message"), TABLE)
def test_a_wrong_value_is_one_line_with_the_right_one(mapping, message):
    with pytest.raises(ConfigError) as caught:
        SweepConfig.from_mapping(mapping)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


ARITHMETIC = [
    (100, {}, "batch_size=100 is not a multiple of group_size=8 (it counts rollouts, not prompts); use 96 or 104"),
    (4, {}, "use 8"),
    (128, {"mini_batch_size": 48}, "mini_batch_size=48 does not divide batch_size=128; use one of 8, 16, 32, 64"),
    (256, {"mini_batch_size": 4096}, "mini_batch_size=4096 does not divide batch_size=256; use one of 32, 64, 128, 256"),
    (128, {"micro_batch_size": 48}, "micro_batch_size=48 does not divide mini_batch_size=128; use one of"),
]  # fmt: skip


@pytest.mark.parametrize(("batch_size", "mapping", "message"), ARITHMETIC)
def test_impossible_batch_arithmetic_names_the_nearest_right_sizes(batch_size, mapping, message):
    with pytest.raises(ConfigError) as caught:
        SweepConfig.from_mapping(mapping).job(batch_size, 1e-4, 0)
    assert message in str(caught.value)


def test_a_micro_batch_larger_than_a_small_batch_is_one_pass_and_fine():
    job = SweepConfig.from_mapping({"micro_batch_size": 512}).job(64, 1e-4, 0)
    assert job.to_mapping()["micro_batch_size"] == 512


def test_whole_floats_and_numbers_in_text_are_taken():
    config = SweepConfig.from_mapping({"batch_size": 64.0, "lr": "1e-3", "target": {"levels": (0.5,)}})
    assert (config.batch_size, config.lr, config.target.levels) == (64, 1e-3, (0.5,))


def test_a_configuration_survives_its_own_mapping():
    config = SweepConfig.from_mapping(
        {
            "trainer": {"name": "mine", "function": "a.b:train", "clip": 0.2, "betas": [0.9, 0.95]},
            "task": {"name": "t", "score_range": [0, 1], "digits": 2},
            "points": {"16": [1e-4, 2e-4]},
            "hardware": {"time_limit": "1:30:00", "setup": ["module load x"], "extra": {"nice": 5}},
        }
    )
    assert SweepConfig.from_mapping(config.to_mapping()) == config
    assert config.to_mapping()["trainer"]["clip"] == 0.2
    job = config.job(64, 3e-4, 1)
    assert JobConfig.from_mapping(job.to_mapping()).to_mapping() == job.to_mapping()
    assert job.to_mapping()["mini_batch_size"] == 64


def test_the_measured_part_ignores_what_only_looks_or_waits():
    base = SweepConfig.from_mapping({"caps": {"seconds": 5}})
    same = SweepConfig.from_mapping(
        {
            "caps": {"seconds": 5}, "batch_size": 64, "lr": 1e-3, "seeds": 3, "budget": {"jobs": 7}, "max_failures": 9,
            "target": {"levels": [0.4], "clock": "wall"}, "hardware": {"slots": 4, "partition": "fast"},
            "search": {"name": "tpe"}, "tracking": {"name": "none"},
        }
    )  # fmt: skip
    assert same.measured_part() == base.measured_part()
    for change in (
        {"caps": {"seconds": 6}}, {"target": {"score": 0.5}}, {"target": {"patience": 3}}, {"group_size": 4},
        {"evaluation": {"samples": 512}}, {"model": {"seed": 1}}, {"hardware": {"gpu": "H100"}}, {"hardware": {"gpus": 2}},
    ):  # fmt: skip
        changed = SweepConfig.from_mapping({"caps": {"seconds": 5}, **change})
        assert changed.measured_part() != base.measured_part(), change


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("90", 90),
        ("1:30", 2),
        ("1:30:00", 90),
        ("0:00:30", 1),
        ("1-0", 1440),
        ("1-2:30", 1590),
        ("2-00:00:01", 2881),
    ],
)
def test_time_limits_are_read_as_slurm_reads_them(text, minutes):
    assert SweepConfig.from_mapping({"hardware": {"time_limit": text}}).hardware.time_limit_minutes == minutes


def test_rules_compute_the_rate_from_the_reference():
    rule = {"name": "sqrt", "reference_batch_size": 128}
    config = SweepConfig.from_mapping({"lr_rule": rule, "lr_reference": 4e-4})
    assert config.job_lr(512, 4e-4) == pytest.approx(8e-4)
    linear = SweepConfig.from_mapping({"lr_rule": {**rule, "name": "linear"}, "lr_reference": 4e-4})
    assert linear.job_lr(512, 4e-4) == pytest.approx(1.6e-3)
