"""A model as a library for C: its functions for several levels of processors, with a host written in C."""
