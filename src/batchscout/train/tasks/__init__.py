"""What is learned: prompts, completions and their rewards."""

from batchscout.train.tasks.registry import TASKS, make_task
from batchscout.train.tasks.task import Task

__all__ = ["TASKS", "Task", "make_task"]
