"""Metrics against numpy, scikit-image and a direct loop over windows."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from recollect.analysis import clamp01, dssim, ncc, normalise, pairwise_ncc, psnr, ssim, stretch
from recollect.core import RecollectError


def pictures(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_ssim(a: np.ndarray, b: np.ndarray, window: int) -> float:
    """SSIM of two single channels, window by window, borders mirrored without repeating the edge."""
    radius = window // 2
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / 1.5) ** 2)
    weights = np.outer(weights, weights) / weights.sum() ** 2
    wide_a, wide_b = (np.pad(image, radius, mode="reflect") for image in (a, b))
    values = []
    for row in range(a.shape[0]):
        for column in range(a.shape[1]):
            left = wide_a[row : row + window, column : column + window]
            right = wide_b[row : row + window, column : column + window]
            mean_left, mean_right = (weights * left).sum(), (weights * right).sum()
            spread_left = (weights * (left - mean_left) ** 2).sum()
            spread_right = (weights * (right - mean_right) ** 2).sum()
            together = (weights * (left - mean_left) * (right - mean_right)).sum()
            top = (2 * mean_left * mean_right + 0.01**2) * (2 * together + 0.03**2)
            values.append(top / ((mean_left**2 + mean_right**2 + 0.01**2) * (spread_left + spread_right + 0.03**2)))
    return float(np.mean(values))


def test_ncc_is_numpys_correlation():
    a, b = pictures(0, 5, 3, 4, 6), pictures(1, 5, 3, 4, 6)
    whole = [np.corrcoef(left.flatten(), right.flatten())[0, 1] for left, right in zip(a, b, strict=True)]
    channels = [
        np.mean([np.corrcoef(left[c].flatten(), right[c].flatten())[0, 1] for c in range(3)])
        for left, right in zip(a, b, strict=True)
    ]
    torch.testing.assert_close(ncc(a, b), torch.tensor(whole, dtype=torch.float64))
    torch.testing.assert_close(ncc(a, b, per_channel=True), torch.tensor(channels, dtype=torch.float64))


def test_pairwise_ncc_holds_every_pair():
    a, b = pictures(2, 4, 10), pictures(3, 6, 10)
    expected = np.corrcoef(np.concatenate([a.numpy(), b.numpy()]))[:4, 4:]
    torch.testing.assert_close(pairwise_ncc(a, b), torch.from_numpy(expected.copy()))


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([1e-30, 1e-3, 1.0, 1e30]),
    offset=st.floats(-5, 5),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_ncc_ignores_contrast_and_brightness(seed, scale, offset, dtype):
    a, b = pictures(seed, 2, 3, 5, 5).to(dtype), pictures(seed + 1, 2, 3, 5, 5).to(dtype)
    plain = ncc(a, b, per_channel=True)
    assert bool((plain.abs() <= 1).all())
    torch.testing.assert_close(ncc(a * scale + offset * scale, b, per_channel=True), plain, atol=1e-4, rtol=0)


@pytest.mark.parametrize("value", [0.0, 0.1, -3e7, 1e-30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_constant_samples_have_no_direction(value, dtype):
    flat = torch.full((1, 3, 7, 7), value, dtype=dtype)
    assert bool((normalise(flat, per_channel=False) == 0).all())
    assert bool((normalise(flat, per_channel=True) == 0).all())


def test_normalised_rows_have_length_one_and_nan_stays():
    rows = normalise(pictures(4, 3, 2, 4, 4), per_channel=True)
    torch.testing.assert_close(rows.square().sum(1), torch.ones(3, dtype=torch.float64))
    assert bool(normalise(torch.tensor([[1.0, float("nan"), 2.0]]), per_channel=False).isnan().all())


@pytest.mark.parametrize("window", [1, 3, 7, 11])
def test_ssim_is_the_direct_loop(window):
    a, b = pictures(5, 2, 2, 12, 13), pictures(6, 2, 2, 12, 13)
    b = 0.6 * a + 0.4 * b
    expected = [
        np.mean([slow_ssim(left[c].numpy(), right[c].numpy(), window) for c in range(2)])
        for left, right in zip(a, b, strict=True)
    ]
    expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(ssim(a, b, window), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(dssim(a, b, window), (1 - expected) / 2, rtol=1e-6, atol=1e-6)


def test_direct_loop_is_scikit_image_inside_the_borders():
    """scikit-image has window 11 only and repeats the edge: with flat margins the two paddings agree."""
    a, b = np.full((24, 24), 0.5), np.full((24, 24), 0.5)
    a[6:-6, 6:-6], b[6:-6, 6:-6] = pictures(7, 2, 12, 12).numpy()
    reference = structural_similarity(
        a, b, gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=1, full=True
    )
    assert slow_ssim(a, b, 11) == pytest.approx(reference[1].mean(), abs=1e-9)
    ours = ssim(torch.from_numpy(a)[None, None], torch.from_numpy(b)[None, None], 11)
    assert float(ours) == pytest.approx(reference[1].mean(), abs=1e-6)


def test_ssim_in_parts_is_ssim_at_once(monkeypatch):
    a, b = pictures(8, 7, 1, 6, 6), pictures(9, 7, 1, 6, 6)
    whole = ssim(a, b)
    monkeypatch.setattr("recollect.analysis.metrics._SSIM_ROWS", 3)
    torch.testing.assert_close(ssim(a, b), whole)


def test_psnr_is_scikit_images():
    a, b = pictures(10, 3, 3, 8, 8), pictures(11, 3, 3, 8, 8)
    pairs = zip(a.numpy(), b.numpy(), strict=True)
    expected = [peak_signal_noise_ratio(left, right, data_range=1) for left, right in pairs]
    torch.testing.assert_close(psnr(a, b), torch.tensor(expected, dtype=torch.float64))
    assert math.isinf(float(psnr(a[:1], a[:1])))


@pytest.mark.parametrize("window", [0, 2, 9, -1])
def test_ssim_window_must_be_odd_and_fit(window):
    with pytest.raises(RecollectError, match=rf"window {window} .* odd number"):
        ssim(pictures(0, 1, 1, 8, 8), pictures(1, 1, 1, 8, 8), window)


def test_metrics_refuse_what_is_not_an_image():
    with pytest.raises(RecollectError, match="SSIM needs two sets of images"):
        ssim(pictures(0, 2, 5), pictures(1, 2, 5))
    with pytest.raises(RecollectError, match="per_channel=False"):
        normalise(pictures(0, 2, 5), per_channel=True)


def test_scalings():
    x = 4 * pictures(12, 3, 2, 4, 4) - 2
    x[2] = 9.0
    for image, stretched in zip(x[:2], stretch(x)[:2], strict=True):
        numbers = image.numpy()
        expected = (numbers - numbers.min()) / (numbers.max() - numbers.min())
        np.testing.assert_allclose(stretched.numpy(), expected)
    assert bool((stretch(x)[2] == 0.5).all())
    np.testing.assert_array_equal(clamp01(x).numpy(), np.clip(x.numpy(), 0, 1))


def test_analysis_imports_without_kornia():
    check = "import sys, recollect.analysis; sys.exit('kornia' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
