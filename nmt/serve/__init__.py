"""Serve trained models over HTTP, with the protocols of clients of existing translation servers. An `Engine` runs one
model for many clients at once; protocols (one file each), limits and metrics are built around it."""
