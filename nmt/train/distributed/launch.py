"""Detection of the processes that a launcher started together with this one."""

from __future__ import annotations

import os
from collections.abc import Mapping

from nmt.errors import DeviceError, how_to_install
from nmt.system.notices import stop_telling
from nmt.train.distributed.ranks import Ranks

_LAUNCHED = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
"""Environment variables in which MPICH's mpiexec, Open MPI and Slurm's srun give the number of processes."""


def launched_size(environment: Mapping[str, str] = os.environ) -> int:
    """Return how many processes a launcher started together, according to the environment; 1 without a launcher."""
    for name in _LAUNCHED:
        if environment.get(name, "").isdigit():
            return max(1, int(environment[name]))
    return 1


def join_ranks() -> Ranks:
    """Join the processes of a launcher. Raises DeviceError if that fails: each would train alone into one folder."""
    size = launched_size()
    if size == 1:
        return Ranks()
    try:
        from nmt.train.distributed.mpi_ranks import MPIRanks
    except (ImportError, RuntimeError) as error:
        raise DeviceError(
            f"mpiexec: {size} ranks must have the package mpi4py and its MPI library, got "
            f"{str(error).splitlines()[0]}; {how_to_install('mpi')}, or start nmt-train without it"
        ) from error
    ranks = MPIRanks()
    if ranks.rank:
        stop_telling()  # one notice of compilation, not one per rank
    if ranks.size != size:
        raise DeviceError(
            f"mpiexec: the launcher must use the MPI library of mpi4py, got {size} processes of which each sees "
            f"{ranks.size}; start them with the mpiexec of that library, or srun --mpi=pmi2"
        )
    return ranks
