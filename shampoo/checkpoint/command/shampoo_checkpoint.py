#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads checkpoints of shampoo (format 1, shampoo/checkpoint/README.md) with numpy, and converts
them from and to those of facebookresearch/optimizers' Distributed Shampoo.

    checkpoint = shampoo_checkpoint.open_checkpoint("checkpoints")      # the latest, or one folder
    checkpoint.user["embedding.weight"]                                 # tensors of the trainer
    checkpoint.state()["layer0.weight/factor/0/0.1024"]                 # state of the optimizer

Arrays are read when they are asked for, one at a time, and no file stays open. Numbers in bfloat16
are uint16, as numpy has no such type; with `torch=True` all are torch's tensors. Needs numpy;
verifying, and converting from the reference, need xxhash.
"""
import argparse
import collections
import contextlib
import errno
import functools
import itertools
import json
import math
import os
import pathlib
import pickle
import shutil
import sys
import typing
import uuid
import zipfile

try:
    import numpy
except ModuleNotFoundError:
    if __name__ != "__main__":
        raise
    sys.exit("shampoo_checkpoint: needs numpy: pip install numpy, or Debian's python3-numpy")

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
          "I16": "<i2", "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1",
          "BOOL": "?", "C64": "<c8", "F8_E4M3": "u1", "F8_E5M2": "u1", "F8_E8M0": "u1",
          "F8_E4M3FNUZ": "u1", "F8_E5M2FNUZ": "u1"}
LONGEST_HEADER = 100_000_000


class Tensor(typing.NamedTuple):
    """What is known of an array before it is read."""
    dtype: str  # safetensors' name
    shape: typing.Sequence[int]
    bytes: int
    read: typing.Callable[[], numpy.ndarray]


def tensor_of(dtype, shape, read):
    return Tensor(dtype, list(shape), numpy.dtype(DTYPES[dtype]).itemsize * math.prod(shape), read)


class Tensors(collections.abc.Mapping):
    """Arrays by name, read when they are asked for. `tensors` has what is known before."""

    def __init__(self, torch=False):
        self.tensors = {}
        self.torch = torch

    def __getitem__(self, name):
        tensor = self.tensors[name]
        return to_torch(tensor.read(), tensor.dtype) if self.torch else tensor.read()

    def __iter__(self):
        return iter(self.tensors)

    def __len__(self):
        return len(self.tensors)


class Shard(Tensors):
    """The tensors of one file."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > LONGEST_HEADER:
                raise ValueError(f"{path}: a header of {length} bytes")
            try:
                self.entries = json.loads(file.read(length))
                self.metadata = self.entries.pop("__metadata__", {})
                for name, entry in self.entries.items():
                    first, last = entry["data_offsets"]
                    self.tensors[name] = Tensor(entry["dtype"], entry["shape"], last - first,
                                                lambda name=name: self._read(name))
            except (ValueError, AttributeError, KeyError, TypeError) as error:
                raise ValueError(f"{path}: its header is damaged: {error}") from error
        self.begin = 8 + length

    def tensor(self, name):
        if name not in self.tensors:
            raise ValueError(f"{self.path}: there is no tensor {name}")
        return self.tensors[name]

    def raw(self, name):
        """Its bytes."""
        bytes = self.tensor(name).bytes
        raw = numpy.fromfile(self.path, "u1", bytes,
                             offset=self.begin + self.entries[name]["data_offsets"][0])
        if raw.size != bytes:
            raise ValueError(f"{self.path}: ends in {name}")
        return raw

    def _read(self, name):
        """Bytes for a type that numpy has no place for, of less than a byte."""
        dtype, shape, _, _ = self.tensor(name)
        raw = self.raw(name)
        return raw.view(DTYPES[dtype]).reshape(shape) if dtype in DTYPES else raw


def symmetric(packed):
    """The matrix whose rows up to the diagonal are packed one after the other."""
    n = int((2 * packed.size) ** 0.5)
    matrix = numpy.zeros((n, n), packed.dtype)
    matrix[numpy.tril_indices(n)] = packed
    return matrix + numpy.tril(matrix, -1).T


def to_torch(array, dtype):
    """`dtype`: safetensors' name of it."""
    import torch
    return torch.from_numpy(array.view("i2")).view(torch.bfloat16) if dtype == "BF16" \
        else torch.from_numpy(array)


