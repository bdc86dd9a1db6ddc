"""`sweep=scale_out`: the same few updates on several numbers of GPUs, a sweep for each, one after the other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from batchscout.config import SweepConfig
from batchscout.config.fields import build
from batchscout.errors import ConfigError
from batchscout.plan import Request


def requests_by_gpus(request: Request) -> dict[int, Request]:
    """Number of GPUs → its sweep, in DIRECTORY/gpus-N where a directory was named; {} for an ordinary sweep.

    Raises  ConfigError for numbers that do not fit on whole nodes
    """
    config = build(SweepConfig, request.mapping)
    wanted = config.scale_out
    out: dict[int, Request] = {}
    for gpus in sorted(set(wanted.gpus)):
        if gpus < 1:
            raise ConfigError("scale_out.gpus", gpus, "must be numbers above 0, as in [1,2,4,8]")
        nodes = -(-gpus // wanted.gpus_per_node)
        if gpus % nodes:
            raise ConfigError(
                "scale_out.gpus", gpus, f"does not fill {nodes} nodes of {wanted.gpus_per_node}"
            )
        hardware = hardware_for(request.mapping["hardware"], gpus // nodes, nodes, wanted.tasks)
        mapping = {
            **request.mapping,
            "hardware": hardware,
            "scale_out": {**request.mapping["scale_out"], "gpus": []},
            "name": f"{request.mapping.get('name') or 'scale_out'}-gpus-{gpus}",
        }
        directory = None if request.directory is None else request.directory / f"gpus-{gpus}"
        out[gpus] = replace(request, mapping=mapping, directory=directory)
    return out


def hardware_for(hardware: Mapping[str, Any], per_node: int, nodes: int, tasks: int) -> dict[str, Any]:
    """The same entry with so many GPUs on each of so many nodes, and `tasks` processes for each GPU."""
    changed: dict[str, Any] = {"nodes": nodes}
    if hardware.get("gpus"):
        changed["gpus"] = per_node * nodes
    if hardware.get("gres"):
        changed["gres"] = re.sub(r"(gpu(?::[^:,]+)?):\d+", rf"\g<1>:{per_node}", str(hardware["gres"]))
    if tasks:
        changed["tasks"] = per_node * tasks
    return {**hardware, **changed}
