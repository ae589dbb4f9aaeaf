#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads checkpoints of shampoo (format 1, shampoo/checkpoint/README.md) with numpy.

    checkpoint = shampoo_checkpoint.open_checkpoint("checkpoints")      # the latest, or one folder
    checkpoint.user["embedding.weight"]                                 # tensors of the trainer
    checkpoint.state()["layer0.weight/factor/0/0.1024"]                 # state of the optimizer

Arrays of the trainer are views of the files, which stay open as long as one lives. Numbers in
bfloat16 are uint16, as numpy has no such type; with `torch=True` all are torch's tensors. Needs
numpy; exporting needs safetensors, verifying xxhash.
"""
import argparse
import collections.abc
import itertools
import json
import pathlib
import sys

import numpy

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
          "I16": "<i2", "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1",
          "BOOL": "?", "C64": "<c8", "F8_E4M3": "u1", "F8_E5M2": "u1", "F8_E8M0": "u1",
          "F8_E4M3FNUZ": "u1", "F8_E5M2FNUZ": "u1"}
LONGEST_HEADER = 100_000_000


class Shard(collections.abc.Mapping):
    """Tensors of one file by name, read when they are used."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > LONGEST_HEADER:
                raise ValueError(f"{path}: a header of {length} bytes")
            try:
                self.entries = json.loads(file.read(length))
                self.metadata = self.entries.pop("__metadata__", {})
            except (ValueError, AttributeError) as error:
                raise ValueError(f"{path}: its header is damaged: {error}") from error
        self.begin = 8 + length
        self.bytes = numpy.memmap(path, "u1", "r")

    def raw(self, name):
        first, last = self._entry(name, "data_offsets")
        return self.bytes[self.begin + first:self.begin + last]

    def dtype(self, name):
        return self._entry(name, "dtype")

    def _entry(self, name, field):
        try:
            return self.entries[name][field]
        except (KeyError, TypeError) as error:
            raise ValueError(f"{self.path}: there is no tensor {name}") from error

    def __getitem__(self, name):
        """Bytes for a type that numpy has no place for, of less than a byte."""
        dtype = self.dtype(name)
        if dtype not in DTYPES:
            return self.raw(name)
        return self.raw(name).view(DTYPES[dtype]).reshape(self._entry(name, "shape"))

    def __iter__(self):
        return iter(self.entries)

    def __len__(self):
        return len(self.entries)


def symmetric(packed):
    """The matrix whose rows up to the diagonal are packed one after the other."""
    n = int((2 * packed.size) ** 0.5)
    matrix = numpy.zeros((n, n), packed.dtype)
    matrix[numpy.tril_indices(n)] = packed
    return matrix + numpy.tril(matrix, -1).T


def to_torch(array, dtype):
    """`dtype`: safetensors' name of it."""
    import torch
    array = numpy.array(array)
    return torch.from_numpy(array.view("i2")).view(torch.bfloat16) if dtype == "BF16" \
        else torch.from_numpy(array)