class Checkpoint:
    """One complete checkpoint.

    user: tensors that all ranks share, by name. rank_user: for each rank, its own.
    values, rank_values: numbers and texts likewise. parameters: rows of the manifest by name.
    optimizers: rows of the manifest by name, with the progress of each; empty where the checkpoint
    is of one without a name. The parameter "w" of "critic" is "critic/w".
    """

    def __init__(self, folder, torch=False):
        self.folder = pathlib.Path(folder)
        if not (self.folder / "manifest.json").is_file():
            raise FileNotFoundError(f"{self.folder / 'manifest.json'}: no such regular file")
        try:
            self.manifest = json.loads((self.folder / "manifest.json").read_text("utf-8"))
        except ValueError as error:
            raise ValueError(f"{self.folder / 'manifest.json'}: is damaged: {error}") from error
        unknown = set(self.manifest.get("required_features") or ()) - {"optimizers"}
        if self.manifest.get("format") != 1 or unknown:
            raise ValueError(f"{self.folder}: format {self.manifest.get('format')} with "
                             f"{sorted(unknown)}; this reads format 1")
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
        self.optimizers = {row["name"]: row for row in self.manifest.get("optimizers", ())}
        self.user = Tensors(self.torch)
        self.rank_user = [Tensors(self.torch) for _ in range(self.manifest["ranks"])]
        for row in self.manifest["user_tensors"]:
            to = self.rank_user[row["rank"]] if "rank" in row else self.user
            to.tensors[row["name"]] = self.shards[row["file"]].tensor("user/" + row["name"])

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
        boxes = cut(row["merged_shape"], row["block_size"])
        for file, (offset, extent) in zip(row["files"], boxes):
            yield offset, extent, self.shards[file]

    def _block(self, parameter, slot, block):
        offset, extent, shard = block
        whole = extent == self.parameters[parameter]["merged_shape"]
        return shard.tensor("optimizer/" + state_name(parameter, slot, offset, whole)).read()

    def _whole(self, parameter, slot):
        row = self.parameters[parameter]
        whole = numpy.empty(row["merged_shape"], DTYPES[slot["dtype"]])
        for block in self.blocks(parameter):
            place = tuple(slice(at, at + side) for at, side in zip(*block[:2]))
            whole[place] = self._block(parameter, slot, block)
        return whole.reshape(row["shape"])

    def _array(self, parameter, slot, scale, block):
        array = self._block(parameter, slot, block)
        if slot["layout"] == "symmetric":
            array = symmetric(array)
        if scale is None:
            return array
        d = self._block(parameter, scale, block)
        return d[:, None] * array * d  # R_ij = d_i C_ij d_j

    def _tensors(self, parameter, slot):
        """What slot() gives: of a slot with one number per element by the empty text."""
        named = {slot["name"]: slot for slot in self.slots(parameter)}
        if slot not in named:
            raise KeyError(f"{parameter} has no slot {slot}, but {', '.join(named)}")
        is_root = slot.startswith("root/")
        scale = named.get(slot.replace("root/", "root_scale/")) if is_root else None
        slot, tensors = named[slot], Tensors(self.torch)
        if slot["layout"] == "elements":
            tensors.tensors[""] = tensor_of(slot["dtype"], self.parameters[parameter]["shape"],
                                            lambda: self._whole(parameter, slot))
            return tensors
        for block in self.blocks(parameter):
            n = block[1][slot["dimension"]]
            tensors.tensors[".".join(map(str, block[0]))] = tensor_of(
                (scale or slot)["dtype"], [n] if slot["layout"] == "vector" else [n, n],
                lambda block=block: self._array(parameter, slot, scale, block))
        return tensors

    def slot(self, parameter, name):
        """A slot with one number per element, in the parameter's shape, whatever its blocks; of
        another slot, an array for each block by its offset ("0.1024"), matrices unpacked."""
        tensors = self._tensors(parameter, name)
        return tensors[""] if "" in tensors else tensors

    def state(self):
        """State of the optimizer by name: "parameter/slot", or "parameter/slot/offset" where a slot
        has an array for each block."""
        state = Tensors(self.torch)
        for parameter in self.parameters:
            for slot in self.slots(parameter):
                for offset, tensor in self._tensors(parameter, slot["name"]).tensors.items():
                    name = f"{parameter}/{slot['name']}" + (offset and "/" + offset)
                    state.tensors[name] = tensor
        return state

    def verify(self):
        """Compares every checksum; raises ValueError that names file and tensor. Needs xxhash."""
        import xxhash
        text = (self.folder / "manifest.json").read_bytes()
        covered = text[:text.rindex(b",")]
        if xxhash.xxh3_64_hexdigest(covered) != self.manifest["checksum"]:
            raise ValueError(f"{self.folder / 'manifest.json'}: its checksum is another")
        for file, shard in zip(self.manifest["files"], self.shards):
            header = numpy.fromfile(shard.path, "u1", shard.begin)
            if xxhash.xxh3_64_hexdigest(header) != file["header_xxh3"]:
                raise ValueError(f"{shard.path}: the checksum of the header is another")
            sums = shard.raw("xxh3")
            if xxhash.xxh3_64_hexdigest(sums) != file["checksums_xxh3"]:
                raise ValueError(f"{shard.path}: the checksum of the checksums is another")
            names = [name for name in shard if name != "xxh3"]
            names.sort(key=lambda name: shard.entries[name]["data_offsets"])
            for name, checksum in zip(names, sums.view("<u8")):
                if xxhash.xxh3_64_intdigest(shard.raw(name)) != checksum:
                    raise ValueError(f"{shard.path}: {name}: its checksum is another")


