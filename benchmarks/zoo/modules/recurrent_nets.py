"""LSTMs and GRUs: text in images, noise suppression, speech, tagging."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Crnn(nn.Module):
    """Shi et al., CRNN (2015): convolutions and two bidirectional LSTMs over columns, 32 x W."""

    def __init__(self, classes: int = 37) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 1
        for k, (width, pool) in enumerate((
            (64, (2, 2)), (128, (2, 2)), (256, None), (256, (2, 1)), (512, None), (512, (2, 1)),
        )):  # fmt: skip
            layers.append(nn.Conv2d(before, width, 3, padding=1))
            layers += [nn.BatchNorm2d(width)] if k >= 4 else []
            layers.append(nn.ReLU())
            layers += [nn.MaxPool2d(pool, pool)] if pool else []
            before = width
        self.columns = nn.Sequential(*layers, nn.Conv2d(512, 512, 2), nn.ReLU())
        self.lstm = nn.LSTM(512, 256, num_layers=2, bidirectional=True)
        self.head = nn.Linear(512, classes)

    def forward(self, image: Tensor) -> Tensor:
        columns = self.columns(image).squeeze(2).permute(2, 0, 1)
        out: Tensor = self.head(self.lstm(columns)[0])
        return out


class NoiseSuppressor(nn.Module):
    """Valin, RNNoise (2018): three GRUs of 24, 48 and 96 units over 42 band features."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(42, 24)
        self.voice = nn.GRU(24, 24, batch_first=True)
        self.noise = nn.GRU(24 + 24 + 42, 48, batch_first=True)
        self.clean = nn.GRU(24 + 48 + 42, 96, batch_first=True)
        self.gains, self.activity = nn.Linear(96, 22), nn.Linear(24, 1)

    def forward(self, bands: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.tanh(self.enter(bands))
        voice = self.voice(x)[0]
        noise = self.noise(torch.cat([x, voice, bands], -1))[0]
        clean = self.clean(torch.cat([voice, noise, bands], -1))[0]
        return torch.sigmoid(self.gains(clean)), torch.sigmoid(self.activity(voice))


class DeepSpeech(nn.Module):
    """Amodei et al., Deep Speech 2 (2016): two convolutions, three bidirectional GRUs."""

    def __init__(self, width: int = 256, classes: int = 29) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20),
            nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20),
        )  # fmt: skip
        self.gru = nn.GRU(32 * 41, width, 3, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, spectrogram: Tensor) -> Tensor:
        x = self.convolutions(spectrogram).flatten(1, 2).transpose(1, 2)
        return F.log_softmax(self.head(self.gru(x)[0]), -1)


class Tagger(nn.Module):
    """Lample et al., Neural architectures for NER (2016): embeddings and a bidirectional LSTM."""

    def __init__(self, words: int = 8000, width: int = 100, tags: int = 17) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, tags)

    def forward(self, words: Tensor) -> Tensor:
        return F.log_softmax(self.head(self.lstm(self.embed(words))[0]), -1)


class Forecaster(nn.Module):
    """Salinas et al., DeepAR (2020): a GRU over a window; mean and deviation of the next value."""

    def __init__(self, features: int = 8, width: int = 40) -> None:
        super().__init__()
        self.gru = nn.GRU(features, width, num_layers=3)
        self.mean, self.deviation = nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, window: Tensor) -> tuple[Tensor, Tensor]:
        last = self.gru(window)[1][-1]
        return self.mean(last), F.softplus(self.deviation(last))
