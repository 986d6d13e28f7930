"""Encoders and decoders: cells wired together."""
