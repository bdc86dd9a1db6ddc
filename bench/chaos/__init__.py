"""Faults at random instants on a real Slurm, and what they cost: `make chaos`, or `python -m bench.chaos NAME
…`.

Each scenario has a cluster of its own and one sweep of the synthetic trainer, whose jobs depend on nothing
but their seed. So a job that was preempted, killed and moved about must report exactly the samples_to_target
of an undisturbed one; anything else counts as a lost measurement.
"""
