"""Train on one process with plain PyTorch: FOLDER URL RUN [BATCHES], where it stops dead after so many batches."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import torch
from journal import Journal

from datafeed import Loader

folder, url, run, *die_after = sys.argv[1:]
left = int(die_after[0]) if die_after else -1
loader = Loader(url, batch_size=8, shuffle=True, num_workers=2, lanes=12, on_sigterm=f"{folder}/at-sigterm.json")
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
journal = Journal(folder, run, 0)
saved = Path(folder, "checkpoint.pt")
if saved.exists():
    checkpoint = torch.load(saved)
    model.load_state_dict(checkpoint["model"])
    loader.load_state_dict(checkpoint["loader"])
if Path(folder, "at-sigterm.json").exists():
    loader.load_state_dict(json.loads(Path(folder, "at-sigterm.json").read_text()))
steps = 0
while loader.state_dict()["epoch"] < 2:
    for batch in loader:
        loss = model(batch["tokens"].float()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        journal.note(loader, batch)
        steps += 1
        if steps % 3 == 0:
            torch.save({"model": model.state_dict(), "loader": loader.state_dict()}, saved)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGTERM if run == "sigterm" else signal.SIGKILL)
