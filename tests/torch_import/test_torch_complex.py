"""Products of complex numbers, as rotary embeddings have them, are read as pairs of real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from opinfo.frontend.formats.importer import at_node

from .test_torch_edges import INF, agrees
from .test_torch_programs import check, imported

DYNAMIC = ({0: torch.export.Dim.DYNAMIC}, None)


def _rotated(x: torch.Tensor, frequencies: torch.Tensor) -> torch.Tensor:
    """Rotate pairs of elements by angles of their positions: (positions, heads, size)."""
    angles = torch.arange(x.shape[0])[:, None] * frequencies
    turns = torch.polar(torch.full_like(angles, 0.5), angles)
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns.unsqueeze(1)).flatten(2)


def test_pairs_are_rotated_by_products_of_complex_numbers() -> None:
    torch.manual_seed(0)
    runs = [(torch.randn(n, 3, 8), torch.rand(4)) for n in (5, 2, 11)]
    check(_rotated, *runs, shapes=DYNAMIC)


def test_pairs_move_with_their_axes() -> None:
    def moved(x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        z = torch.view_as_complex(x).permute(1, 0).reshape(2, 3, 1).expand(2, 3, 4)
        z = z.clone() * torch.complex(r, r + 1) * r * 0.5
        return torch.view_as_real(z) + (z.real - z.imag).unsqueeze(-1)

    torch.manual_seed(0)
    check(moved, (torch.randn(3, 2, 2), torch.randn(4)))


def test_parts_of_complex_tensors_are_taken_and_joined() -> None:
    def joined(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        z = torch.view_as_complex(x)
        z = torch.cat([z[:, None, 1:].squeeze(1), z[:, -2:]], 1)[places]
        return torch.view_as_real(z.flip(0).repeat(2, 1)) + torch.view_as_real(z[0])

    runs = [(torch.randn(n, 5, 2), torch.tensor([n - 1, -n, 0])) for n in (4, 2, 7)]
    check(joined, *runs, shapes=({0: torch.export.Dim.DYNAMIC}, {}))


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: torch.view_as_real(torch.view_as_complex(x).exp()), "exp.default"),
        (lambda x: torch.view_as_real(torch.view_as_complex(x) / 2j), "div.Tensor"),
        (lambda x: torch.view_as_real(torch.view_as_complex(x).to(torch.complex128)), "casts"),
        (lambda x: torch.view_as_real(torch.view_as_complex(x) * 2j), "a factor is 2j"),
    ],
    ids=["exp", "divide", "cast", "literal"],
)
def test_what_else_is_done_with_complex_numbers_is_refused(
    function: Callable[[torch.Tensor], torch.Tensor], operator: str
) -> None:
    with pytest.raises(NotImplementedError, match=operator) as error:
        imported(function, (torch.randn(3, 2),))
    assert at_node(error.value)


def test_transforms_of_real_numbers() -> None:
    def transformed(x: torch.Tensor) -> Any:
        spectrum = torch.fft.rfft(x, dim=1, norm="ortho")
        window = torch.hann_window(8)
        frames = torch.stft(x.flatten(1), 8, 3, window=window, return_complex=True)
        odd = torch.view_as_real(torch.fft.rfft(x[:, :7], dim=1, norm="forward"))
        return spectrum.real, spectrum.imag, frames.abs(), odd, torch.fft.rfft(x[0, :, 0]).abs()

    agrees(transformed, (torch.randn(2, 10, 3),), (torch.randn(2, 10, 3),))
    agrees(lambda x: (torch.view_as_complex(x).abs(),),
           (torch.tensor([[3e30, 4e30], [0.0, 0.0], [-INF, 1.0], [-3.0, 4.0]]),))  # fmt: skip
    with pytest.raises(NotImplementedError, match="expected a static number up to 4096"):
        imported(lambda x: torch.fft.rfft(x).abs(), (torch.randn(4097),))


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms_of_several_axes_and_their_inverses(norm: str) -> None:
    """As FNet mixes tokens, and global filters multiply spectra."""
    torch.manual_seed(0)
    weights = torch.randn(6, 4, 2)

    def filtered(x: torch.Tensor) -> Any:
        fft = torch.fft
        mixed = fft.fftn(x, dim=(1, 2), norm=norm).real
        spectrum = fft.rfft2(x, norm=norm)
        product = spectrum * torch.view_as_complex(weights) + spectrum - fft.rfft2(x * 2)
        twice = fft.ifft2(fft.fft(x, dim=0, norm=norm), norm=norm)
        return (mixed, fft.irfft2(product, s=(6, 7), norm=norm), torch.view_as_real(twice),
                fft.irfft(fft.rfft(x, dim=1, norm=norm), n=5, dim=1, norm=norm),
                fft.irfft(fft.rfft(x, norm=norm), n=1, norm=norm))  # fmt: skip

    agrees(filtered, (torch.randn(2, 6, 7),), (torch.randn(2, 6, 7),))
    agrees(lambda x: (torch.fft.fft(x.double()).imag,), (torch.randn(3, 4),))


def test_an_inverse_transform_of_frames() -> None:
    def denoised(x: torch.Tensor) -> Any:
        window = torch.hann_window(8)
        frames = torch.stft(x, 8, 4, window=window, return_complex=True)
        return (torch.istft(frames * frames.abs(), 8, 4, window=window),)

    agrees(denoised, (torch.randn(2, 32),))
