#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trajectories of facebookresearch/optimizers in float32, on which a run moves to the library and
back. Needs Python 3.12, torch, numpy, safetensors, and that repository:

    PYTHONPATH=OPTIMIZERS trajectories.py make [CASE ...]    # writes the files beside this one
    PYTHONPATH=OPTIMIZERS trajectories.py check CASE FROM.pt # goes on from step 5 of another run

For each case CASE-0.pt and CASE-5.pt, state dicts of the model and the optimizer after 0 and 5
steps, and CASE.safetensors: NAME/value/0, 5 and 10, NAME/gradient/1 to 10, in float64; metadata
`sensitivity` is how much the worst value of step 10, and `state_sensitivity` the worst number of
the state of step 5, moves, relative to the largest of its tensor, when every gradient entry is
multiplied by 1 + 2^-23 or 1 - 2^-23, chosen at random. A run agrees within 64 times that.
"""
import json
import pathlib
import sys

import torch
from distributed_shampoo import (
    AdaGradPreconditionerConfig, AdamPreconditionerConfig, DefaultSOAPConfig, DistributedShampoo,
    RMSpropPreconditionerConfig, RootInvShampooPreconditionerConfig, ScheduleFreeConfig,
    SingleDeviceDistributedConfig)
from distributed_shampoo.shampoo_types import ClassicMomentumConfig, WeightDecayType
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint import state_dict as dcp

FOLDER = pathlib.Path(__file__).resolve().parent
SHAPES = {"matrix": (19, 10), "vector": (13,), "cube": (2, 3, 5), "scalar": (), "thin": (1, 7)}
STEPS, HALF = 10, 5
USUAL = dict(lr=0.05, betas=(0.9, 0.95), epsilon=1e-2, weight_decay=0.1, max_preconditioner_dim=8,
             precondition_frequency=2, start_preconditioning_step=3)
CASES = {
    "shampoo": dict(
        USUAL, grafting_config=AdamPreconditionerConfig(beta2=0.98, epsilon=1e-6),
        preconditioner_config=RootInvShampooPreconditionerConfig(),
        iterate_averaging_config=ClassicMomentumConfig(momentum=0.5, use_nesterov=True)),
    "shampoo_unpacked": dict(
        USUAL, betas=(0.0, 1.0), weight_decay_type=WeightDecayType.L2,
        distributed_config=SingleDeviceDistributedConfig(target_parameter_dimensionality=2),
        preconditioner_config=RootInvShampooPreconditionerConfig(use_symmetric_packing=False)),
    "schedule_free": dict(
        USUAL, grafting_config=AdaGradPreconditionerConfig(epsilon=1e-6),
        weight_decay_type=WeightDecayType.CORRECTED, use_bias_correction=False,
        preconditioner_config=RootInvShampooPreconditionerConfig(
            use_trace_scaling=True, trace_scaling_exponent=0.25),
        iterate_averaging_config=ScheduleFreeConfig(train_interp_coeff=0.75)),
    "soap": dict(USUAL, preconditioner_config=DefaultSOAPConfig),
    "soap_grafted": dict(USUAL, beta3=0.8, preconditioner_config=DefaultSOAPConfig,
                         grafting_config=RMSpropPreconditionerConfig(beta2=0.98, epsilon=1e-6)),
}


class Run:
    def __init__(self, case):
        self.model = torch.nn.Module()
        generator = torch.Generator().manual_seed(1)
        for name, shape in SHAPES.items():
            value = torch.randn(shape, generator=generator)
            self.model.register_parameter(name, torch.nn.Parameter(value))
        self.optimizer = DistributedShampoo(self.model.parameters(), **CASES[case])

    def step(self, gradients):
        for name, parameter in self.model.named_parameters():
            parameter.grad = gradients[name].clone()
        self.optimizer.step()

    def values(self):
        return {name: p.detach().clone() for name, p in self.model.named_parameters()}

    def state(self):
        return {"model": dcp.get_model_state_dict(self.model),
                "optimizer": dcp.get_optimizer_state_dict(self.model, self.optimizer)}

    def load(self, path):
        state = torch.load(path, weights_only=False)
        dcp.set_model_state_dict(self.model, state["model"])
        dcp.set_optimizer_state_dict(self.model, self.optimizer, state["optimizer"])


def flat(tree, prefix=""):
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from flat(value, f"{prefix}{key}/")
    else:
        yield prefix[:-1], tree


def distance(found, expected):
    """The worst difference of two dicts of tensors, relative to the largest of its tensor; of
    matrices of eigenvectors without the signs."""
    worst = 0.0
    for name, x in expected.items():
        y = found[name]
        if "eigenvectors" in name:
            x, y = x.abs(), y.abs()
        if x.is_floating_point() and x.numel():
            worst = max(worst, ((y - x).abs().max() / x.abs().max().clamp(min=1e-30)).item())
    return worst


def trajectory(case, gradients):
    run = Run(case)
    values = [run.values()]
    for step in range(STEPS):
        if step == HALF:
            state = {name: x.clone() for name, x in flat(run.state()["optimizer"]["state"])}
        run.step(gradients[step])
        values.append(run.values())
    return values, state


def make(case):
    generator = torch.Generator().manual_seed(2)
    gradients = [{name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
                 for _ in range(STEPS)]
    values, state = trajectory(case, gradients)
    sensitivity = state_sensitivity = 0.0
    for _ in range(8):
        sign = lambda x: torch.randint(2, x.shape, generator=generator) * 2 - 1
        shaken = [{name: x * (1 + sign(x) * 2.0 ** -23) for name, x in gradient.items()}
                  for gradient in gradients]
        other_values, other_state = trajectory(case, shaken)
        sensitivity = max(sensitivity, distance(other_values[STEPS], values[STEPS]))
        state_sensitivity = max(state_sensitivity, distance(other_state, state))
    tensors = {f"{name}/gradient/{t + 1}": x for t, gradient in enumerate(gradients)
               for name, x in gradient.items()}
    for t in (0, HALF, STEPS):
        tensors.update({f"{name}/value/{t}": x for name, x in values[t].items()})
    save_file({name: x.double() for name, x in tensors.items()}, FOLDER / f"{case}.safetensors",
              {"case": json.dumps({"name": case, "sensitivity": sensitivity,
                                   "state_sensitivity": state_sensitivity})})
    run = Run(case)
    for step in range(HALF + 1):
        if step in (0, HALF):
            torch.save(run.state(), FOLDER / f"{case}-{step}.pt")
        run.step(gradients[step])
    print(case, "sensitivity", sensitivity, "state", state_sensitivity)


def check(case, path):
    tensors = {name: x.float() for name, x in load_file(FOLDER / f"{case}.safetensors").items()}
    run = Run(case)
    run.load(path)
    for t in range(HALF, STEPS):
        run.step({name: tensors[f"{name}/gradient/{t + 1}"] for name in SHAPES})
    with safe_open(FOLDER / f"{case}.safetensors", "pt") as file:
        limit = 64 * json.loads(file.metadata()["case"])["sensitivity"]
    worst = distance(run.values(), {name: tensors[f"{name}/value/{STEPS}"] for name in SHAPES})
    print(f"{case}: {worst} of {limit}")
    return worst <= limit


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"]:
        for each in sys.argv[2:] or CASES:
            make(each)
    elif sys.argv[1:2] == ["check"]:
        sys.exit(0 if check(*sys.argv[2:]) else 1)
    else:
        sys.exit(__doc__)
