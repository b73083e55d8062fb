"""Hold what is known of a file of sound."""

from __future__ import annotations

from typing import NamedTuple


class SoundFacts(NamedTuple):
    """Hold what is known of a file of sound.

    Attributes:
        form: Its format, for a person.
        rate: Samples a second of each channel.
        channels: How many channels it has.
        frames: How many samples each channel has.
    """

    form: str
    rate: int
    channels: int
    frames: int

    @property
    def duration_s(self) -> float:
        """How long it is."""
        return self.frames / self.rate
