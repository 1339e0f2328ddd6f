"""Optimisers and learning-rate schedules."""

from collections.abc import Callable, Iterable
from math import cos, inf, log, pi
from typing import Any

import torch
from torch import Tensor, nn

from cliffordstf.kernels import can_update, update_matrices
from cliffordstf.train.config import OptimizerConfig, ScheduleConfig

FADING_SIZE = 60
"""Size of a training set, the root of structures times atoms, for which the automatic weight decay shrinks weights that
no data hold up by a factor e."""


def make_optimizer(config: OptimizerConfig, rate: float, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimiser that a config asks for, with a learning rate; an automatic weight decay is left to `Fading`."""
    trainable = [parameter for parameter in parameters if parameter.requires_grad]
    settings: dict[str, Any] = {"lr": rate, "betas": config.betas}
    decay = 0.0 if config.weight_decay == "auto" else config.weight_decay
    if config.name == "adamw":
        return torch.optim.AdamW(trainable, weight_decay=decay, foreach=True, **settings)
    if config.name == "muon":
        return Muon(trainable, weight_decay=decay, **settings)
    return torch.optim.Adam(trainable, amsgrad=config.name == "amsgrad", foreach=True, **settings)


LARGEST_DECAY = 0.1
"""Of the automatic weight decay: more, in a run of a few hundred steps, leaves nothing to learn with."""


class Fading:
    """Weight decay that is the same over a whole run, however long it is and however many steps it has.

    Weights that no data hold up shrink by exp(-total) from the first step to the last, in proportion to the learning
    rate. The fewer data, the more of the weights nothing holds up, and the more their random start shows in structures
    that were not learned: total = 60 / sqrt(structures · atoms) of the training set, at most 1. A short run does not
    get that far, because the decay of a step is bounded.

    Args:
        config: Of the optimiser; does nothing unless its weight decay is automatic.
        rate: Peak of the learning rate.
        schedule: Of the learning rate.
        structures, atoms: In the training set.
    """

    def __init__(
        self, config: OptimizerConfig, rate: float, schedule: ScheduleConfig, structures: int, atoms: int
    ) -> None:
        is_used = config.weight_decay == "auto" and config.name in ("muon", "adamw")
        self.total = min(1.0, FADING_SIZE / max(1.0, (structures * atoms) ** 0.5)) if is_used else None
        self._mean_rate = rate * _mean_share(schedule)

    def apply(self, optimizer: torch.optim.Optimizer, share: float) -> None:
        """Set the decay of a step that is such a share of the run."""
        if self.total is not None:
            for group in optimizer.param_groups:
                group["weight_decay"] = min(LARGEST_DECAY, self.total * share / self._mean_rate)


def _mean_share(schedule: ScheduleConfig) -> float:
    """Mean learning rate of a run as a share of the peak; what a plateau will do to it is not known before."""
    final = schedule.final
    if schedule.kind == "cosine":
        return 0.5 * (1 + final)
    return (1 - final) / -log(final) if schedule.kind == "exponential" and final < 1 else 1.0


class Muon(torch.optim.Optimizer):
    """Momentum whose matrices are orthogonalised before they are applied; Adam for everything that is no matrix.

    Parameters with two dimensions, and stacks of matrices with three, get the orthogonal factor of their momentum
    (Newton-Schulz iteration), scaled to the size of an Adam step.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
        eps: float = 1e-8,
        momentum: float = 0.95,
    ) -> None:
        settings = {"lr": lr, "betas": betas, "weight_decay": weight_decay, "eps": eps, "momentum": momentum}
        super().__init__(parameters, settings)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            kept = 1 - group["lr"] * group["weight_decay"]
            matrices = []
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if _is_matrix(parameter):
                    matrices.append((parameter, parameter.grad, self._average(parameter)))
                else:
                    update = _adam(parameter, self.state[parameter], group)
                    parameter.mul_(kept).add_(update, alpha=-group["lr"])
            if matrices and can_update(matrices):
                update_matrices(matrices, group["lr"], group["momentum"], group["weight_decay"])
            else:
                self._orthogonal_updates(matrices, group)
        return loss

    def _average(self, parameter: nn.Parameter) -> Tensor:
        """Moving average of the gradients of a matrix."""
        state = self.state[parameter]
        if not state:
            state["first"] = torch.zeros_like(parameter)
        return state["first"]

    @staticmethod
    def _orthogonal_updates(matrices: list[tuple[nn.Parameter, Tensor, Tensor]], group: dict[str, Any]) -> None:
        """What the compiled update does, in plain PyTorch; matrices of one shape go through the iteration together."""
        by_shape: dict[torch.Size, list[tuple[nn.Parameter, Tensor]]] = {}
        for parameter, gradient, average in matrices:
            average.lerp_(gradient, 1 - group["momentum"])
            momentum = gradient.lerp(average, group["momentum"])
            stack = momentum if momentum.ndim == 3 else momentum[None]
            by_shape.setdefault(stack.shape[1:], []).append((parameter, stack))
        for shape, members in by_shape.items():
            factors = orthogonal_factor(torch.cat([stack for _, stack in members]))
            # 0.2 sqrt(larger side): the root mean square of an Adam update.
            size = 0.2 * max(shape) ** 0.5
            counts = [len(stack) for _, stack in members]
            for (parameter, _), factor in zip(members, factors.split(counts), strict=True):
                kept = 1 - group["lr"] * group["weight_decay"]
                parameter.mul_(kept).add_(factor.view_as(parameter), alpha=-group["lr"] * size)


