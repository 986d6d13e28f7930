"""Encoders and decoders, built from cells."""
