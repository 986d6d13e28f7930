"""The former place of `nmt.inference.translator`, for what was pickled with this name or imports it."""

from nmt.inference.translator import *  # noqa: F403
