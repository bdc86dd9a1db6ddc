"""The search in a plain Optuna study: a made-up world as the objective, real storages, several processes."""

from __future__ import annotations

import math
import multiprocessing
import pickle
import re
import time
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState, create_trial
from tests.made_world import MadeWorld

from batchscout.errors import SearchError
from batchscout.measure.target import Target
from batchscout.optuna import TimeToTargetPruner, TimeToTargetSampler, ended, probe_updates, report
from batchscout.search.optuna_space import candidates
from batchscout.search.optuna_trials import Names, observations

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")

WORLD = MadeWorld(s_min=10_000.0)
TARGET = Target(WORLD.target)


def objective(trial: optuna.Trial) -> float:
    """A job of the world, evaluation by evaluation; its last second is its time."""
    batch_size = trial.suggest_categorical("batch_size", WORLD.batch_sizes)
    lr = trial.suggest_categorical("lr", WORLD.lrs)
    updates = probe_updates(trial)
    if updates is not None:
        seconds = updates * (WORLD.a + WORLD.b * batch_size)
        report(trial, None, samples=updates * batch_size, seconds=seconds)
        raise optuna.TrialPruned
    row = WORLD._job(batch_size, lr, trial.user_attrs.get("seed", 0))
    for samples, seconds, score in zip(row["samples"], row["seconds"], row["score"], strict=True):
        report(trial, score, samples=samples, seconds=seconds)
        if trial.should_prune():
            raise optuna.TrialPruned
    return float(row["seconds"][-1])


def study_of(storage: Any, **options: Any) -> optuna.Study:
    sampler = TimeToTargetSampler(WORLD.target, **options)
    return optuna.create_study(
        study_name="made", storage=storage, load_if_exists=True, sampler=sampler, pruner=TimeToTargetPruner(sampler)
    )  # fmt: skip


def journal(path: Path) -> JournalStorage:
    return JournalStorage(JournalFileBackend(str(path)))


def told(study: optuna.Study) -> list[tuple[Any, ...]]:
    return [(t.params, t.state, t.value, t.user_attrs) for t in study.trials]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> optuna.Study:
    study = study_of(journal(tmp_path_factory.mktemp("unbroken") / "study.journal"))
    study.optimize(objective, n_trials=40)
    return study


def test_it_finds_the_fastest_point_for_a_few_best_times_and_stops_the_study(unbroken: optuna.Study) -> None:
    assert len(unbroken.trials) < 40
    assert "regret" in unbroken.user_attrs["finished"]
    found = unbroken.sampler.recommendation(unbroken)
    assert WORLD.time(found.point.batch_size, found.point.lr) <= 1.1 * WORLD.best[0]
    assert unbroken.best_params == {"batch_size": found.point.batch_size, "lr": found.point.lr}
    spent = sum(max(t.user_attrs["seconds"].values()) for t in unbroken.trials)
    assert spent < 10 * WORLD.best[0]


def test_trials_carry_what_their_value_leaves_out(unbroken: optuna.Study) -> None:
    for trial in unbroken.trials:
        said = trial.user_attrs
        if trial.state is TrialState.COMPLETE:
            assert said["outcome"] == "reached"
            row = WORLD._job(*trial.params.values(), said["seed"])
            above = [n for n, s in zip(row["samples"], row["score"], strict=True) if s >= WORLD.target]
            assert row["samples"][-3] <= said["samples_to_target"] <= above[-1]
            speed = row["samples"][-1] / row["seconds"][-1]
            assert said["throughput"] == pytest.approx(speed, rel=0.05)
        elif trial.intermediate_values:
            assert said["outcome"] == "stopped"
            assert said["reason"]
            assert said["samples_to_target_at_least"] == max(trial.intermediate_values)
            assert said["time_to_target_at_least"] == max(said["seconds"].values())
        else:
            assert (said["kind"], said["outcome"]) == ("probe", "capped")
    assert any(t.user_attrs.get("kind") == "probe" for t in unbroken.trials)
    assert all(t.user_attrs["explanation"] for t in unbroken.trials[1:])


