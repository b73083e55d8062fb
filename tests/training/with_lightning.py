"""Train on two processes with Lightning: FOLDER URL RUN [BATCHES], where they stop dead after so many batches."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from pathlib import Path

import lightning
import torch
from journal import Journal

from datafeed import Loader

warnings.filterwarnings("ignore", module="lightning")
folder, url, run, *die_after = sys.argv[1:]
saved = Path(folder, "last.ckpt")
loader = Loader(url, batch_size=8, shuffle=True, num_workers=1)
print(len(loader), "batches a rank")  # noqa: T201  (a script that asks before the processes know each other)


class Model(lightning.LightningModule):
    """Fit nothing in particular."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 1)
        self.left = int(die_after[0]) if die_after else -1

    def training_step(self, batch: dict[str, torch.Tensor], _number: int) -> torch.Tensor:
        """Return the loss."""
        return self.linear(batch["tokens"].float()).square().mean()

    def on_train_batch_end(self, _outputs: object, batch: dict[str, object], _number: int) -> None:
        """Save now and then."""
        if not hasattr(self, "journal"):
            self.journal = Journal(folder, run, self.global_rank)
        self.journal.note(loader, batch)
        if self.global_step % 3 == 0:
            self.trainer.save_checkpoint(saved)
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.SGD(self.parameters(), lr=1e-9)


trainer = lightning.Trainer(
    accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
trainer.fit(Model(), loader, ckpt_path=saved if saved.exists() else None)
