"""Whatever is typed wrongly ends with exit code 1 and one line before any job, in single runs and multiruns."""
# ruff: noqa: E501  # a table is read by its lines

import pytest

SINGLE = [
    (["bach_size=3"], "bach_size=3 is not a known key; did you mean batch_size?"),
    (["target.scor=1"], "target.scor=1 is not a known key; did you mean target.score?"),
    (["+typo=1"], "typo=1 is not a known key"),
    (["+target.typo=1"], "target.typo=1 is not a known key"),
    (["+trainer.clipp=1"], "trainer.clipp=1 is not a known key; did you mean trainer.clip?"),
    (["trainer=synthetic", "trainer.steepnes=1"], "did you mean trainer.steepness?"),
    (["hardware.extra={nice:5}"], "type +hardware.extra.KEY=VALUE for each"),
    (["trainer.clip=abc"], "trainer.clip=abc must be a number, as its default 0.2"),
    (["trainer.threads=1.5"], "trainer.threads=1.5 must be a whole number, as its default 1"),
    (["taks=addition"], "taks=addition is not a known key; did you mean task?"),
    (["trainer=policy"], "trainer=policy does not exist; did you mean trainer=policy_gradient?"),
    (["hardware=locl"], "hardware=locl does not exist; did you mean hardware=local?"),
    (["sweep=gird"], "sweep=gird does not exist; did you mean sweep=grid?"),
    (["batch_size=[1"], "batch_size=[1 cannot be read as key=value"),
    (["batch_size=64,128", "lr=1e-4"], "batch_size=64,128 lists several values; add -m to run a job for each"),
    (["lr=-1"], "lr=-1 must be above 0"),
    ([], "lr=null must be given: one rate or a list, as in lr=1e-4,3e-4"),
    (["batch_size=100", "lr=1e-4"], "batch_size=100 is not a multiple of group_size=8"),
    (["lr=1e-4", "mini_batch_size=48"], "mini_batch_size=48 does not divide batch_size=128"),
    (["lr=1e-4", "target.score=70"], "target.score=70 is outside the range of this task's score, 0 to 1; did you mean 0.7?"),
    (["lr=1e-4", "mini_batch_size=${batch_size}"], "mini_batch_size=${batch_size} cannot follow batch_size"),
    (["lr=1e-4", "lr_rule=sqrt"], "lr=0.0001 contradicts lr_rule=sqrt"),
    (["lr=1e-4", "trainer.function=batchscout.train.synthetic:trian"], "did you mean batchscout.train.synthetic:train?"),
    (["lr=1e-4", "trainer.advantage=roo"], "trainer.advantage=roo"),
    (["lr=1e-4", "search.name=tpee"], "search=tpee is not known; did you mean search=tpe?"),
    (["hardware=replay"], "hardware.source=null must name a recorded sweep"),
    (["+batch_size=64", "lr=1e-4"], "+batch_size=64 exists already; leave the + out"),
    (["lr=1e-4", "target=0.6"], "target=0.6 must name one of default; a value belongs to one of its keys, target.score, "),
    (["lr=1e-4", "trainer=null"], "trainer=null must name one of policy_gradient, synthetic"),
    (["lr=1e-4", "=3"], "=3 has no key before the ="),
    (["lr=1e-4", "~target.score"], "target.score=(left out) must be there"),
    (["lr=[1e-4,2e-4]"], "lr=[0.0001,0.0002] must be one number; a sweep's list is typed lr=0.0001,0.0002"),
    (["lr=1e-4", "trainer.steepness=nan", "trainer=synthetic"], "trainer.steepness=nan must be a finite number"),
    (["trainer=synthetic", "lr=1e-4", "trainer.misbehave.fault=hang"], "type +trainer.misbehave.fault=hang"),
    (["trainer=synthetic", "lr=1e-4", "+trainer.misbehave.fault=oom"], "trainer.misbehave.fault=oom is unknown; use value_error"),
    (["trainer=synthetic", "lr=1e-4", "trainer.s_min=-5"], "trainer.s_min=-5 must be above 0; did you mean 5?"),
    (["trainer=synthetic", "lr=1e-4", "target.score=0.97"], "target.score=0.97 must be below trainer.ceiling=0.95"),
    (["lr=1e-4", "task.digits=9"], "task.digits=9 is out of range; use 1, 2 or 3"),
    (["lr=1e-4", "trainer.device=tpu"], "trainer.device=tpu is unknown; use auto, cpu, cuda"),
    (["lr=1e-4", "trainer.check=os.path:join"], "trainer.check=os.path:join refuses batch_size=128 lr=0.0001: TypeError"),
    (["zzzz=1"], "zzzz=1 is not a known key; known keys: batch_size, "),
    (["lr=1e-4", "--frobnicate"], "--frobnicate is no flag of sweep.py"),
    (["--cfg", "lr=1e-4"], "argument --cfg/-c: invalid choice"),
    (["hardware.qos=high", "hardware.time_limit=soon", "lr=1e-4"], "hardware.time_limit=soon must be minutes"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "message"), SINGLE)