@pytest.mark.parametrize("kept", [1, 4, 7])
def test_an_interrupted_study_goes_on_as_if_it_had_not_been(
    unbroken: optuna.Study, tmp_path: Path, kept: int
) -> None:
    study_of(journal(tmp_path / "study.journal")).optimize(objective, n_trials=kept)
    again = study_of(journal(tmp_path / "study.journal"))
    again.optimize(objective, n_trials=40)
    assert told(again) == told(unbroken)


def work(path: str, trials: int) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study_of(RDBStorage(f"sqlite:///{path}"), slots=2).optimize(objective, n_trials=trials)


def test_two_processes_share_what_they_know(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    study_of(RDBStorage(f"sqlite:///{path}"))
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=work, args=(str(path), 7)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0, 0]
    study = study_of(RDBStorage(f"sqlite:///{path}"))
    assert 6 <= len(study.trials) <= 14
    cells = [(j.point, j.seed) for j in observations(study.trials, Names(), TARGET) if j.kind != "probe"]
    assert len(set(cells)) == len(cells)
    found = study.sampler.recommendation(study)
    assert WORLD.time(found.point.batch_size, found.point.lr) <= 1.5 * WORLD.best[0]


def test_threads_share_one_sampler() -> None:
    study = study_of(None, slots=2)
    study.optimize(objective, n_trials=8, n_jobs=2)
    assert all(t.state in (TrialState.COMPLETE, TrialState.PRUNED) for t in study.trials)


def slow_objective(trial: optuna.Trial) -> float:
    """The same on a clock that lets trials overlap."""
    ask = trial.should_prune
    trial.should_prune = lambda: time.sleep(0.002) or ask()  # type: ignore[method-assign, func-returns-value]
    return objective(trial)


def test_several_threads_come_to_an_end_by_themselves() -> None:
    """A trial that only had to get a point while others run is not waited for, and ends with the study."""
    study = study_of(None, slots=2, seed=1)
    study.optimize(slow_objective, n_trials=60, n_jobs=2)
    assert "finished" in study.user_attrs
    assert len(study.trials) < 30
    found = study.sampler.recommendation(study)
    assert WORLD.time(found.point.batch_size, found.point.lr) <= 1.3 * WORLD.best[0]


def test_failed_and_infeasible_trials_are_evidence_too() -> None:
    """Nothing from 512 on fits, and every third trial breaks."""

    def fragile(trial: optuna.Trial) -> float:
        if trial.suggest_categorical("batch_size", WORLD.batch_sizes) >= 512:
            trial.suggest_categorical("lr", WORLD.lrs)
            raise ended(trial, "infeasible")
        if trial.number % 3 == 2:
            trial.suggest_categorical("lr", WORLD.lrs)
            raise ZeroDivisionError
        return objective(trial)

    study = study_of(None)
    study.optimize(fragile, n_trials=16, catch=(ZeroDivisionError,))
    sizes = [t.params["batch_size"] for t in study.trials]
    refused = [size for size in sizes if size >= 512]
    assert refused == sorted(refused, reverse=True)  # never one as large again
    assert len(refused) == len(set(refused))
    assert {t.user_attrs["outcome"] for t in study.trials if t.state is TrialState.FAIL} == {"failed"}
    assert study.sampler.recommendation(study).point.batch_size < 512


def test_trials_from_before_and_enqueued_ones_are_used(unbroken: optuna.Study) -> None:
    study = study_of(None)
    for trial in unbroken.trials:
        study.add_trial(trial)
    study.enqueue_trial({"batch_size": 64, "lr": WORLD.lrs[0]})
    study.optimize(objective, n_trials=1)
    assert study.trials[-1].params == {"batch_size": 64, "lr": WORLD.lrs[0]}
    assert "finished" in study.user_attrs
    mine, theirs = study.sampler.recommendation(study), unbroken.sampler.recommendation(unbroken)
    assert mine.point.batch_size == theirs.point.batch_size