def cut(shape, size):
    """Offset and extent of the blocks of a merged shape, in their order."""
    if 0 in shape:
        return
    for offset in itertools.product(*(range(0, side, size) for side in shape)):
        yield list(offset), [min(size, side - at) for side, at in zip(shape, offset)]


def state_name(parameter, slot, offset, whole):
    """`whole`: the block is all of the parameter."""
    name = f"{parameter}/{slot['name']}"
    return name if slot["layout"] == "elements" and whole else \
        f"{name}/{'.'.join(map(str, offset))}"


def step_folders(directory):
    """The folders step-N of a directory, complete or not, by N."""
    found = {}
    for folder in pathlib.Path(directory).glob("step-*"):
        step, _, old = folder.name.partition(".old-")
        replaced = old and (folder.parent / step).exists()
        if step[5:].isdigit() and folder.is_dir() and not replaced:
            found[folder] = int(step[5:])
    return sorted(found, key=found.get)


def list_checkpoints(directory):
    """Rows of the complete checkpoints of a directory, the latest, by sequence, last."""
    found = []
    for folder in step_folders(directory):
        try:
            if not (folder / "manifest.json").is_file():
                continue  # a pipe would be waited for
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


def is_checkpoint(path):
    """True if a folder is a checkpoint, by its content or its name, not a directory of such."""
    path = pathlib.Path(path)
    if not path.is_dir():
        raise ValueError(f"{path}: no folder" if path.exists() else f"{path}: no such folder")
    return os.path.lexists(path / "manifest.json") or \
        path.absolute() in step_folders(path.absolute().parent)


def verify(path):
    """Prints a line for each checkpoint, that in a folder or all of a directory, broken ones too.
    Returns whether there are some and all are right. Needs xxhash."""
    import xxhash  # if it is missing, that is no fault of a checkpoint
    path = pathlib.Path(path)
    folders, right = [path] if is_checkpoint(path) else step_folders(path), True
    for folder in folders:
        try:
            Checkpoint(folder).verify()
        except Exception as error:  # damage may lead to any
            print(f"{folder}: BROKEN: {error}")
            right = False
        else:
            print(f"{folder}: all checksums are right")
    if not folders:
        print(f"{path}: no checkpoint")
    return right and bool(folders)


def sync_folder(path):
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some have no fsync for folders
            raise
    finally:
        os.close(folder)


@contextlib.contextmanager
def replacing(path):
    """A file to write, beside `path`, whose place it takes once all of it is on the disk. After an
    error before that it is removed, and `path` is as it was."""
    path = pathlib.Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: no regular file")
    pending = path.with_name(f"{path.name}.{uuid.uuid4()}.tmp")
    try:
        with open(pending, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(pending, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            pending.unlink()
        if isinstance(error, OSError) and error.filename is None:
            raise OSError(error.errno, f"{error.strerror}, while {path} was written") from error
        raise
    sync_folder(path.parent)


def write_safetensors(path, tensors, metadata):
    """Writes a file, reading one tensor after the other; see replacing()."""
    header, end = {"__metadata__": metadata}, 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.bytes
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(numpy.ascontiguousarray(tensor.read()).data)


def export(checkpoint, path, what="values", shard_bytes=None):
    """Writes the trainer's shared tensors (`values`), the optimizer's `state`, or `all`, to one
    safetensors file; with `shard_bytes` to files of at most that many bytes, or of one tensor, in
    the folder `path`, with the index that Hugging Face's libraries read. A file that was there is
    replaced once the new one is on the disk. Returns the files."""
    tensors = {}
    if what in ("values", "all"):
        tensors.update(checkpoint.user.tensors)
    if what in ("state", "all"):
        tensors.update({"optimizer/" + name: x for name, x in checkpoint.state().tensors.items()})
    path = pathlib.Path(path)
    if shard_bytes is None:
        write_safetensors(path, tensors, {"format": "pt"})
        return [path]
    parts, room = [], 0
    for name, tensor in tensors.items():
        if not parts or tensor.bytes > room:
            parts.append({})
            room = shard_bytes
        parts[-1][name] = tensor
        room -= tensor.bytes
    path.mkdir(parents=True, exist_ok=True)
    files = [path / f"model-{i + 1:05}-of-{len(parts):05}.safetensors" for i in range(len(parts))]
    for file, part in zip(files, parts):
        write_safetensors(file, part, {"format": "pt"})
    index = {"metadata": {"total_size": sum(tensor.bytes for tensor in tensors.values())},
             "weight_map": {name: file.name for file, part in zip(files, parts) for name in part}}
    with replacing(path / "model.safetensors.index.json") as file:
        file.write(json.dumps(index, indent=2).encode() + b"\n")
    return files


# State dicts of facebookresearch/optimizers.

STORAGES = {"DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16",
            "BFloat16Storage": "BF16", "LongStorage": "I64", "IntStorage": "I32",
            "ShortStorage": "I16", "CharStorage": "I8", "ByteStorage": "U8", "BoolStorage": "BOOL"}
# Kinds and options there, and their names here.
PRECONDITIONERS = {"RootInvShampooPreconditionerConfig": "root_inverse",
                   "EigenvalueCorrectedShampooPreconditionerConfig": "eigenvalue_corrected"}
GRAFTINGS = {"NoneType": "none", "SGDPreconditionerConfig": "sgd",
             "AdaGradPreconditionerConfig": "adagrad", "RMSpropPreconditionerConfig": "rmsprop",
             "AdamPreconditionerConfig": "adam"}
SOLVERS = {"EigenConfig": "eigen", "CoupledNewtonConfig": "coupled_newton",
           "EighEigendecompositionConfig": "eigh", "QREigendecompositionConfig": "qr"}
SOLVER_OPTIONS = {"eigen": ("perturb_before",), "coupled_newton": ("max_iterations", "tolerance"),
                  "eigh": ("perturb_before", "tolerance"), "qr": ("max_iterations", "tolerance")}
AVERAGINGS = {"NoneType": "none", "ClassicMomentumConfig": "momentum",
              "GeneralizedPrimalAveragingConfig": "primal_averaging",
              "ScheduleFreeConfig": "schedule_free"}
MATRICES = {"root_inverse": (("factor", "symmetric", "factor_matrices"),
                             ("root", "symmetric", "inv_factor_matrices")),
            "eigenvalue_corrected": (("factor", "symmetric", "factor_matrices"),
                                     ("basis", "square", "factor_matrices_eigenvectors"))}
NEVER_CUT = 2 ** 63 - 1


class Stored(typing.NamedTuple):
    """A tensor in a file of torch.save()."""
    dtype: str
    key: str
    offset: int
    shape: typing.Sequence[int]
    strides: typing.Sequence[int]

    def view(self, storage):
        """Its elements in the storage `key`."""
        last = self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides))
        if (len(self.shape) != len(self.strides) or
                min(self.offset, *self.shape, *self.strides, 0) < 0 or
                0 not in self.shape and last >= storage.size):
            raise ValueError(f"a tensor ends outside of its storage {self.key}")
        return numpy.lib.stride_tricks.as_strided(
            storage[self.offset:], self.shape, [s * storage.itemsize for s in self.strides])