def test_a_wrong_single_run_is_refused_in_one_line(sweep, tmp_path, words, message):
    answer = sweep(*words, f"hydra.run.dir={tmp_path}/run")
    assert message in answer.error
    assert len(answer.error) < 400
    assert answer.code == 1
    assert not list(tmp_path.iterdir())


MULTI = [
    (["bach_size=3"], "bach_size=3 is not a known key; did you mean batch_size?"),
    (["bach_size=64,128"], "bach_size=64,128 is not a known key; did you mean batch_size?"),
    (["+typo=1", "lr=1e-4"], "typo=1 is not a known key"),
    (["+trainer.clipp=1", "lr=1e-4"], "trainer.clipp=1 is not a known key; did you mean trainer.clip?"),
    (["batch_size=64,abc", "lr=1e-4"], "batch_size=abc must be a whole number"),
    (["batch_size=64,100", "lr=1e-4"], "batch_size=100 is not a multiple of group_size=8"),
    (["batch_size=64", "lr=1e-4,-1"], "lr=-1 must be above 0"),
    (["batch_size=64,128"], "lr=null must be given"),
    (["batch_size=64,256", "lr=1e-4", "mini_batch_size=128"], "mini_batch_size=128 does not divide batch_size=64"),
    (["batch_size=64,128", "lr=1e-4", "lr_rule=sqrt"], "lr=0.0001 contradicts lr_rule=sqrt"),
    (["trainer.clip=0.1,0.2", "lr=1e-4"], "trainer.clip=0.1,0.2 cannot be listed"),
    (["hardware=local,slurm", "lr=1e-4"], "hardware=local,slurm cannot be listed"),
    (["seed=0,7", "lr=1e-4"], "seed=0,7 must be consecutive numbers, as in seed=0,1"),
    (["sweep=demo", "batch_size=64,4096"], "batch_size=4096 has no learning rates in this sweep's points"),
    (["sweep=search", "hardware=replay", "hardware.source=/nope"], "hardware.source=/nope must name a recorded sweep"),
    (["sweep=search", "search=random", "search.tolerance=0"], "search.tolerance=0 must be above 0"),
    (["hardware.slots=0"], "hardware.slots=0 must be at least 1"),
    (["lr=1e-4", "name=.."], "name=.. must be a folder's name, as in name=sweep"),
    (["lr=1e-4", "name=a/b"], "name=a/b must be a folder's name, as in name=a-b"),
    (["lr=1e-4", "batch_size=range(1,0)"], "batch_size=[] lists no value at all"),
    (["lr=1e-4", "seed=range(3,1)"], "seed=[] lists no value at all"),
    (["hydra.sweeper.params=3"], "hydra.sweeper.params=3 must be lists by name"),
    (["hydra.sweep.dir="], "hydra.sweep.dir= must be a directory"),
    (["hydra.sweep.dir=a,b"], "hydra.sweep.dir=a,b"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "message"), MULTI)
def test_a_wrong_sweep_is_refused_in_one_line(sweep, tmp_path, words, message):
    place = [] if any(w.startswith("hydra.sweep.dir") for w in words) else [f"hydra.sweep.dir={tmp_path}/s"]
    answer = sweep("-m", *words, *place)
    assert message in answer.error
    assert answer.code == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("flags", [[], ["-m"]])
def test_a_place_where_nothing_can_be_written_is_one_line(sweep, tmp_path, flags):
    (tmp_path / "file").write_text("mine")
    key = "sweep" if flags else "run"
    words = [*flags, "trainer=synthetic", "tracking=none", "hardware=debug", "lr=1e-4"]
    answer = sweep(*words, f"hydra.{key}.dir={tmp_path}/file/below")
    assert answer.code == 1
    assert answer.error == f"{tmp_path}/file/below: Not a directory"
    assert (tmp_path / "file").read_text() == "mine"
