"""Train on several processes with DistributedDataParallel: FOLDER URL RUN [BATCHES], where they stop dead."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from journal import Journal
from torch.nn.parallel import DistributedDataParallel

from datafeed import Loader

folder, url, run, *die_after = sys.argv[1:]
left = int(die_after[0]) if die_after else -1
dist.init_process_group("gloo")
loader = Loader(url, global_batch_size=16, shuffle=True, num_workers=1)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
journal = Journal(folder, run, dist.get_rank())
saved = Path(folder, "checkpoint")
parts = {"model": model.module, "loader": loader}
if saved.exists():
    dcp.load(parts, checkpoint_id=saved)
steps = 0
while loader.state_dict()["epoch"] < 2:
    for batch in loader:
        samples = model(batch["tokens"].float()).squeeze(1)
        loss = (samples.square() * batch["_mask"]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        journal.note(loader, batch)
        steps += 1
        if steps % 3 == 0:
            dcp.save(parts, checkpoint_id=saved)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
dist.barrier()
dist.destroy_process_group()
