"""Any network made invariant by averaging it over the orbit of its input (the Reynolds operator)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from recollect.groups import Group, moved_by


class Symmetrised(nn.Module):
    """``Phi_G(x) = 1/|G| sum_g Phi(g x)`` (Elbaz 2024, appendix E).

    >>> import torch
    >>> from recollect.symmetries import named_group
    >>> net = Symmetrised(nn.Sequential(nn.Flatten(), nn.Linear(4, 1)), named_group("flip", (1, 2, 2)))
    >>> x = torch.randn(5, 1, 2, 2)
    >>> torch.allclose(net(x), net(x.flip(-1)), atol=1e-6)
    True
    """

    actions: Tensor

    def __init__(self, net: nn.Module, group: Group) -> None:
        super().__init__()
        self.net = net
        self.group = group
        # A buffer, so that it goes where the network goes; not saved, because the group's name says it all.
        self.register_buffer("actions", group.actions, persistent=False)

    def forward(self, x: Float[Tensor, "n ..."]) -> Float[Tensor, "n C"]:
        orbits = moved_by(self.actions, x, self.group.sample_shape)
        outputs = self.net(orbits.flatten(0, 1))
        return outputs.unflatten(0, (len(x), self.group.size)).mean(dim=1)
