"""Fourier transforms against NumPy."""

import numpy as np
import pytest
import tensord
from tensord import Tensor, fft

rng = np.random.default_rng(5)


def pair(x):
    return np.stack([x.real, x.imag], -1)


def close(tensor, expected, dtype=np.float64):
    expected = pair(expected) if np.iscomplexobj(expected) else expected
    assert tensor.shape == expected.shape
    tolerance = 1e-11 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=0, atol=tolerance * max(1, np.abs(expected).max()))


def array(*shape):
    return rng.standard_normal(shape)


# One factor, several, a prime by its matrix, a prime by convolution.
@pytest.mark.parametrize("n", [1, 2, 5, 31, 60, 64, 96, 37, 74])
def test_transforms(n):
    x = array(2, n) + 1j * array(2, n)
    t = Tensor(pair(x))
    close(fft.fft(t), np.fft.fft(x))
    close(fft.ifft(t), np.fft.ifft(x))
    close(fft.rfft(Tensor(x.real)), np.fft.rfft(x.real))
    half = np.fft.rfft(x.real)
    close(fft.irfft(Tensor(pair(half)), n), np.fft.irfft(half, n))


def test_float32_keeps_its_digits():
    x = array(1000).astype(np.float32)
    y = fft.rfft(Tensor(x))
    assert y.dtype == tensord.float32
    close(y, np.fft.rfft(x.astype(np.float64)), np.float32)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_sizes_axes_and_norms(norm):
    x = array(4, 6, 5) + 1j * array(4, 6, 5)
    t = Tensor(pair(x))
    close(fft.fft(t, 8, 1, norm), np.fft.fft(x, 8, 1, norm))
    close(fft.ifft(t, 3, 0, norm), np.fft.ifft(x, 3, 0, norm))
    close(fft.rfft(Tensor(x.real), 4, -2, norm), np.fft.rfft(x.real, 4, -2, norm))
    close(fft.irfft(t, 7, -1, norm), np.fft.irfft(x, 7, -1, norm))
    close(fft.hfft(t, 6, -1, norm), np.fft.hfft(x, 6, -1, norm))
    close(fft.ihfft(Tensor(x.real), 4, -1, norm), np.fft.ihfft(x.real, 4, -1, norm))
    close(fft.fft2(t, norm=norm), np.fft.fft2(x, norm=norm))
    close(fft.ifftn(t, (2, 7), (0, 2), norm), np.fft.ifftn(x, (2, 7), (0, 2), norm))
    close(fft.rfftn(Tensor(x.real), norm=norm), np.fft.rfftn(x.real, norm=norm))
    close(fft.irfft2(t, (6, 8), norm=norm), np.fft.irfft2(x, (6, 8), norm=norm))


def test_frequencies_and_shifts():
    close(fft.fftfreq(5, 0.5), np.fft.fftfreq(5, 0.5), np.float32)
    close(fft.fftfreq(6), np.fft.fftfreq(6), np.float32)
    close(fft.rfftfreq(6, 2.0), np.fft.rfftfreq(6, 2.0), np.float32)
    x = array(4, 5)
    close(fft.fftshift(Tensor(x)), np.fft.fftshift(x))
    close(fft.ifftshift(Tensor(x), 1), np.fft.ifftshift(x, 1))


def test_short_time_transforms():
    x, window = array(2, 50), np.hanning(9)[:-1]
    t, w = Tensor(x), Tensor(window)
    padded = np.pad(x, ((0, 0), (4, 4)), mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, 8, 1)[:, ::3] * window
    expected = np.fft.rfft(frames).swapaxes(-1, -2)
    spectrum = tensord.stft(t, 8, hop_length=3, window=w)
    close(spectrum, expected)
    # The last elements lie in no whole frame.
    back = tensord.istft(spectrum, 8, hop_length=3, window=w, length=48)
    close(back, x[:, :48])


def test_gradient():
    x = Tensor(array(6), requires_grad=True)
    # Parseval: the sum of squares of a unitary transform is that of the signal.
    close((fft.fft(fft.complex_of(x), norm="ortho").square().sum() / 2).gradient(x)[0], x.numpy())


def test_refuses():
    with pytest.raises(ValueError, match="holds no complex numbers"):
        fft.fft(Tensor(array(4, 3)))
    with pytest.raises(IndexError):
        fft.rfft(Tensor(array(4)), dim=1)
    with pytest.raises(ValueError, match="at least 1"):
        fft.rfft(Tensor(array(4)), 0)
    with pytest.raises(ValueError, match="norm is"):
        fft.rfft(Tensor(array(4)), norm="orthogonal")
    with pytest.raises(ValueError, match="no axis twice"):
        fft.fftn(Tensor(array(4, 4, 2)), dim=(0, -2))
