"""Find out which of how many ranks this process is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from datafeed.errors import ConfigError
from datafeed.order import Share
from datafeed.sizes import whole_number

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

Replicas: TypeAlias = "int | Mapping[int, int] | Callable[[int], int] | DeviceMesh"

_MOST_LANES = 4096
_LEAST_LANES = 48  # serves 1, 2, 3, 4, 6, 8, 12, 16, 24 and 48 ranks

# Launchers, as each names a process's rank and the number of processes. The first one that is there counts: inside of
# `srun` or `mpirun` a launcher such as torchrun starts several processes for each of theirs.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


@dataclass(frozen=True, slots=True)
class Group:
    """Name a process among those that train together.

    Args:
        rank: Its number, from 0.
        world_size: How many there are.
        source: Who says so.
        compared: Whether torch.distributed knows all of them, so that they can compare what they read.
    """

    rank: int
    world_size: int
    source: str
    compared: bool = False


ALONE = Group(0, 1, "nobody else")


@dataclass(frozen=True, slots=True)
class RankOptions:
    """Say what a caller knows about the ranks.

    Args:
        rank: This process's rank; None to find out.
        world_size: How many ranks there are; None to find out.
        replicas: Which ranks get the same batches: how many ranks in a row; or, per rank, its data-parallel rank, as a
            mapping or function; or the data-parallel dimensions of a DeviceMesh, as `mesh["dp"]`.

    Raises:
        ConfigError: A value is out of range, or one of rank and world_size is missing.
    """

    rank: int | None = None
    world_size: int | None = None
    replicas: Replicas = 1

    def __post_init__(self) -> None:
        for name, least in (("rank", 0), ("world_size", 1)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole_number(name, getattr(self, name), least))
        if (self.rank is None) is not (self.world_size is None):
            given, missing = ("world_size", "rank") if self.rank is None else ("rank", "world_size")
            raise ConfigError(f"{given}= needs {missing}= beside it: one means nothing without the other")
        if self.rank is not None and self.world_size is not None and self.rank >= self.world_size:
            raise ConfigError(f"rank must be below world_size={self.world_size}, found {self.rank}")
        if isinstance(self.replicas, (int, float)):
            object.__setattr__(self, "replicas", whole_number("replicas", self.replicas, 1))
        elif not (isinstance(self.replicas, Mapping) or callable(self.replicas) or hasattr(self.replicas, "mesh")):
            raise ConfigError(
                "replicas must be a number of ranks, a mapping or function from rank to data-parallel rank, or the "
                f"data-parallel dimension of a DeviceMesh, found {self.replicas!r}"
            )

    def group(self) -> Group:
        """Return this process's place among all ranks, as it is now.

        Raises:
            ConfigError: What was given contradicts what was found, or a launcher's variables make no sense.
        """
        found = _distributed() or _ray_train() or _launched() or ALONE
        if self.rank is None or self.world_size is None:
            return found
        if found.world_size == self.world_size and found.rank != self.rank:
            raise ConfigError(
                f"rank={self.rank} of {self.world_size} was given, but {found.source} says that this is rank "
                f"{found.rank} of {found.world_size}: leave rank= and world_size= away, or give what they are there"
            )
        compared = found.compared and found.world_size == self.world_size
        return Group(self.rank, self.world_size, "rank= and world_size=", compared)

    def share(self, group: Group) -> Share:
        """Return which share of the data a rank reads.

        Raises:
            ConfigError: `replicas` does not fit the number of ranks.
        """
        replicas = self.replicas
        if isinstance(replicas, int):
            if group.world_size % replicas:
                raise ConfigError(
                    f"replicas={replicas} does not divide the {group.world_size} ranks that {group.source} says"
                )
            return Share(group.rank // replicas, group.world_size // replicas)
        if not isinstance(replicas, Mapping) and not callable(replicas):
            return _mesh_share(replicas)
        ranks = [_data_rank(replicas, rank) for rank in range(group.world_size)]
        if set(ranks) != set(range(max(ranks) + 1)):
            raise ConfigError(
                f"replicas= gives the ranks 0 to {group.world_size - 1} the data-parallel ranks {ranks}: expected each "
                f"number from 0 to {max(ranks)} at least once"
            )
        return Share(ranks[group.rank], max(ranks) + 1)


def choose_lanes(ranks: int, run: int = 1) -> int:
    """Return the smallest multiple of a number of ranks that is not under 48.

    Args:
        ranks: The number of ranks.
        run: How many samples in a row a mix takes from one dataset; lanes that divide it, fewer where none else do.

    Raises:
        ConfigError: No multiple of the ranks divides the run.
    """
    if run == 1:
        return -(-_LEAST_LANES // ranks) * ranks
    if run % ranks:
        raise ConfigError(f"run={run} of the mix cannot be shared out among {ranks} ranks: give it a multiple of them")
    fit = [lanes for lanes in range(ranks, max(ranks, min(run, _MOST_LANES)) + 1, ranks) if run % lanes == 0]
    return next((lanes for lanes in fit if lanes >= _LEAST_LANES), fit[-1])


def check_lanes(lanes: int, ranks: int) -> None:
    """Check that lanes can be shared out among ranks.

    Raises:
        ConfigError: They cannot; numbers that fit are named.
    """
    if lanes % ranks:
        fit = [str(number) for number in range(1, lanes + 1) if lanes % number == 0]
        shown = ", ".join(fit) if len(fit) <= 16 else ", ".join(fit[:8]) + f" ... {fit[-1]}"
        raise ConfigError(
            f"lanes={lanes} cannot be shared out among {ranks} ranks: they divide among {shown} of them. A new run may "
            f"take lanes={-(-lanes // ranks) * ranks}; one that is resumed keeps its lanes"
        )


def _data_rank(replicas: Mapping[int, int] | Callable[[int], int], rank: int) -> int:
    try:
        found = replicas[rank] if isinstance(replicas, Mapping) else replicas(rank)
    except KeyError:
        raise ConfigError(f"replicas= names no data-parallel rank for rank {rank}") from None
    return whole_number(f"the data-parallel rank that replicas= gives rank {rank}", found, 0)


def _mesh_share(mesh: DeviceMesh) -> Share:
    """Return this process's place in a mesh of data-parallel dimensions, the last one fastest."""
    place = mesh.get_coordinate()
    if place is None:
        raise ConfigError(f"this rank is not in replicas={mesh}")
    rank = 0
    for at, size in zip(place, mesh.mesh.shape, strict=True):
        rank = rank * size + at
    return Share(rank, mesh.size())