class Record:
    """An object of a class that this program does not have, with its fields."""

    def __init__(self, *arguments):
        self.arguments = arguments


class StateUnpickler(pickle.Unpickler):
    """Plain data, Stored and Record: nothing that the file names is run."""

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, strides, *_: \
                Stored(*storage, offset, shape, strides)
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        if (module, name) == ("torch", "Size"):
            return tuple
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        return type(name, (Record,), {})

    def persistent_load(self, pid):
        return pid[1:3]  # dtype and key of a storage


class Reference:
    """A file of torch.save({"model": get_model_state_dict(model), "optimizer":
    get_optimizer_state_dict(model, optimizer)}), with torch.distributed.checkpoint.state_dict."""

    def __init__(self, path):
        try:
            self.zip = zipfile.ZipFile(path)
            index, = (name for name in self.zip.namelist() if name.endswith("/data.pkl"))
            content = StateUnpickler(self.zip.open(index)).load()
        except (zipfile.BadZipFile, pickle.UnpicklingError, EOFError, ValueError, TypeError,
                LookupError, AttributeError) as error:
            raise ValueError(f"{path}: was not written by torch.save(): {error}") from error
        self.prefix = index[:-len("data.pkl")]
        try:
            self.model = content["model"]
            self.groups = content["optimizer"]["param_groups"]
            self.state = content["optimizer"]["state"]
            self.parameters = [(name, group) for group in self.groups for name in group["params"]]
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}: must have 'model' and 'optimizer', the latter with 'state' "
                             f"and 'param_groups'; lacks {error}") from error
        for name, _ in self.parameters:
            if name not in self.state or not isinstance(self.model.get(name), Stored):
                raise ValueError(f"{path}: parameter {name!r}: must be in 'model' and in the state "
                                 "of 'optimizer', by name: get_optimizer_state_dict() does that")

    def storage(self, stored):
        return numpy.frombuffer(self.zip.read(f"{self.prefix}data/{stored.key}"),
                                DTYPES[stored.dtype])

    def read(self, stored):
        return stored.view(self.storage(stored)).copy()

    def blocks(self, name, group):
        """Merged shape, longest side, and the state of each block."""
        size, order = group["max_preconditioner_dim"], \
            group["distributed_config"].target_parameter_dimensionality
        size = NEVER_CUT if math.isinf(size) else int(size)
        merged = merged_shape(self.model[name].shape, size, order)
        states = [self.state[name].get(f"block_{b}") for b, _ in enumerate(cut(merged, size))]
        if None in states:
            raise ValueError(f"parameter {name!r}: its state lacks block_{states.index(None)}: "
                             "gather all ranks', with StateDictOptions(full_state_dict=True)")
        return merged, size, states

    def find(self, name, block, keys):
        """The tensor at the keys of a block's state."""
        at = block
        for key in keys:
            at = at.get(key, at.get(str(key))) if isinstance(at, dict) else None
        if not isinstance(at, Stored):
            raise ValueError(f"parameter {name!r}: there is no tensor {'.'.join(map(str, keys))}")
        return at


