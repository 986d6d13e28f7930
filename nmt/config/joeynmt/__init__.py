"""Configs of JoeyNMT as ours."""
