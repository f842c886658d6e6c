"""MobileNetV2 in plain torch under torchvision's names, written from its paper's table 2."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# expansion, channels, repeats, stride of the first
BLOCKS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def channels(count: int, width: float) -> int:
    """The nearest multiple of 8, but never 10 % below."""
    wanted = count * width
    rounded = max(8, int(wanted + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * wanted else rounded


def unit(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(),
    )


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        widen = [] if expansion == 1 else [unit(inputs, inner)]
        self.skips = stride == 1 and inputs == outputs
        self.conv = nn.Sequential(
            *widen,
            unit(inner, inner, 3, stride, inner),
            nn.Conv2d(inner, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.skips else self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self, width: float = 1.0, classes: int = 1000) -> None:
        super().__init__()
        current = channels(32, width)
        layers = [unit(3, current, 3, 2)]
        for expansion, count, repeats, first in BLOCKS:
            outputs = channels(count, width)
            for k in range(repeats):
                layers.append(Block(current, outputs, first if k == 0 else 1, expansion))
                current = outputs
        self.features = nn.Sequential(*layers, unit(current, 1280))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def pooled(self, x: Tensor) -> Tensor:
        return self.features(x).mean(dim=(2, 3))

    def shaken(self, seed: int) -> MobileNetV2:
        """Every weight and running statistic away from where it begins, as after training."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for module in self.modules():
                if isinstance(module, nn.BatchNorm2d):
                    for tensor in (module.weight, module.running_var):
                        tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator))
                    for tensor in (module.bias, module.running_mean):
                        tensor.copy_(0.3 * torch.randn(tensor.shape, generator=generator))
                    module.num_batches_tracked.fill_(7)
        return self