class Checkpoint:
    """One complete checkpoint.

    user: tensors that all ranks share, by name. rank_user: for each rank, its own.
    values, rank_values: numbers and texts likewise. parameters: rows of the manifest by name.
    """

    def __init__(self, folder, torch=False):
        self.folder = pathlib.Path(folder)
        try:
            self.manifest = json.loads((self.folder / "manifest.json").read_text("utf-8"))
        except ValueError as error:
            raise ValueError(f"{self.folder / 'manifest.json'}: is damaged: {error}") from error
        if self.manifest.get("format") != 1 or self.manifest.get("required_features"):
            raise ValueError(f"{self.folder}: format {self.manifest.get('format')} with "
                             f"{self.manifest.get('required_features')}; this reads format 1")
        self.torch = torch
        try:
            self._open()
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"{self.folder / 'manifest.json'}: lacks {error}") from error

    def _open(self):
        self.shards = []
        for file in self.manifest["files"]:
            path = self.folder / file["name"]
            if path.stat().st_size != file["bytes"]:
                raise ValueError(f"{path}: {path.stat().st_size} bytes instead of {file['bytes']}")
            self.shards.append(Shard(path))
        self.values = self.manifest["user_values"]
        self.rank_values = self.manifest["rank_values"]
        self.parameters = {row["name"]: row for row in self.manifest["parameters"]}
        self.user, self.rank_user = {}, [{} for _ in range(self.manifest["ranks"])]
        for row in self.manifest["user_tensors"]:
            shard, name = self.shards[row["file"]], "user/" + row["name"]
            to = self.rank_user[row["rank"]] if "rank" in row else self.user
            to[row["name"]] = self._out(shard[name], shard.dtype(name))

    def _out(self, array, dtype):
        return to_torch(array, dtype) if self.torch else array

    def slots(self, parameter):
        """Rows of the table of slots: name, layout, dimension, dtype."""
        return [self.manifest["slots"][s] for s in self.parameters[parameter]["slots"]]

    def recipe(self, parameter):
        return self.manifest["recipes"][self.parameters[parameter]["recipe"]]

    def rates(self, parameter):
        return self.manifest["rates"][self.parameters[parameter]["rates"]]

    def blocks(self, parameter):
        """Offset, extent and shard of each block, in the parameter's merged shape."""
        row = self.parameters[parameter]
        size, shape = row["block_size"], row["merged_shape"]
        cells = itertools.product(*(range(0, side, size) for side in shape))
        for file, offset in zip(row["files"], cells):
            extent = [min(size, side - at) for side, at in zip(shape, offset)]
            yield list(offset), extent, self.shards[file]

    def _block(self, parameter, slot, offset, extent, shard):
        name = f"optimizer/{parameter}/{slot['name']}"
        whole = extent == self.parameters[parameter]["merged_shape"]
        if slot["layout"] != "elements" or not whole:
            name += "/" + ".".join(map(str, offset))
        return shard[name]

    def slot(self, parameter, name):
        """A slot with one number per element, in the parameter's shape, whatever its blocks; of
        another slot, an array for each block by its offset ("0.1024"), matrices unpacked."""
        named = {slot["name"]: slot for slot in self.slots(parameter)}
        if name not in named:
            raise KeyError(f"{parameter} has no slot {name}, but {', '.join(named)}")
        slot = named[name]
        if slot["layout"] == "elements":
            row = self.parameters[parameter]
            whole = numpy.empty(row["merged_shape"], DTYPES[slot["dtype"]])
            for offset, extent, shard in self.blocks(parameter):
                place = tuple(slice(at, at + side) for at, side in zip(offset, extent))
                whole[place] = self._block(parameter, slot, offset, extent, shard)
            return self._out(whole.reshape(row["shape"]), slot["dtype"])
        scale = named.get(name.replace("root/", "root_scale/")) if name.startswith("root/") else None
        arrays = {}
        for offset, extent, shard in self.blocks(parameter):
            array = self._block(parameter, slot, offset, extent, shard)
            dtype = slot["dtype"]
            if slot["layout"] == "symmetric":
                array = symmetric(array)
            if scale is not None:  # R_ij = d_i C_ij d_j
                d = self._block(parameter, scale, offset, extent, shard)
                array, dtype = d[:, None] * array * d, scale["dtype"]
            arrays[".".join(map(str, offset))] = self._out(array, dtype)
        return arrays

    def state(self):
        """State of the optimizer by name: "parameter/slot", or "parameter/slot/offset" where a slot
        has an array for each block."""
        state = {}
        for parameter in self.parameters:
            for slot in self.slots(parameter):
                name = f"{parameter}/{slot['name']}"
                found = self.slot(parameter, slot["name"])
                if isinstance(found, dict):
                    state.update({f"{name}/{offset}": array for offset, array in found.items()})
                else:
                    state[name] = found
        return state

    def verify(self):
        """Compares every checksum; raises ValueError that names file and tensor. Needs xxhash."""
        import xxhash
        text = (self.folder / "manifest.json").read_bytes()
        covered = text[:text.rindex(b",")]
        if xxhash.xxh3_64_hexdigest(covered) != self.manifest["checksum"]:
            raise ValueError(f"{self.folder / 'manifest.json'}: its checksum is another")
        for file, shard in zip(self.manifest["files"], self.shards):
            if xxhash.xxh3_64_hexdigest(shard.bytes[:shard.begin]) != file["header_xxh3"]:
                raise ValueError(f"{shard.path}: the checksum of the header is another")
            sums = shard.raw("xxh3")
            if xxhash.xxh3_64_hexdigest(sums) != file["checksums_xxh3"]:
                raise ValueError(f"{shard.path}: the checksum of the checksums is another")
            names = [name for name in shard if name != "xxh3"]
            names.sort(key=lambda name: shard.entries[name]["data_offsets"])
            for name, checksum in zip(names, sums.view("<u8")):
                if xxhash.xxh3_64_intdigest(shard.raw(name)) != checksum:
                    raise ValueError(f"{shard.path}: {name}: its checksum is another")


