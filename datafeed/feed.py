"""Iterate over the epochs of a converted dataset."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from datafeed import sigterm
from datafeed.agree import agree
from datafeed.cache.pinned import Pinned
from datafeed.dataset import Dataset
from datafeed.epoch import EpochIterator, Plan, Progress
from datafeed.errors import ConfigError
from datafeed.holding import device_tier
from datafeed.making import Maker
from datafeed.mixed import MixedDataset
from datafeed.options import MASK, FeedOptions
from datafeed.order import Spec, round_window
from datafeed.ranks import Group, check_lanes, choose_lanes
from datafeed.share import Cut
from datafeed.sizes import whole_number
from datafeed.state import OrderIdentity, Position, read_state, write_state
from datafeed.stats import LoaderStats


class Feed:
    """Count the epochs of one dataset, and begin them.

    Args:
        dataset: The dataset, or several mixed.
        options: How it is fed.

    Raises:
        ConfigError: The recipe does not fit the dataset.
        SchemaError: A column is unknown.
    """

    def __init__(self, dataset: Dataset | MixedDataset, options: FeedOptions) -> None:
        self.dataset = dataset
        self.options = options
        self._next = Position(0, 0)
        self._lanes = options.lanes
        self._newest: Progress | None = None
        self._measured: Progress | None = None
        self._made: Maker | None = None
        self._maker(options.most_in_a_batch)  # a mistake in the recipe is told here, not at the first batch
        self._tier = device_tier(dataset, options)
        for tiered in [each.tiered for each in dataset.read_from if each.cache is not None]:
            if tiered is not None:
                tiered.check()
                if options.device is not None and options.device.type == "cuda":
                    tiered.make = Pinned()
        if MASK in dataset.schema and options.mask is not False:
            raise ConfigError(f"the dataset has a feature {MASK!r}, where batches tell repeats: give mask=False")

    def __getstate__(self) -> dict[str, object]:
        return {
            **vars(self),
            "_next": self._where(),
            "_lanes": self._lanes if self._newest is None else self._newest.plan.spec.lanes,
            "_newest": None,
            "_measured": None,
            "_made": None,
            "_tier": None,
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._tier = device_tier(self.dataset, self.options)

    def __len__(self) -> int:
        cut = self._cut(Position(0, 0), self.options.ranks.group())
        samples = cut.samples(natural=self.options.mode == "natural")
        return (samples + cut.batch_size - 1) // cut.batch_size

    def __iter__(self) -> EpochIterator:
        begin, group = self._next, self.options.ranks.group()
        cut = self._cut(begin, group)
        spec = self._spec(self._lanes or self._choose_lanes(cut.share.ranks))
        if self.dataset.laned(spec.mode):
            check_lanes(spec.lanes, cut.share.ranks)
        plan = Plan(begin.epoch, spec, cut, cut.own(natural=spec.mode == "natural"))
        if self.options.on_sigterm is not None:
            sigterm.save_on_sigterm(self, self.options.on_sigterm)
        maker = self._maker(cut.batch_size)
        iterator = EpochIterator(self.dataset, self.options, maker, plan, partial(self._agree, group, plan), self._tier)
        self._newest = self._measured = iterator.progress
        self._next = Position(begin.epoch + 1, 0)
        return iterator

    def batch_size(self) -> int:
        """Return how many samples a batch of this rank has."""
        return self.options.size_for(self._ranks_now())

    def set_epoch(self, epoch: int) -> None:
        """Fix the epoch that the next `iter` begins; a position loaded for the same epoch is kept."""
        epoch = whole_number("epoch", epoch, 0)
        if epoch != self._next.epoch:
            self._next = Position(epoch, 0)
        self._newest = None

    def state_dict(self) -> dict[str, object]:
        """Return where the newest iterator stands, or where the next one will begin."""
        return write_state(self._identity(self._spec_now()), self._where())

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Make the next `iter` begin where a state says.

        Raises:
            StateMismatch: The state belongs to another dataset, order or version.
            ConfigError: Its lanes cannot be shared out among the ranks.
        """
        lanes = self._lanes_of(state)
        position = read_state(self._identity(self._spec(lanes)), state)
        if self.dataset.laned(self.options.mode):
            check_lanes(lanes, self._ranks_now())
        self._next, self._lanes = position, lanes
        self._newest = None

    def stats(self) -> LoaderStats:
        """Return the figures of the newest iterator; zeros before the first."""
        return LoaderStats() if self._measured is None else self._measured.stats()

    def _where(self) -> Position:
        return self._next if self._newest is None else self._newest.position

    def _maker(self, batch_size: int) -> Maker:
        """Return what makes batches of a size; it keeps their memory from epoch to epoch."""
        if self._made is None or self._made.batch_size != batch_size:
            options = self.options
            self._made = Maker(self.dataset, options.recipe, options.seed, batch_size, options.ahead + 1)
        return self._made

    def _cut(self, begin: Position, group: Group) -> Cut:
        options = self.options
        share = options.ranks.share(group)
        size = options.size_for(share.ranks)
        return Cut(begin.record, len(self.dataset), size, share, options.drop_last, options.pad)

    def _spec(self, lanes: int) -> Spec:
        """Return the order, with its window in records."""
        records, options = max(1, len(self.dataset)), self.options
        if options.mode != "window":
            return Spec(options.mode, options.seed, lanes if self.dataset.laned(options.mode) else 1)
        record_bytes = max(1, self.dataset.held_nbytes // records)
        window = min(options.window // record_bytes, records) // lanes
        return Spec("window", options.seed, lanes, round_window(window))

    def _spec_now(self) -> Spec:
        """Return the order of the newest iterator, or of the next one."""
        if self._newest is not None:
            return self._newest.plan.spec
        return self._spec(self._lanes or self._choose_lanes(self._ranks_now()))

    def _lanes_of(self, state: Mapping[str, object]) -> int:
        """Return the lanes to go on with: where none were given, those of the state."""
        if self.options.lanes is None and self.dataset.laned(self.options.mode) and isinstance(state, Mapping):
            adopted = state.get("lanes")
            if isinstance(adopted, int) and adopted >= 1:
                return adopted
        return self.options.lanes or self._choose_lanes(self._ranks_now())

    def _choose_lanes(self, ranks: int) -> int:
        dataset = self.dataset
        runs = isinstance(dataset, MixedDataset) and dataset.laned(self.options.mode)
        return choose_lanes(ranks, dataset.mix.run if runs else 1)  # type: ignore[union-attr]  # just asked

    def _ranks_now(self) -> int:
        ranks = self.options.ranks
        return ranks.share(ranks.group()).ranks

    def _identity(self, spec: Spec) -> OrderIdentity:
        dataset = self.dataset
        return OrderIdentity(dataset.digest, len(dataset), dataset.extent_size, spec)

    def _agree(self, group: Group, plan: Plan) -> None:
        """Compare with the other ranks what is about to be read, where torch.distributed knows them all."""
        if not group.compared:
            return
        options, cut = self.options, plan.cut
        facts = {
            **write_state(self._identity(plan.spec), Position(plan.epoch, cut.start)),
            "ranks": cut.share.ranks,
            "batch_size": cut.batch_size,
            "drop_last": options.drop_last,
            "pad": options.pad,
            "reads_as": cut.share.rank,
        }
        agree(facts, options.timeout_s)
