# SPDX-License-Identifier: Apache-2.0
"""Serves a TCPStore; prints its port, or that there is no torch; ends when its input does."""
import datetime
import os
import sys

os.environ["USE_LIBUV"] = sys.argv[1]
try:
    from torch.distributed import TCPStore
except ImportError:
    print("no torch")
    sys.exit()

store = TCPStore("127.0.0.1", 0, None, True, datetime.timedelta(seconds=60), False)
store.set("from python", "hello")
print(store.port, flush=True)
sys.stdin.read()