def _is_matrix(parameter: Tensor) -> bool:
    return parameter.ndim in (2, 3) and min(parameter.shape[-2:]) > 1


def _adam(parameter: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> Tensor:
    gradient = parameter.grad
    assert gradient is not None
    if not state:
        state["first"], state["second"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        state["step"] = torch.zeros(())
    beta1, beta2 = group["betas"]
    state["step"] += 1
    state["first"].lerp_(gradient, 1 - beta1)
    state["second"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    step = float(state["step"])
    second = state["second"] / (1 - beta2**step)
    return state["first"] / (1 - beta1**step) / (second.sqrt() + group["eps"])


def orthogonal_factor(matrices: Tensor, iterations: int = 5) -> Tensor:
    """Approximate orthogonal polar factor of matrices (count, m, n) by a quintic Newton-Schulz iteration."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrices / (matrices.norm(dim=(-2, -1), keepdim=True) + 1e-12)
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    for _ in range(iterations):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Schedule:
    """Learning rate as a function of steps done, of the share of the run done, and of validation scores."""

    def __init__(self, config: ScheduleConfig, peak: float) -> None:
        self.config, self.peak = config, peak
        self.reduction = 1.0
        self.best = float("inf")
        self.waited = 0

    def rate(self, step: int, progress: float) -> float:
        """Learning rate of a step (counted from 0)."""
        warm = min(1.0, max((step + 1) / (self.config.warmup_steps + 1), progress / (self.config.warmup_share or inf)))
        if self.config.kind == "cosine":
            final = self.config.final
            return self.peak * warm * (final + (1 - final) * 0.5 * (1 + cos(pi * min(progress, 1.0))))
        if self.config.kind == "exponential":
            return float(self.peak * warm * self.config.final ** min(progress, 1.0))
        return self.peak * warm * self.reduction

    def observe(self, score: float) -> None:
        """Take a validation score into account (plateau)."""
        if self.config.kind != "plateau":
            return
        if score < self.best * 0.999:
            self.best, self.waited = score, 0
        else:
            self.waited += 1
            if self.waited >= self.config.patience:
                self.reduction *= self.config.factor
                self.waited = 0

    def state(self) -> dict[str, float]:
        """What a checkpoint keeps."""
        return {"reduction": self.reduction, "best": self.best, "waited": self.waited}

    def restore(self, state: dict[str, float]) -> None:
        """Take up the state of a checkpoint."""
        self.reduction, self.best, self.waited = state["reduction"], state["best"], int(state["waited"])
