# SPDX-License-Identifier: Apache-2.0
"""A worker that knows nothing of this library: sums the ranks with PyTorch, fails in attempt 0."""
import os
import sys

import torch
import torch.distributed

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
total = torch.tensor([float(rank)])
torch.distributed.all_reduce(total)
place = f"rank {rank} of {torch.distributed.get_world_size()}"
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
# In one write, so that workers do not mix their lines.
os.write(1, f"torch {torch.__version__}: {place}, attempt {attempt}, sum {total.item()}\n".encode())
torch.distributed.barrier()
if attempt == "0" and rank == 1:
    sys.exit(3)
torch.distributed.destroy_process_group()