def list_checkpoints(directory):
    """Rows of the complete checkpoints of a directory, the latest, by sequence, last."""
    found = []
    for folder in pathlib.Path(directory).glob("step-*"):
        step, _, old = folder.name.partition(".old-")
        if not step[5:].isdigit() or (old and (folder.parent / step).exists()):
            continue
        try:
            manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
            row = {key: manifest.get(key, 0) for key in ("step", "sequence", "save", "parent")}
            if any((folder / file["name"]).stat().st_size != file["bytes"]
                   for file in manifest["files"]):
                continue
        except (OSError, ValueError, KeyError, AttributeError):
            continue  # broken
        found.append({**row, "folder": folder})
    return sorted(found, key=lambda row: row["sequence"])


def open_checkpoint(path, torch=False):
    """The checkpoint in a folder step-N, or the latest in a directory of such."""
    path = pathlib.Path(path)
    if (path / "manifest.json").is_file():
        return Checkpoint(path, torch)
    found = list_checkpoints(path)
    if not found:
        raise FileNotFoundError(f"{path}: no checkpoint")
    return Checkpoint(found[-1]["folder"], torch)


def export(checkpoint, path, what="values", shard_bytes=None):
    """Writes the trainer's shared tensors (`values`), the optimizer's `state`, or `all`, to one
    safetensors file; with `shard_bytes` to files of at most that many bytes, or of one tensor, in
    the folder `path`, with the index that Hugging Face's libraries read. Returns the files."""
    from safetensors.numpy import save_file
    tensors = {}
    if what in ("values", "all"):
        tensors.update(checkpoint.user)
    if what in ("state", "all"):
        tensors.update({"optimizer/" + name: x for name, x in checkpoint.state().items()})
    save = save_file
    if checkpoint.torch:
        from safetensors.torch import save_file as save
    size = lambda x: x.numel() * x.element_size() if checkpoint.torch else x.nbytes
    path = pathlib.Path(path)
    if shard_bytes is None:
        save(tensors, path, {"format": "pt"})
        return [path]
    parts, room = [], 0
    for name, x in tensors.items():
        if not parts or size(x) > room:
            parts.append({})
            room = shard_bytes
        parts[-1][name] = x
        room -= size(x)
    path.mkdir(parents=True, exist_ok=True)
    files = [path / f"model-{i + 1:05}-of-{len(parts):05}.safetensors" for i in range(len(parts))]
    for file, part in zip(files, parts):
        save(part, file, {"format": "pt"})
    index = {"metadata": {"total_size": sum(map(size, tensors.values()))},
             "weight_map": {name: file.name for file, part in zip(files, parts) for name in part}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    return files


def main():
    parser = argparse.ArgumentParser(description="Reads checkpoints of shampoo.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("list", "complete checkpoints of a directory, the latest last"),
                       ("show", "tensors of a checkpoint"), ("verify", "compares all checksums"),
                       ("export", "writes safetensors files for other programs")):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("path", help="a directory of checkpoints, or one of its folders")
        if name == "export":
            command.add_argument("to", help="a file, or with --shard-bytes a folder")
            command.add_argument("--what", choices=("values", "state", "all"), default="values")
            command.add_argument("--shard-bytes", type=int)
    options = parser.parse_args()
    if options.command == "list":
        for row in list_checkpoints(options.path):
            print(f"step {row['step']:>10}  {row['folder']}")
        return
    # torch has bfloat16, which numpy lacks.
    checkpoint = open_checkpoint(options.path)
    if options.command == "export" and any("BF16" == shard.dtype(name)
                                           for shard in checkpoint.shards for name in shard):
        checkpoint = open_checkpoint(options.path, torch=True)
    if options.command == "show":
        for name, x in itertools.chain(checkpoint.user.items(), checkpoint.state().items()):
            print(f"{str(x.dtype):8} {str(list(x.shape)):20} {name}")
    elif options.command == "verify":
        checkpoint.verify()
        print(f"{checkpoint.folder}: all checksums are right")
    else:
        for file in export(checkpoint, options.to, options.what, options.shard_bytes):
            print(file)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"shampoo_checkpoint: {error}")
    except ImportError as error:
        sys.exit(f"shampoo_checkpoint: {error}; pip install numpy safetensors xxhash torch")