def test_ranges_other_names_and_other_parameters_by_ask_and_tell() -> None:
    space = {
        "bs": IntDistribution(32, 2048, log=True),
        "rate": FloatDistribution(1e-4, 1.6e-3, log=True),
        "dropout": FloatDistribution(0.0, 0.5),
    }
    sampler = TimeToTargetSampler(
        0.8, batch_size="bs", lr="rate", search_space={k: space[k] for k in ("bs", "rate")}
    )
    study = optuna.create_study(sampler=sampler)
    for _ in range(3):
        trial = study.ask(space)
        assert 32 <= trial.params["bs"] <= 2048
        assert 0 <= trial.params["dropout"] <= 0.5
        report(trial, None, samples=trial.params["bs"], seconds=0.1)
        study.tell(trial, state=TrialState.PRUNED)
    assert len({t.params["bs"] for t in study.trials}) == 3  # probes from the middle outward
    again = pickle.loads(pickle.dumps(sampler))
    assert again.recommendation(study) == sampler.recommendation(study)


def trial_of(number: int, scores: dict[int, float], seconds: dict[int, float], **said: Any) -> Any:
    space = CategoricalDistribution(WORLD.batch_sizes), CategoricalDistribution(WORLD.lrs)
    trial = create_trial(
        state=said.pop("state", TrialState.PRUNED),
        value=said.pop("value", None),
        params={"batch_size": 256, "lr": WORLD.lrs[2]},
        distributions=dict(zip(("batch_size", "lr"), space, strict=True)),
        intermediate_values=scores,
        user_attrs={"seconds": {str(k): v for k, v in seconds.items()}, **said},
    )
    trial.number = number
    return trial


def test_a_continued_trial_is_one_job() -> None:
    first = trial_of(0, {512: 0.1, 1024: 0.2}, {512: 1.0, 1024: 2.0})
    on = trial_of(1, {1536: 0.3}, {1536: 3.0}, continues=0)
    anew = trial_of(1, {512: 0.1, 1024: 0.2, 1536: 0.3}, {512: 1.1, 1024: 2.1, 1536: 3.1}, continues=0)
    (job,) = observations([first, on], Names(), TARGET)
    assert (job.job_id, job.seconds) == ("trial-0", 3.0)
    assert job.curve.samples.tolist() == [512, 1024, 1536]
    (job,) = observations([first, anew], Names(), TARGET)
    assert job.seconds == pytest.approx(2.0 + 3.1)  # what was run twice was paid twice
    assert job.curve.seconds.tolist() == [1.1, 2.1, 3.1]


def test_outcomes_follow_the_trials_states() -> None:
    scores, seconds = {512: 0.1, 1024: 0.85}, {512: 1.0, 1024: 2.0}
    cases = {
        "reached": trial_of(0, scores, seconds, state=TrialState.COMPLETE, value=2.0),
        "capped": trial_of(1, {512: 0.1}, seconds, state=TrialState.COMPLETE, value=99.0),
        "stopped": trial_of(2, scores, seconds),
        "diverged": trial_of(3, scores, seconds, outcome="diverged"),
        "failed": trial_of(4, scores, seconds, state=TrialState.FAIL),
    }
    jobs = observations(list(cases.values()), Names(), TARGET)
    assert [job.outcome.value for job in jobs] == list(cases)
    assert [job.seed for job in jobs] == [0, 1, 2, 3, 4]
    assert math.isclose(jobs[0].curve.total_seconds, 2.0)