def merged_shape(shape, size, order):
    """Small dimensions are merged, from the last one on."""
    if 0 in shape:
        return [0]
    if math.isinf(order):
        return list(shape)
    sides = [side for side in reversed(shape) if side != 1] or [1]
    merged = sides[:1]
    for n, side in enumerate(sides[1:], 1):
        if len(merged) + len(sides) - n > order and merged[-1] * side <= size:
            merged[-1] *= side
        else:
            merged.append(side)
    return merged[::-1]


def text_of(value):
    """As recipes have it: the shortest text that reads back as the same number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, float):
        return str(value)
    return min(numpy.format_float_positional(value, trim="-"),
               numpy.format_float_scientific(value, trim="-", exp_digits=2), key=len)


def kind_of(config, kinds, field):
    name = type(config).__name__
    if name not in kinds:
        raise ValueError(f"{field}: {name} cannot be converted, but {', '.join(kinds)}")
    return kinds[name]


def solver_fields(config):
    kind = kind_of(config, SOLVERS, "amortized_computation_config")
    options = dict(vars(config))
    if damping := options.get("rank_deficient_stability_config"):
        kind_of(damping, {"PerturbationConfig": ""}, "rank_deficient_stability_config")
        options["perturb_before"] = damping.perturb_before_computation
    return {"solver": kind, **{f"solver.{o}": options[o] for o in SOLVER_OPTIONS[kind]}}


def recipe_of(name, group):
    """Recipe and rates, as a manifest has them, of a parameter's group there."""
    try:
        return read_group(group)
    except (KeyError, AttributeError) as error:
        raise ValueError(f"parameter {name!r}: its group lacks {error}") from error
    except ValueError as error:
        raise ValueError(f"parameter {name!r}: {error}") from error


def read_group(group):
    config, grafting = group["preconditioner_config"], group["grafting_config"]
    averaging = group["iterate_averaging_config"]
    for option in ("inverse_exponent_override", "ignored_basis_change_dims"):
        if getattr(config, option, None):
            raise ValueError(f"preconditioner_config.{option}: must be empty to be converted")
    start, order = group["start_preconditioning_step"], \
        group["distributed_config"].target_parameter_dimensionality
    size = group["max_preconditioner_dim"]
    recipe = {
        "preconditioner": kind_of(config, PRECONDITIONERS, "preconditioner_config"),
        **{f"preconditioner.{field}": value for field, value in solver_fields(
            config.amortized_computation_config).items()},
        "preconditioner.drop_weighting": config.drop_weighting_factor_on_gsquare,
        "preconditioner.tolerated_failures": config.num_tolerated_failed_amortized_computations,
        "preconditioner.trace_scaling":
            config.trace_scaling_exponent if config.use_trace_scaling else "none",
        "grafting": kind_of(grafting, GRAFTINGS, "grafting_config"),
        "weight_decay": group["weight_decay_type"].arguments[-1].lower(),
        "averaging": kind_of(averaging, AVERAGINGS, "iterate_averaging_config"),
        "refresh.every": group["precondition_frequency"],
        "refresh.first": "none" if math.isinf(start) else start,
        "refresh.staggered": False,
        "blocking.size": NEVER_CUT if math.isinf(size) else size,
        "blocking.target_order": 2 ** 31 - 1 if math.isinf(order) else order,
        "bias_correction": group["use_bias_correction"]}
    if hasattr(grafting, "drop_weighting_factor_on_gsquare"):
        recipe["grafting.drop_weighting"] = grafting.drop_weighting_factor_on_gsquare
    if recipe["averaging"] == "momentum":
        recipe["averaging.nesterov"] = averaging.use_nesterov
    if recipe["averaging"] == "schedule_free":
        recipe["averaging.power"] = float(averaging.eval_coeff_lr_power)
    if recipe["refresh.first"] == "none" and recipe["preconditioner"] != "root_inverse":
        raise ValueError("start_preconditioning_step: must be finite to be converted")
    beta1, beta2 = group["betas"]
    rates = {"learning_rate": group["lr"], "beta1": beta1, "beta2": beta2,
             "epsilon": group["epsilon"], "weight_decay": group["weight_decay"],
             "beta3": None if group["beta3"] == beta1 else group["beta3"]}
    if recipe["weight_decay"] in ("corrected", "independent"):
        rates["peak_learning_rate"] = group["peak_lr"]
    for rate, owner, field in (("grafting_beta2", grafting, "beta2"),
                               ("grafting_epsilon", grafting, "epsilon"),
                               ("momentum", averaging, "momentum"),
                               ("dampening", averaging, "dampening"),
                               ("train_interpolation", averaging, "train_interp_coeff"),
                               ("evaluation_interpolation", averaging, "eval_interp_coeff")):
        if hasattr(owner, field):
            rates[rate] = getattr(owner, field)
    return {field: text_of(value) for field, value in recipe.items()}, rates


