"""The former place of `nmt.inference.generator`, for what was pickled with this name or imports it."""

from nmt.inference.generator import *  # noqa: F403
