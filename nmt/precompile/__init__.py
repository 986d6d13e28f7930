"""Precompilation: machine code of usual models, for a processor's store or for the wheel."""
