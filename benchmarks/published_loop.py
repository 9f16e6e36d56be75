"""The published attack as it is usually written: autograd twice, one trial, two torch optimisers.

An independent re-implementation from the description (Haim 2022; Buzaglo 2023), to measure against.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SigmoidBackwardReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z: Tensor, alpha: float) -> Tensor:
        ctx.save_for_backward(z)
        ctx.alpha = alpha
        return z.relu()

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        (z,) = ctx.saved_tensors
        return grad * torch.sigmoid(ctx.alpha * z), None


class PublishedLoop:
    """One trial of m candidates against a network of Linear layers, binary or multiclass."""

    def __init__(self, net: nn.Module, x: Tensor, duals: Tensor, labels: Tensor, lr: tuple[float, float]) -> None:
        self.linears = [part for part in net.modules() if isinstance(part, nn.Linear)]
        self.params = [parameter.requires_grad_() for parameter in net.parameters()]
        self.x, self.duals = x.clone().requires_grad_(), duals.clone().requires_grad_()
        self.labels = labels
        self.optimisers = [
            torch.optim.SGD([self.x], lr=lr[0], momentum=0.9),
            torch.optim.SGD([self.duals], lr=lr[1], momentum=0.9),
        ]

    def step(self, alpha: float = 20.0, dual_min: float = 0.5) -> None:
        for optimiser in self.optimisers:
            optimiser.zero_grad()
        self._loss(alpha, dual_min).backward(inputs=[self.x, self.duals])
        for optimiser in self.optimisers:
            optimiser.step()

    def _loss(self, alpha: float, dual_min: float) -> Tensor:
        a = self.x.flatten(1)
        for linear in self.linears[:-1]:
            a = SigmoidBackwardReLU.apply(linear(a), alpha)
        margins = self._margins(self.linears[-1](a))
        combined = torch.autograd.grad((self.duals * margins).sum(), self.params, create_graph=True)
        m = len(self.x)
        pairs = zip(self.params, combined, strict=True)
        stationarity = torch.stack([(p.detach() - g / m).square().sum() for p, g in pairs]).sum()
        floor = 5 * (dual_min - self.duals).relu().square().sum()
        box = (self.x - 1).relu().square().sum() + (-1 - self.x).relu().square().sum()
        return stationarity + floor + box

    def _margins(self, outputs: Tensor) -> Tensor:
        if outputs.shape[1] == 1:
            return self.labels * outputs[:, 0]
        own = outputs.gather(1, self.labels[:, None])[:, 0]
        others = outputs.scatter(1, self.labels[:, None], -torch.inf)
        return own - others.max(dim=1).values
