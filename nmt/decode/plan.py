"""The decision how a search runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum

from nmt.decode.hypotheses import SearchModel
from nmt.decode.rules.options import SearchOptions
from nmt.errors import ConfigError, DeviceError
from nmt.rnn.device import Device
from nmt.search_settings import Place, beyond


class SearchPath(Enum):
    """The ways to run a search; all find the same translations."""

    COMPILED = "compiled loop"  # plain_search.py
    STEPS = "step by step"  # beam.py
    DEVICE = "on the device"  # device_beam.py


@dataclass(frozen=True)
class SearchPlan:
    """A way to run a search, and why it is taken, in words."""

    path: SearchPath
    why: str


def search_plan(model: SearchModel, options: SearchOptions) -> SearchPlan:
    """Return how a search runs. Raises DeviceError for options that the model's device does not support."""
    device = model.device
    if not device.is_cpu:
        check_served(options, device)
        return SearchPlan(SearchPath.DEVICE, f"the model is on {device.name}")
    asked = beyond(Place.LOOP, options)
    why = f"a compiled loop lacks {' and '.join(asked)}" if asked else model.loop_obstacle
    return SearchPlan(SearchPath.STEPS, why) if why else SearchPlan(SearchPath.COMPILED, "model and settings allow it")


def check_served(options: SearchOptions, device: Device) -> None:
    """Raise DeviceError if these options need the processor, not a GPU."""
    if refused := sorted(beyond(Place.GPU, options)):
        raise DeviceError(
            f"search: {' and '.join(refused)} must be omitted or run on the CPU, got the device "
            f"{device.name}; use --device cpu"
        )


def check_session(options: SearchOptions) -> None:
    """Raise ConfigError for options that a session cannot have: it searches step by step, from states that it keeps."""
    for name in beyond(Place.SESSION, options):
        default, value = getattr(SearchOptions, name), getattr(options, name)
        raise ConfigError(
            f"decoding.{name}: must be {json.dumps(default)} for a session, got {json.dumps(value)}; give complete "
            f"{name}={default}, or translate without a session"
        )