def _distributed() -> Group | None:
    torch_distributed = sys.modules.get("torch.distributed")
    if torch_distributed is None or not torch_distributed.is_available() or not torch_distributed.is_initialized():
        return None
    world_size = torch_distributed.get_world_size()
    return Group(torch_distributed.get_rank(), world_size, "torch.distributed", world_size > 1)


def _ray_train() -> Group | None:
    """Ask Ray Train where it runs this process; Ray is not imported for that."""
    ray_train = sys.modules.get("ray.train")
    if ray_train is None:
        return None
    try:
        context = ray_train.get_context()
        rank, world_size = context.get_world_rank(), context.get_world_size()
    except Exception:  # noqa: BLE001  (its versions raise this or that where no session lives)
        return None
    return None if rank is None or world_size is None else Group(int(rank), int(world_size), "Ray Train")


def _launched() -> Group | None:
    environment = os.environ
    half = {"RANK", "WORLD_SIZE"} & environment.keys()
    if half == {"WORLD_SIZE"} and environment.get("NODE_RANK") == "0" and "LOCAL_RANK" in environment:
        return _pair("LOCAL_RANK", "WORLD_SIZE")  # Lightning, until it initialises torch.distributed
    if len(half) == 1 and environment[min(half)] != "1":
        missing = ({"RANK", "WORLD_SIZE"} - half).pop()
        raise ConfigError(
            f"{min(half)}={environment[min(half)]} is set and {missing} is not: set both or none, call "
            "torch.distributed.init_process_group first, or give rank= and world_size="
        )
    # A batch script is no task of Slurm: it is alone, though it sees the variables of one.
    in_script = "SLURM_JOB_ID" in environment and "SLURM_STEP_ID" not in environment
    for rank, size in _LAUNCHERS:
        if rank in environment and size in environment and not (in_script and rank == "SLURM_PROCID"):
            return _pair(rank, size)
    return None


def _pair(rank: str, size: str) -> Group:
    values = []
    for name in (rank, size):
        try:
            values.append(int(os.environ[name]))
        except ValueError:
            raise ConfigError(f"expected an integer in {name}, found {os.environ[name]!r}") from None
    if not 0 <= values[0] < values[1]:
        raise ConfigError(f"expected {rank} from 0 to below {size}, found {rank}={values[0]} and {size}={values[1]}")
    return Group(values[0], values[1], f"{rank} and {size}")