def test_what_cannot_be_searched_is_refused_in_one_line() -> None:
    with pytest.raises(SearchError, match="minimise one value"):
        optuna.create_study(direction="maximize", sampler=TimeToTargetSampler(0.8)).optimize(
            objective, n_trials=1
        )
    with pytest.raises(SearchError, match="numbers above 0"):
        candidates("lr", CategoricalDistribution(("small", "large")))
    with pytest.raises(SearchError, match="must be above 0"):
        candidates("lr", FloatDistribution(0.0, 1.0))
    with pytest.raises(SearchError, match="must hold batch_size and lr"):
        TimeToTargetSampler(0.8, search_space={"lr": FloatDistribution(1e-4, 1e-3)})
    study = optuna.create_study()
    with pytest.raises(SearchError, match="capped, diverged, infeasible"):
        ended(study.ask(), "tired")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"direction": "maximize"}, "direction='maximize'.*must be max where"),
        ({"target": float("nan")}, "target=nan.*finite number"),
        ({"target": "0.7"}, "target='0.7'.*finite number"),
        ({"patience": 0}, "patience=0.*at least 1"),
        ({"runs": 0}, "runs=0.*at least 1"),
        ({"slots": 1.5}, "slots=1.5.*at least 1"),
        ({"tolerance": -1}, "tolerance=-1.*between 0 and 1"),
        ({"overhead_seconds": float("nan")}, "overhead_seconds=nan.*0 or more"),
    ],
)
def test_an_argument_that_makes_no_sense_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SearchError, match=words):
        TimeToTargetSampler(**{"target": 0.8, **options})


def test_an_objective_that_tells_nothing_is_told_so_after_its_first_trial() -> None:
    def other_names(trial: optuna.Trial) -> float:
        return float(trial.suggest_categorical("bs", [16, 32]))

    def unreported(trial: optuna.Trial) -> float:
        trial.report(0.9, trial.suggest_categorical("batch_size", [16, 32]))
        return trial.suggest_float("lr", 1e-4, 1e-3)

    def after_a_probe(trial: optuna.Trial) -> float:
        return 1.0 if trial.number else objective(trial)

    with pytest.raises(SearchError, match="suggests bs but not batch_size, lr"):
        study_of(None).optimize(other_names, n_trials=3)
    with pytest.raises(SearchError, match=r"trial 0 ended and told no samples.*report\("):
        study_of(None).optimize(unreported, n_trials=3)
    with pytest.raises(SearchError, match="suggests nothing but not"):
        study_of(None).optimize(after_a_probe, n_trials=3)


def test_trials_without_a_score_do_not_end_the_study() -> None:
    """Every second trial is pruned before its first evaluation, every third ends at a limit of its own."""

    def unlucky(trial: optuna.Trial) -> float:
        if trial.number % 2:
            trial.suggest_categorical("batch_size", WORLD.batch_sizes)
            trial.suggest_categorical("lr", WORLD.lrs)
            if trial.number % 3 == 0:
                raise ended(trial, "capped")
            raise optuna.TrialPruned
        return objective(trial)

    study = study_of(None)
    study.optimize(unlucky, n_trials=24)
    found = study.sampler.recommendation(study)
    assert WORLD.time(found.point.batch_size, found.point.lr) <= 1.5 * WORLD.best[0]


def test_candidates_lie_two_to_an_octave_and_hold_both_ends() -> None:
    assert candidates("b", IntDistribution(16, 64, log=True)) == (16, 23, 32, 45, 64)
    assert candidates("b", IntDistribution(8, 40, step=8)) == (8, 16, 24, 32, 40)
    lrs = candidates("lr", FloatDistribution(1e-4, 4e-4, log=True))
    assert lrs == pytest.approx((1e-4, 1.41e-4, 2e-4, 2.83e-4, 4e-4))
    assert (lrs[0], lrs[-1]) == (1e-4, 4e-4)


def test_the_example_of_the_documentation_runs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "search.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    space: dict[str, Any] = {}
    exec(compile(code, "docs/search.md", "exec"), space)
    answer, study = space["answer"], space["study"]
    assert len(study.trials) < 60
    assert answer.point.batch_size in (128, 256)  # by the example's own law: 10.2 s and 10.3 s
    assert answer.point.lr == 4e-4
