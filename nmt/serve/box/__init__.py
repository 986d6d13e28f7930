"""Processes in which a client's text is parsed, with limits of time and memory."""
