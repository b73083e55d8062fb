"""Train on several processes with Accelerate: FOLDER URL RUN [BATCHES], where they stop dead after so many batches."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from journal import Journal

from datafeed import Loader

folder, url, run, *die_after = sys.argv[1:]
left = int(die_after[0]) if die_after else -1
accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
given = Loader(url, batch_size=8, shuffle=True, num_workers=1)
model, optimizer, loader = accelerator.prepare(model, optimizer, given)
assert loader is given
journal = Journal(folder, run, accelerator.process_index)
saved = Path(folder, "checkpoint")
if saved.exists():
    accelerator.load_state(str(saved))
steps = 0
while loader.state_dict()["epoch"] < 2:
    for batch in loader:
        loss = model(batch["tokens"].float()).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        journal.note(loader, batch)
        steps += 1
        if steps % 3 == 0:
            accelerator.save_state(str(saved))
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
accelerator.end_training()