def slots_of(recipe, order):
    """For each slot of a block: the row of the table of slots, and the keys of its state there."""
    kind, slots = recipe["preconditioner"], []

    def add(name, keys, layout="elements", dimension=0):
        slots.append(({"name": name, "layout": layout, "dimension": dimension}, keys))

    if recipe["refresh.first"] != "none":
        for name, layout, key in MATRICES[kind]:
            for k in range(order):
                add(f"{name}/{k}", ("shampoo", key, k), layout, k)
    if kind == "eigenvalue_corrected":
        add("corrected_eigenvalues", ("shampoo", "corrected_eigenvalues"))
    rotated = kind == "eigenvalue_corrected" and recipe["grafting"] == "none"
    add("rotated_filtered_gradient" if rotated else "filtered_gradient", ("filtered_grad",))
    if recipe["grafting"] not in ("none", "sgd"):
        add("grafting", ("adagrad",))
    if recipe["averaging"] == "momentum":
        add("momentum", ("momentum_buffer",))
    elif recipe["averaging"] != "none":
        add("iterate", ("weight_buffer",))
    return slots


def square(array):
    """A matrix, of which the rows from the diagonal on may be packed one after the other."""
    if array.ndim == 2:
        return array
    n = (math.isqrt(1 + 8 * array.size) - 1) // 2
    matrix = numpy.zeros((n, n), array.dtype)
    matrix[numpy.triu_indices(n)] = array
    return matrix + numpy.triu(matrix, 1).T


def rotate(array, bases):
    """Into bases whose columns are eigenvectors, as they are there; out of them where the rows are,
    as here."""
    for basis in bases:
        array = numpy.tensordot(array, basis.astype("f8"), ((0,), (0,)))
    return array


