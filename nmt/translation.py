"""The former place of `nmt.inference.translation`, for what was pickled with this name or imports it."""

from nmt.inference.translation import *  # noqa: F403
