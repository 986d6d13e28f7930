"""Serve trained models over HTTP, with the protocols that clients of existing translation servers already speak.

An `Engine` runs one model for many clients at once; protocols (one file each), limits and metrics are built around it.
"""
