"""Train on workers of Ray Train: FOLDER URL RUN WORKERS [BATCHES], where they stop dead after so many batches."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import ray
import torch
from journal import Journal
from ray import train
from ray.train.torch import TorchTrainer, prepare_model

from datafeed import Loader

folder, url, run, workers, *die_after = sys.argv[1:]
saved = Path(folder, "loader.json")


def loop() -> None:
    """Train one worker."""
    left = int(die_after[0]) if die_after else -1
    loader = Loader(url, batch_size=8, shuffle=True, num_workers=1)
    model = prepare_model(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    rank = train.get_context().get_world_rank()
    journal = Journal(folder, run, rank)
    if saved.exists():
        loader.load_state_dict(json.loads(saved.read_text()))
    steps = 0
    while loader.state_dict()["epoch"] < 2:
        for batch in loader:
            loss = model(batch["tokens"].float()).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            journal.note(loader, batch)
            steps += 1
            if steps % 3 == 0 and rank == 0:
                saved.write_text(json.dumps(loader.state_dict()))
            left -= 1
            if left == 0:
                os._exit(9)


ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)
scaling = train.ScalingConfig(num_workers=int(workers), use_gpu=False)
trainer = TorchTrainer(loop, scaling_config=scaling, run_config=train.RunConfig(storage_path=f"{folder}/ray"))
try:
    trainer.fit()
finally:
    ray.shutdown()