def shape_of(slot, extent):
    """Of a block's slot in a file."""
    n = extent[slot["dimension"]] if extent else 1
    return {"elements": extent, "symmetric": [n * (n + 1) // 2], "square": [n, n]}[slot["layout"]]


def slot_from(reference, name, state, slots, slot, keys, extent, dtype):
    """A slot of a block, as a file has it, of the block's state there."""
    if keys == ("filtered_grad",) and "filtered_grad" not in state:
        return numpy.zeros(extent, DTYPES[dtype])  # beta1 is 0
    array = reference.read(reference.find(name, state, keys))
    if slot["name"].startswith("rotated"):
        array = rotate(array, [reference.read(reference.find(name, state, at))
                               for other, at in slots if other["layout"] == "square"])
    if slot["layout"] == "square":
        array = array.T
    if slot["layout"] == "symmetric":
        array = square(array)[numpy.tril_indices(extent[slot["dimension"]])]
    return array.astype(DTYPES[dtype])


def from_reference(path, directory, prefix="model/"):
    """Writes step-N into a directory of checkpoints, of a file of torch.save(): see Reference. The
    model's tensors become the trainer's, with `prefix` before their names. Returns the folder.
    Needs xxhash."""
    reference, tensors = Reference(path), {}
    tables = {"slots": [], "recipes": [], "rates": [], "parameters": [], "user_tensors": []}

    def row(table, entry):
        if entry not in tables[table]:
            tables[table].append(entry)
        return tables[table].index(entry)

    for name, group in reference.parameters:
        dtype, state = reference.model[name].dtype, reference.state[name]
        if dtype not in ("F32", "F64"):
            raise ValueError(f"parameter {name!r}: dtype must be F32 or F64, got {dtype}")
        if "train_mode" in state and not reference.read(state["train_mode"]):
            raise ValueError(f"parameter {name!r}: the optimizer must be in train() mode")
        recipe, rates = recipe_of(name, group)
        recipe["arithmetic"] = "float32" if dtype == "F32" else "float64"
        merged, size, states = reference.blocks(name, group)
        slots = slots_of(recipe, len(merged))
        for (offset, extent), block in zip(cut(merged, size), states):
            for slot, keys in slots:
                read = functools.partial(slot_from, reference, name, block, slots, slot, keys,
                                         extent, dtype)
                full_name = "optimizer/" + state_name(name, slot, offset, extent == merged)
                tensors[full_name] = tensor_of(dtype, shape_of(slot, extent), read)
        tables["parameters"].append({
            "name": name, "shape": list(reference.model[name].shape), "merged_shape": merged,
            "block_size": size, "steps": int(reference.read(state["step"])),
            "averaging_weight_sum":
                float(reference.read(state["lr_sum"])) if "lr_sum" in state else 0.0,
            "recipe": row("recipes", recipe), "rates": row("rates", rates),
            "slots": [row("slots", {**slot, "dtype": dtype}) for slot, _ in slots],
            "files": [0] * len(states)})
    for name, stored in reference.model.items():
        if isinstance(stored, Stored):
            tensors["user/" + prefix + name] = tensor_of(
                stored.dtype, stored.shape, functools.partial(reference.read, stored))
            tables["user_tensors"].append({"name": prefix + name, "dtype": stored.dtype,
                                           "shape": list(stored.shape), "file": 0})
    return write_checkpoint(directory, tensors, tables)


def write_checkpoint(directory, tensors, tables):
    """One rank's. It is complete or not there; when this returns, it is on the disk."""
    import xxhash
    directory, save = pathlib.Path(directory), str(uuid.uuid4())
    step = max((row["steps"] for row in tables["parameters"]), default=0)
    folder, pending = directory / f"step-{step}", directory / f"step-{step}.tmp-{save}"
    if folder.exists():
        raise FileExistsError(f"{folder}: is there already")
    sums = []

    def summed(tensor):
        array = numpy.ascontiguousarray(tensor.read())
        sums.append(xxhash.xxh3_64_intdigest(array.data.cast("B") if array.size else b""))
        return array

    largest_first = sorted(tensors.items(),
                           key=lambda item: -numpy.dtype(DTYPES[item[1].dtype]).itemsize)
    written = {name: tensor._replace(read=functools.partial(summed, tensor))
               for name, tensor in largest_first}
    written["xxh3"] = tensor_of("U8", [len(tensors), 8],
                                lambda: numpy.array(sums, "<u8").view("u1"))
    sequence = max((row["sequence"] for row in list_checkpoints(directory)), default=0) + 1
    pending.mkdir(parents=True)
    try:
        write_files(pending, written, tables, save, sequence, step)
        os.rename(pending, folder)
    except BaseException:
        shutil.rmtree(pending, ignore_errors=True)
        raise
    sync_folder(directory)
    return folder


def write_files(pending, written, tables, save, sequence, step):
    """The shard of the tensors `written`, of which the last has the checksums, and the manifest."""
    import xxhash
    shard = pending / "shard-00000-of-00001.safetensors"
    write_safetensors(shard, written, {"save": save, "step": str(step)})
    with open(shard, "rb") as file:
        header = file.read(Shard(shard).begin)
    tables = {"rank_values": [], "files": [{
        "name": shard.name, "bytes": shard.stat().st_size,
        "header_xxh3": xxhash.xxh3_64_hexdigest(header),
        "checksums_xxh3": xxhash.xxh3_64_hexdigest(Shard(shard).raw("xxh3"))}], **tables}
    as_json = lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    text = as_json({"format": 1, "save": save, "sequence": sequence, "parent": "",
                    "step": step})[:-1]
    text += ",\n" + as_json({
        "library": "shampoo_checkpoint.py", "required_features": [],
        "arithmetic": "facebookresearch/optimizers", "ranks": 1, "plan_hash": "0" * 16,
        "progress": {"attempts": step, "taken": step, "skipped_in_a_row": 0},
        "user_values": {}})[1:-1]
    for name, rows in tables.items():
        text += f',\n"{name}":[' + ",".join("\n" + as_json(row) for row in rows) + "]"
    text += f',\n"checksum":"{xxhash.xxh3_64_hexdigest(text.encode())}"}}\n'
    with replacing(pending / "manifest.json") as file:
        file.write(text.encode())


class Filled:
    """A Reference whose tensors are replaced."""

    def __init__(self, template):
        self.reference, self.storages = Reference(template), {}

    def put(self, stored, array, what):
        if list(array.shape) != list(stored.shape):
            raise ValueError(f"{what}: shape must be {list(stored.shape)}, got {list(array.shape)}")
        if stored.key not in self.storages:
            self.storages[stored.key] = self.reference.storage(stored).copy()
        stored.view(self.storages[stored.key])[...] = array

    def write(self, path):
        entries, prefix = self.reference.zip, self.reference.prefix + "data/"
        with replacing(path) as whole, zipfile.ZipFile(whole, "w") as file:
            for entry in entries.infolist():
                changed = self.storages.get(entry.filename.removeprefix(prefix))
                file.writestr(entry.filename, entries.read(entry) if changed is None
                              else changed.tobytes())


def slots_to(checkpoint, filled, name, slots, merged, size, states):
    """The blocks' state there <- a parameter's slots."""
    numbers = {slot["name"]: checkpoint.slot(name, slot["name"]) for slot, _ in slots}
    for (offset, extent), state in zip(cut(merged, size), states):
        place = tuple(slice(at, at + side) for at, side in zip(offset, extent))
        at = ".".join(map(str, offset))
        for slot, keys in slots:
            if keys == ("filtered_grad",) and "filtered_grad" not in state:
                continue  # beta1 is 0
            stored, array = filled.reference.find(name, state, keys), numbers[slot["name"]]
            array = array.reshape(merged)[place] if slot["layout"] == "elements" else array[at]
            if slot["name"].startswith("rotated"):
                array = rotate(array, [numbers[other["name"]][at] for other, _ in slots
                                       if other["layout"] == "square"])
            if slot["layout"] == "square":
                array = array.T
            if slot["layout"] == "symmetric" and len(stored.shape) == 1:
                array = array[numpy.triu_indices(len(array))]
            filled.put(stored, array, f"parameter {name!r}: {slot['name']}")


def to_reference(checkpoint, path, template, prefix="model/"):
    """Writes a file of torch.save() with the state, the steps and the model's tensors of a
    checkpoint, whose names there have `prefix` before them, and everything else, the options too,
    as it is in `template`: a file, as Reference describes, of an optimizer there with the same
    parameters, at any step."""
    filled = Filled(template)
    for name, group in filled.reference.parameters:
        what, first = f"parameter {name!r}", group["params"][0]
        if lacks := {name, first} - set(checkpoint.parameters):
            raise ValueError(f"{what}: {lacks} is not in {checkpoint.folder}")
        row, steps = checkpoint.parameters[name], checkpoint.parameters[first]["steps"]
        if row["steps"] != steps:
            raise ValueError(f"{what}: has taken {row['steps']} steps, and {first!r} of its group "
                             f"{steps}; a group there has one counter")
        merged, size, states = filled.reference.blocks(name, group)
        if [list(block[:2]) for block in checkpoint.blocks(name)] != \
                [list(box) for box in cut(merged, size)]:
            raise ValueError(f"{what}: max_preconditioner_dim and target_parameter_dimensionality "
                             f"cut {merged} at {size}, the checkpoint {row['merged_shape']} at "
                             f"{row['block_size']}")
        slots = slots_of(recipe_of(name, group)[0], len(merged))
        known = {slot["name"] for slot in checkpoint.slots(name)}
        if lacks := [slot["name"] for slot, _ in slots if slot["name"] not in known]:
            raise ValueError(f"{what}: the checkpoint has no slot {', '.join(lacks)}, but "
                             f"{', '.join(sorted(known))}: its recipe is another, or it was saved "
                             "without derived state")
        slots_to(checkpoint, filled, name, slots, merged, size, states)
        state = filled.reference.state[name]
        filled.put(state["step"], numpy.array(row["steps"]), what)
        if "lr_sum" in state:
            filled.put(state["lr_sum"], numpy.array(row["averaging_weight_sum"]), what)
    for name, stored in filled.reference.model.items():
        if not isinstance(stored, Stored):
            continue
        if prefix + name not in checkpoint.user:
            raise ValueError(f"{checkpoint.folder}: has no user tensor {prefix + name!r} for the "
                             f"model's {name!r}; another prefix says how it is called")
        filled.put(stored, checkpoint.user[prefix + name], prefix + name)
    filled.write(path)
    return path


def main():
    parser = argparse.ArgumentParser(description="Reads and converts checkpoints of shampoo.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("list", "complete checkpoints of a directory, the latest last"),
                       ("show", "tensors of a checkpoint"), ("verify", "compares all checksums"),
                       ("export", "writes safetensors files for other programs"),
                       ("convert", "from a .pt of Distributed Shampoo to a directory of "
                                   "checkpoints, or from a checkpoint to a .pt")):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("path", help="a directory of checkpoints, or one of its folders" +
                             ("; or a .pt" if name == "convert" else ""))
        if name == "export":
            command.add_argument("to", help="a file, or with --shard-bytes a folder")
            command.add_argument("--what", choices=("values", "state", "all"), default="values")
            command.add_argument("--shard-bytes", type=int)
        if name == "convert":
            command.add_argument("to", help="a directory of checkpoints, or a .pt")
            command.add_argument("--prefix", default="model/",
                                 help="of the model's tensors in the checkpoint [model/]")
            command.add_argument("--like", help="to a .pt: one of an optimizer there with the same "
                                                "parameters, at any step, whose options it gets")
    options = parser.parse_args()
    if options.command == "list":
        if is_checkpoint(options.path):
            raise ValueError(f"{options.path}: a checkpoint; name the folder that holds "
                             "checkpoints instead")
        for row in list_checkpoints(options.path):
            print(f"step {row['step']:>10}  {row['folder']}")
    elif options.command == "convert" and options.path.endswith(".pt"):
        print(from_reference(options.path, options.to, options.prefix))
    elif options.command == "convert":
        if options.like is None:
            parser.error("convert: to a .pt needs --like")
        print(to_reference(open_checkpoint(options.path), options.to, options.like, options.prefix))
    elif options.command == "show":
        checkpoint = open_checkpoint(options.path)
        for name, tensor in itertools.chain(checkpoint.user.tensors.items(),
                                            checkpoint.state().tensors.items()):
            print(f"{tensor.dtype:8} {str(list(tensor.shape)):20} {name}")
    elif options.command == "verify":
        return 0 if verify(options.path) else 1
    else:
        for file in export(open_checkpoint(options.path), options.to, options.what,
                           options.shard_bytes):
            print(file)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        print(f"shampoo_checkpoint: {error}", file=sys.stderr)
    except ModuleNotFoundError as error:
        print(f"shampoo_checkpoint: needs {error.name}: pip install {error.name}, or Debian's "
              f"python3-{error.name}", file=sys.stderr)
    sys.exit(2)  # as the command shampoo-checkpoint; 1 is what verify finds
