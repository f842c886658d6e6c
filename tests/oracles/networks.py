"""Small smooth networks of several kinds, none of them over 120 parameters."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class TanhNet(nn.Module):
    """Two tanh layers: [B, 2] -> [B, outputs]."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3), nn.Tanh())
        self.head = nn.Linear(3, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


class GatedNet(nn.Module):
    """A gated linear unit: value times sigmoid of gate, [B, 2] -> [B, outputs]."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.value = nn.Linear(2, 5)
        self.gate = nn.Linear(2, 5)
        self.head = nn.Linear(5, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.value(x) * torch.sigmoid(self.gate(x)))


class ResidualNet(nn.Module):
    """The same block applied twice, each time added to its input: [B, 2] -> [B, outputs]."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.stem = nn.Linear(2, 4)
        self.block = nn.Linear(4, 4)
        self.head = nn.Linear(4, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(x)
        h = h + torch.tanh(self.block(h))
        h = h + torch.tanh(self.block(h))
        return self.head(h)


class RecurrentNet(nn.Module):
    """An LSTM and a head on its last state: [B, T, 2] -> [B, outputs]."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(2, 2, batch_first=True)
        self.head = nn.Linear(2, outputs)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x)
        return self.head(states[:, -1])


class TaggerNet(RecurrentNet):
    """The same with an output at every step: [B, T, 2] -> [B, T, outputs]."""

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x)
        return self.head(states)


class AttentionNet(nn.Module):
    """One head of attention written out and a mean over steps: [B, T, 2] -> [B, outputs]."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.query = nn.Linear(2, 3)
        self.key = nn.Linear(2, 3)
        self.value = nn.Linear(2, 4)
        self.head = nn.Linear(4, outputs)

    def attend(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        return torch.softmax(scores / 3**0.5, dim=-1) @ self.value(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.attend(x)).mean(dim=1))


class FusedAttentionNet(nn.Module):
    """The fused kernel of torch, which has neither forward mode nor a second derivative on CPU."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.project = nn.Linear(2, 12)
        self.head = nn.Linear(4, outputs)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.project(x).unsqueeze(1).chunk(3, dim=-1)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.head(torch.tanh(attended.squeeze(1)).mean(dim=1))


STEPS = 4
SEQUENCE_NETWORKS = (RecurrentNet, TaggerNet, AttentionNet, FusedAttentionNet)
