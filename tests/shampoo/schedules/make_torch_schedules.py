#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the values of torch's schedulers, which schedule_torch_test compares ours with:

    python3 tests/shampoo/schedules/make_torch_schedules.py >tests/shampoo/schedules/torch_schedules.txt

A line is the name of a case, the base rate, and get_last_lr() of every step, in hexadecimal. The table here is
of torch 2.15.0, PyPI's newest in November 2026 (tests/pypi_environment.sh). That of torch 1.13 had the same
bits but in sequence_of_many, where a MultiplicativeLR that took over in a SequentialLR did not yet multiply in
its step 0."""
import math
import warnings

import torch
from torch.optim import lr_scheduler as torch_schedules

STEPS = 40
BASES = (0.1, 3e-4, 0.7)


def inverse_square_root(steps):
    return lambda t: 1.0 / math.sqrt(1.0 + t / steps)


MAKERS = {
    "constant": lambda o, _: torch_schedules.ConstantLR(o, factor=0.3, total_iters=7),
    "constant_default": lambda o, _: torch_schedules.ConstantLR(o),
    "linear": lambda o, _: torch_schedules.LinearLR(o, start_factor=1.0 / 3, end_factor=0.9, total_iters=11),
    "linear_default": lambda o, _: torch_schedules.LinearLR(o),
    "linear_to_zero": lambda o, _: torch_schedules.LinearLR(o, start_factor=1.0, end_factor=0.0, total_iters=13),
    "polynomial": lambda o, _: torch_schedules.PolynomialLR(o, total_iters=17, power=1.0),
    "polynomial_power": lambda o, _: torch_schedules.PolynomialLR(o, total_iters=29, power=2.5),
    "inverse_square_root": lambda o, _: torch_schedules.LambdaLR(o, inverse_square_root(10)),
    "exponential": lambda o, _: torch_schedules.ExponentialLR(o, gamma=0.93),
    "step": lambda o, _: torch_schedules.StepLR(o, step_size=7, gamma=0.3),
    "milestones": lambda o, _: torch_schedules.MultiStepLR(o, milestones=[3, 5, 5, 21], gamma=0.7),
    "cosine": lambda o, _: torch_schedules.CosineAnnealingLR(o, T_max=40),
    "cosine_minimum": lambda o, _: torch_schedules.CosineAnnealingLR(o, T_max=9, eta_min=1e-5),
    "cosine_of_one": lambda o, _: torch_schedules.CosineAnnealingLR(o, T_max=1),
    "warm_restarts": lambda o, _: torch_schedules.CosineAnnealingWarmRestarts(o, T_0=7),
    "warm_restarts_longer": lambda o, _: torch_schedules.CosineAnnealingWarmRestarts(o, T_0=3, T_mult=2, eta_min=1e-5),
    "one_cycle": lambda o, base: torch_schedules.OneCycleLR(o, max_lr=base, total_steps=STEPS, cycle_momentum=False),
    "one_cycle_linear": lambda o, base: torch_schedules.OneCycleLR(
        o, max_lr=base, total_steps=STEPS, pct_start=0.2, div_factor=10.0, final_div_factor=7.0,
        anneal_strategy="linear", cycle_momentum=False),
    "one_cycle_three_phases": lambda o, base: torch_schedules.OneCycleLR(
        o, max_lr=base, total_steps=STEPS, pct_start=0.4, three_phase=True, cycle_momentum=False),
    "one_cycle_falls": lambda o, base: torch_schedules.OneCycleLR(
        o, max_lr=base, total_steps=STEPS, pct_start=0.0, cycle_momentum=False),
    "function": lambda o, _: torch_schedules.LambdaLR(o, lambda t: 1.0 / (1.0 + 0.1 * t)),
    "product": lambda o, _: torch_schedules.MultiplicativeLR(o, lambda t: 1.0 - 1.0 / (t + 2.0)),
    "warm_up_stable_decay": lambda o, _: torch_schedules.SequentialLR(
        o, [torch_schedules.LinearLR(o, start_factor=0.1, end_factor=1.0, total_iters=8),
            torch_schedules.ConstantLR(o, factor=1.0, total_iters=100),
            torch_schedules.LinearLR(o, start_factor=1.0, end_factor=0.0, total_iters=12)], milestones=[8, 25]),
    "warm_up_cosine": lambda o, _: torch_schedules.SequentialLR(
        o, [torch_schedules.LinearLR(o, start_factor=0.02, total_iters=10),
            torch_schedules.CosineAnnealingLR(o, T_max=30, eta_min=1e-5)], milestones=[10]),
    "stages": lambda o, _: torch_schedules.SequentialLR(
        o, [torch_schedules.LinearLR(o, start_factor=0.1, total_iters=5),
            torch_schedules.LambdaLR(o, inverse_square_root(5)),
            torch_schedules.ConstantLR(o, factor=0.25, total_iters=100),
            torch_schedules.PolynomialLR(o, total_iters=6, power=2.0),
            torch_schedules.StepLR(o, step_size=3, gamma=0.5),
            torch_schedules.CosineAnnealingWarmRestarts(o, T_0=4)], milestones=[5, 11, 16, 22, 30]),
    "sequence_of_many": lambda o, _: torch_schedules.SequentialLR(
        o, [torch_schedules.ConstantLR(o, factor=0.2, total_iters=3), torch_schedules.ExponentialLR(o, gamma=0.9),
            torch_schedules.CosineAnnealingWarmRestarts(o, T_0=4),
            torch_schedules.MultiplicativeLR(o, lambda t: 1.0 - 1.0 / (t + 2.0)),
            torch_schedules.StepLR(o, step_size=2, gamma=0.5)], milestones=[5, 12, 22, 30]),
    "chain": lambda o, _: torch_schedules.ChainedScheduler(
        [torch_schedules.LinearLR(o, start_factor=0.25, total_iters=6), torch_schedules.ExponentialLR(o, gamma=0.95),
         torch_schedules.MultiStepLR(o, milestones=[10, 20], gamma=0.5)]),
    "chain_of_cosine": lambda o, _: torch_schedules.ChainedScheduler(
        [torch_schedules.ConstantLR(o, factor=0.1, total_iters=5),
         torch_schedules.CosineAnnealingLR(o, T_max=20, eta_min=1e-6)]),
}


def rates(make, base):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=base)
    scheduler = make(optimizer, base)
    values = []
    for _ in range(STEPS):
        values.append(optimizer.param_groups[0]["lr"])
        assert values[-1] == scheduler.get_last_lr()[0]
        optimizer.step()
        if len(values) < STEPS:
            scheduler.step()
    return values


def main():
    warnings.simplefilter("ignore")
    print("# torch", torch.__version__.partition("+")[0])
    for name, make in MAKERS.items():
        for base in BASES:
            print(name, float(base).hex(), *(float(value).hex() for value in rates(make, base)))


if __name__ == "__main__":
    main()
