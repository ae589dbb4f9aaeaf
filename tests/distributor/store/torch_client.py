# SPDX-License-Identifier: Apache-2.0
"""Asks the store on a port for all that the release can; prints "well" if all is, or "no torch"."""
import datetime
import sys

try:
    from torch.distributed import TCPStore
except ImportError:
    print("no torch")
    sys.exit()

seconds = datetime.timedelta(seconds=30)
store = TCPStore("127.0.0.1", int(sys.argv[1]), 1, False, seconds)
store.set("a", "one")
assert store.get("a") == b"one"
assert store.add("n", 5) == 5
assert store.add("n", -7) == -2
assert store.get("n") == b"-2"
assert store.compare_set("c", "", "v1") == b"v1"
assert store.compare_set("c", "zz", "v2") == b"v1"
assert store.compare_set("c", "v1", "v2") == b"v2"
store.wait(["a", "n"], seconds)
assert store.delete_key("c")
assert not store.delete_key("c")
count = store.num_keys()
assert count >= 3, count
store.set("big", "x" * (8 << 20))
assert len(store.get("big")) == 8 << 20
try:
    store.wait(["never"], datetime.timedelta(milliseconds=100))
except Exception:
    pass
else:
    raise AssertionError("waited for nothing")

if hasattr(store, "append"):
    store.append("a", "+two")
    assert store.get("a") == b"one+two"
if hasattr(store, "multi_set"):
    store.multi_set(["m1", "m2"], ["1", "22"])
    assert store.multi_get(["m1", "m2"]) == [b"1", b"22"]
if hasattr(store, "check"):
    assert store.check(["a", "n"]) and not store.check(["a", "never"])
print("well")
