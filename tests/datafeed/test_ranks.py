"""Check who says which of how many ranks a process is, and which share of the data it reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from datafeed.errors import ConfigError
from datafeed.order import Share
from datafeed.ranks import Group, RankOptions, check_lanes, choose_lanes

VARIABLES = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_STEP_ID",
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """A process group of torch.distributed with one rank."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=getattr(request, "param", 1))
    yield
    dist.destroy_process_group()


def place(**options: object) -> tuple[int, int]:
    """Return the rank and the world size."""
    group = RankOptions(**options).group()  # type: ignore[arg-type]
    return group.rank, group.world_size


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (0, 1)),
        ({"RANK": "1", "WORLD_SIZE": "4"}, (1, 4)),
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "8"}, (3, 8)),
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "9", "SLURM_STEP_ID": "0"}, (3, 8)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3"}, (2, 3)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, (1, 2)),
        ({"SLURM_NTASKS": "8"}, (0, 1)),
        ({"WORLD_SIZE": "1"}, (0, 1)),
    ],
)
def test_the_launchers_variables_are_read(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: tuple[int, int]
) -> None:
    """When they are asked for."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert place() == expected


def test_what_a_launcher_inside_another_says_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torchrun under srun: a process of Slurm for each node, of torchrun for each GPU."""
    for name, value in {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "RANK": "11", "WORLD_SIZE": "16"}.items():
        monkeypatch.setenv(name, value)
    assert place() == (11, 16)


def test_a_batch_script_of_slurm_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sees the variables of its job, but srun did not start it: reading an eighth would lose the rest in silence."""
    for name, value in {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "9"}.items():
        monkeypatch.setenv(name, value)
    assert place() == (0, 1)


def test_a_child_of_lightning_knows_its_rank_before_torch_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its launcher sets no RANK."""
    for name, value in {"NODE_RANK": "0", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    assert place() == (1, 2)


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE=2 is set and RANK is not"),
        ({"RANK": "0"}, "RANK=0 is set and WORLD_SIZE is not"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 and WORLD_SIZE=2"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, "expected an integer in RANK, found 'one'"),
    ],
)
def test_variables_that_make_no_sense_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], named: str
) -> None:
    """Nothing is guessed."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=named):
        RankOptions().group()


def test_torch_distributed_comes_before_the_variables(monkeypatch: pytest.MonkeyPatch, alone: None) -> None:  # noqa: ARG001
    """It is what the training itself uses."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert place() == (0, 1)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"rank": 0}, "rank= needs world_size="),
        ({"world_size": 2}, "world_size= needs rank="),
        ({"rank": 2, "world_size": 2}, "rank must be below world_size=2, found 2"),
        ({"rank": -1, "world_size": 2}, "rank must be at least 0"),
        ({"rank": "0", "world_size": 2}, "rank must be an integer"),
        ({"replicas": 0}, "replicas must be at least 1"),
        ({"replicas": "tp"}, "replicas must be a number of ranks, a mapping"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object], named: str) -> None:
    """Each says what is expected."""
    with pytest.raises(ConfigError, match=named):
        RankOptions(**options)  # type: ignore[arg-type]


def test_a_given_rank_that_contradicts_the_launcher_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The local rank given for the rank would read some data twice; another number of ranks is no contradiction."""
    monkeypatch.setenv("RANK", "9")
    monkeypatch.setenv("WORLD_SIZE", "16")
    with pytest.raises(
        ConfigError, match="rank=1 of 16 was given, but RANK and WORLD_SIZE says that this is rank 9 of 16"
    ):
        place(rank=1, world_size=16)
    assert place(rank=0, world_size=1) == (0, 1)
    assert place(rank=9, world_size=16) == (9, 16)


@pytest.mark.parametrize(
    ("replicas", "shares"),
    [
        (1, [0, 1, 2, 3]),
        (2, [0, 0, 1, 1]),
        (4, [0, 0, 0, 0]),
        ({0: 0, 1: 1, 2: 0, 3: 1}, [0, 1, 0, 1]),
        (lambda rank: rank % 2, [0, 1, 0, 1]),
    ],
)
def test_replicas_read_the_same_share(replicas: object, shares: list[int]) -> None:
    """In a row, or as a mapping or function says."""
    options = RankOptions(replicas=replicas)  # type: ignore[arg-type]
    found = [options.share(Group(rank, 4, "a test")) for rank in range(4)]
    assert found == [Share(rank, max(shares) + 1) for rank in shares]


@pytest.mark.parametrize(
    ("replicas", "named"),
    [
        (3, "replicas=3 does not divide the 4 ranks that a test says"),
        ({0: 0}, "replicas= names no data-parallel rank for rank 1"),
        (lambda rank: rank * 2, "expected each number from 0 to 6 at least once"),
        (lambda rank: rank / 2, "the data-parallel rank that replicas= gives rank 0 must be an integer"),
    ],
)
def test_replicas_that_do_not_fit_are_refused(replicas: object, named: str) -> None:
    """With the numbers."""
    with pytest.raises(ConfigError, match=named):
        RankOptions(replicas=replicas).share(Group(0, 4, "a test"))  # type: ignore[arg-type]


def test_a_mesh_gives_the_share_of_its_dimensions(alone: None) -> None:  # noqa: ARG001
    """Of one rank here; runs of several processes check the others."""
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    assert RankOptions(replicas=mesh["dp"]).share(RankOptions().group()) == Share(0, 1)


@pytest.mark.parametrize(("ranks", "lanes"), [(1, 48), (5, 50), (7, 49), (8, 48), (48, 48), (64, 64)])
def test_lanes_are_the_least_multiple_of_the_ranks_from_48_on(ranks: int, lanes: int) -> None:
    """So that they can be shared out."""
    assert choose_lanes(ranks) == lanes
    check_lanes(lanes, ranks)


def test_lanes_that_cannot_be_shared_out_are_refused_with_numbers_that_can() -> None:
    """Both of lanes and of ranks."""
    named = r"lanes=48 cannot be shared out among 5 ranks: .* 1, 2, 3, 4, 6, 8, 12, 16, 24, 48 of them.*lanes=50"
    with pytest.raises(ConfigError, match=named):
        check_lanes(48, 5)
