"""`batchscout init`: a project to start from, with a trainer function of one's own that runs at once."""

from __future__ import annotations

import shutil
from pathlib import Path

import batchscout
from batchscout.errors import ConfigError

SOURCE = Path(batchscout.__file__).parent / "project"

TRAINER = """\
# A trainer of your own. Further keys here are its parameters, in config["trainer"].
name: my_trainer
function: my_trainer:train
"""
TASK = """\
# What is learnt. Further keys are the trainer's, in config["task"].
name: my_task
score_range: [0, 1]   # lowest and highest score that a target may ask for; null where there is none
"""
MODEL = """\
# Which model starts. Further keys are the trainer's, in config["model"].
name: my_model
seed: 0
"""
SWEEP = """\
# @package _global_
# `python sweep.py -m`: the search.
hydra:
  sweeper:
    params:
      batch_size: 16,32,64,128,256,512,1024
      lr: 1,3,10,30
"""
REPLACED = (
    ("trainer", "policy_gradient", "my_trainer"),
    ("task", "addition", "my_task"),
    ("model", "tiny", "my_model"),
)
"""The defaults of conf/config.yaml: group, ours, the project's."""

NEXT = """\
{directory}: sweep.py, my_trainer.py, conf/, sweeps/. Now:
  python sweep.py lr=10 batch_size=64                       one job
  python sweep.py -m batch_size=16,64,256 lr=3,10 dry_run=true   what a grid would do
  python sweep.py -m                                        the search
Then put your own training loop into my_trainer.py."""


def write_project(directory: Path) -> None:
    """Raises ConfigError if the directory holds anything already."""
    directory = directory.absolute()
    if directory.exists() and any(p.name != ".git" for p in directory.iterdir()):
        raise ConfigError("directory", directory, "is not empty; name a new one: batchscout init my_project")
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(SOURCE / "sweep_py.txt", directory / "sweep.py")
    shutil.copyfile(SOURCE / "my_trainer_py.txt", directory / "my_trainer.py")
    for folder in ("conf", "sweeps"):
        shutil.copytree(
            SOURCE / folder, directory / folder, ignore=shutil.ignore_patterns("dev_*", "demo.yaml")
        )
    conf = directory / "conf"
    for name, text in (("trainer/my_trainer", TRAINER), ("task/my_task", TASK), ("model/my_model", MODEL)):
        (conf / f"{name}.yaml").write_text(text, encoding="utf-8")
    (directory / "sweeps" / "default.yaml").write_text(SWEEP, encoding="utf-8")
    config = conf / "config.yaml"
    text = config.read_text(encoding="utf-8")
    for group, old, new in REPLACED:
        assert f"- {group}: {old}\n" in text
        text = text.replace(f"- {group}: {old}\n", f"- {group}: {new}\n")
    config.write_text(text, encoding="utf-8")
    (directory / ".gitignore").write_text("runs/\n__pycache__/\n", encoding="utf-8")
    print(NEXT.format(directory=directory))
