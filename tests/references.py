"""Slow, obvious twins of the fast paths, written from the equations and from nothing in the package."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SigmoidSlope(torch.autograd.Function):
    """ReLU as the published attack has it: forward unchanged, backward times sigmoid(alpha z)."""

    @staticmethod
    def forward(ctx, z: Tensor, alpha: float) -> Tensor:
        ctx.save_for_backward(z)
        ctx.alpha = alpha
        return z.clamp(min=0)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        (z,) = ctx.saved_tensors
        return grad * torch.sigmoid(ctx.alpha * z), None


def published_output(net: nn.Module, x: Tensor, alpha: float) -> Tensor:
    """The network's outputs on one trial's candidates, layer after layer."""
    for part in net.modules():
        if isinstance(part, nn.ReLU):
            x = SigmoidSlope.apply(x, alpha)
        elif not list(part.children()):
            x = part(x)
    return x


def margin(outputs: Tensor, label: int) -> Tensor:
    """What a sample's multiplier belongs to: y Phi for one output, own class less best other for several."""
    if len(outputs) == 1:
        return label * outputs[0]
    wrong = [outputs[index] for index in range(len(outputs)) if index != label]
    return outputs[label] - max(wrong, key=Tensor.item)


def kkt_loss(
    net: nn.Module,
    x: Tensor,
    duals: Tensor,
    labels: Tensor,
    alpha: float,
    dual_min: float,
    layer_weights: tuple[float, ...],
) -> Tensor:
    """Loss of one trial by double backward, one candidate's gradient at a time, for a classifier."""
    m = x.shape[0]
    params = list(net.parameters())
    combined = [torch.zeros_like(p) for p in params]
    for i in range(m):
        reached = margin(published_output(net, x[i : i + 1], alpha)[0], int(labels[i]))
        grads = torch.autograd.grad(reached, params, create_graph=True)
        combined = [c + duals[i] * g / m for c, g in zip(combined, grads, strict=True)]
    names = [name.rpartition(".")[0] for name, _ in net.named_parameters()]
    layer_of = {name: index for index, name in enumerate(dict.fromkeys(names))}
    loss = x.new_zeros(())
    for name, p, c in zip(names, params, combined, strict=True):
        loss = loss + layer_weights[layer_of[name]] * ((p.detach() - c) ** 2).sum()
    for dual in duals:
        loss = loss + 5 * torch.clamp(dual_min - dual, min=0) ** 2
    outside = torch.clamp(x - 1, min=0) ** 2 + torch.clamp(-1 - x, min=0) ** 2
    return loss + outside.sum()
