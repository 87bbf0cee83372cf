"""process_images beside torch's antialiased resizing, openpi's definition and grid_sample."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest
import torch
from torch import Tensor

import robocache as rc
from robocache.image import plan as plans
from robocache.image.library import process_frames
from robocache.image.spec import ImageSpec

SIZES = [(256, 256), (480, 640), (240, 320), (84, 84), (17, 301), (1, 1), (2, 5), (224, 224)]
OUTPUTS = [(224, 224), (96, 128), (7, 3), (1, 1), (300, 301)]
TYPES = [torch.uint8, torch.float16, torch.bfloat16, torch.float32]


def pictures(height: int, width: int, count: int = 2, channels: int = 3, seed: int = 0) -> Tensor:
    """Frames [N,H,W,C] of bytes: smooth shapes, noise, and some pixels of 0 and 255."""
    generator = torch.Generator().manual_seed(seed)
    y, x = torch.meshgrid(torch.linspace(0, 3, height), torch.linspace(0, 3, width), indexing="ij")
    phase = 6 * torch.rand(count, 1, 1, channels, generator=generator)
    smooth = 127 + 90 * torch.sin(x[..., None] * 2 + phase) * torch.cos(y[..., None] + phase)
    noise = 40 * torch.rand(count, height, width, channels, generator=generator)
    frames = (smooth + noise).clamp(0, 255).to(torch.uint8)
    extreme = torch.rand(count, height, width, 1, generator=generator) < 0.05
    checkers = torch.where(torch.rand(frames.shape, generator=generator) < 0.5, 0, 255)
    return torch.where(extreme, checkers.to(torch.uint8), frames)


def resized(frames: Tensor, size: tuple[int, int]) -> Tensor:
    """torchvision's resize(antialias=True) of floats, [N,H,W,C]."""
    made = torch.nn.functional.interpolate(
        frames.permute(0, 3, 1, 2).double(), size, mode="bilinear", antialias=True
    )
    return made.permute(0, 2, 3, 1)


def resized_with_pad(frames: Tensor, height: int, width: int) -> Tensor:
    """openpi's image_tools.resize_with_pad."""
    _, cur_height, cur_width, _ = frames.shape
    ratio = max(cur_width / width, cur_height / height)
    resized_height, resized_width = int(cur_height / ratio), int(cur_width / ratio)
    made = resized(frames, (resized_height, resized_width))
    pad_h0, remainder_h = divmod(height - resized_height, 2)
    pad_w0, remainder_w = divmod(width - resized_width, 2)
    return torch.nn.functional.pad(
        made, (0, 0, pad_w0, pad_w0 + remainder_w, pad_h0, pad_h0 + remainder_h)
    )


@pytest.mark.parametrize("source", SIZES)
@pytest.mark.parametrize("size", OUTPUTS)
def test_stretching_is_antialiased_resizing(
    source: tuple[int, int], size: tuple[int, int], device: str
) -> None:
    frames = pictures(*source)
    got = process_frames(frames.to(device), ImageSpec(size), dtype=torch.float32).cpu()
    # Weights of columns are multiples of 2^-14, which moves a value by at most a quarter of a byte.
    assert (got - resized(frames, size)).abs().max() <= 0.25
    rounded = process_frames(frames.to(device), ImageSpec(size)).cpu()
    assert (rounded.double() - resized(frames, size)).abs().max() <= 0.75


@pytest.mark.parametrize("source", [s for s in SIZES if min(s) > 2])
@pytest.mark.parametrize("size", [(224, 224), (96, 128), (224, 100)])
def test_padding_is_openpis(source: tuple[int, int], size: tuple[int, int], device: str) -> None:
    frames = pictures(*source, seed=1)
    got = process_frames(frames.to(device), ImageSpec(size, mode="pad"), dtype=torch.float32).cpu()
    assert (got - resized_with_pad(frames, *size)).abs().max() <= 0.25


def test_a_crop_is_resized_alone(device: str) -> None:
    frames = pictures(60, 80)
    spec = ImageSpec((32, 48), crop=(7, 11, 41, 63))
    got = process_frames(frames.to(device), spec, dtype=torch.float32).cpu()
    assert (got - resized(frames[:, 7:48, 11:74], (32, 48))).abs().max() <= 0.25


def test_filling_takes_the_centered_part(device: str) -> None:
    # A square takes 480 x 480 of 480 x 640 pixels. Pixels beside the part count at its edges.
    frames = pictures(480, 640)
    got = process_frames(frames.to(device), ImageSpec((96, 96), mode="crop"), dtype=torch.float32)
    wide = resized(frames, (96, 128))[:, :, 16:112]
    assert (got.cpu() - wide).abs().max() <= 0.25


def test_the_center_is_that_of_the_output(device: str) -> None:
    frames = pictures(100, 100)
    got = process_frames(frames.to(device), ImageSpec((100, 100), center=0.5), dtype=torch.float32)
    twice = torch.nn.functional.interpolate(
        frames.permute(0, 3, 1, 2).double(), (200, 200), mode="bilinear"
    ).permute(0, 2, 3, 1)
    assert (got.cpu() - twice[:, 50:150, 50:150]).abs().max() <= 0.25


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("channels_first", [False, True])
def test_the_source_itself_has_the_scales_bits(
    dtype: torch.dtype, channels_first: bool, device: str
) -> None:
    frames = pictures(30, 44)
    mean, std = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
    got = process_frames(
        frames.to(device),
        ImageSpec(),
        dtype=dtype,
        channels_first=channels_first,
        subtract=mean,
        multiply=[1 / each for each in std],
    ).cpu()
    wide = (frames.double() - torch.tensor(mean, dtype=torch.float64)) * torch.tensor(
        [1 / each for each in std], dtype=torch.float64
    )
    expected = wide.clamp(0, 255).round().to(dtype) if dtype == torch.uint8 else wide.float()
    if channels_first:
        expected = expected.permute(0, 3, 1, 2)
    assert torch.equal(got, expected.to(dtype))


def with_steps(steps: list[Any]) -> plans.AugmentPlan:
    return plans.make_plan(
        "augment", steps, seed=3, camera="front", dropout_cameras=[], per_frame=False
    )


def drawn_samples(count: int, device: str) -> dict[str, Tensor]:
    numbers = torch.arange(count, device=device)
    epoch = torch.zeros(1, dtype=torch.int64, device=device)
    return {"episode_index": numbers, "frame_index": numbers * 7, "epoch": epoch}


@pytest.mark.parametrize("degrees", [5, -31, 90, 170])
def test_a_turn_is_grid_sample(degrees: float, device: str) -> None:
    frames = pictures(120, 100)
    plan = with_steps([rc.RandomRotation((degrees, degrees))])
    got = process_frames(
        frames.to(device),
        ImageSpec(),
        dtype=torch.float32,
        augment=plan,
        samples=drawn_samples(2, device),
    ).cpu()
    angle = math.radians(degrees)
    c, s = math.cos(angle), math.sin(angle)
    ratio = 120 / 100
    theta = torch.tensor([[c, -s * ratio, 0], [s / ratio, c, 0]], dtype=torch.float64)
    grid = torch.nn.functional.affine_grid(
        theta.expand(2, 2, 3), [2, 3, 120, 100], align_corners=False
    )
    moved = torch.nn.functional.grid_sample(
        frames.permute(0, 3, 1, 2).double(), grid, padding_mode="border", align_corners=False
    ).permute(0, 2, 3, 1)
    inside = (grid.abs() < 1 - 1e-4).all(-1)
    outside = (grid.abs() > 1 + 1e-4).any(-1)
    # Fractions are multiples of 1 / 255.
    assert ((got - moved).abs().amax(-1) * inside).max() <= 1.05
    assert (got.abs().amax(-1) * outside).max() == 0


AUGMENTATIONS: dict[str, list[Any]] = {
    "geometry": [rc.RandomCrop(0.9), rc.RandomRotation(20)],
    "color": [rc.ColorJitter(0.3, 0.4, 0.5, 0.1)],
    "all": [
        rc.RandomResizedCrop((0.3, 1.0)),
        rc.RandomAffine(10, translate=(0.1, 0.1), scale=(0.5, 1.5), shear=5),
        rc.ColorJitter(0.3, 0.4, 0.5, 0.1),
        rc.RandomGamma((0.7, 1.4)),
        rc.RandomGrayscale(0.2),
        rc.RandomSharpness((0.5, 1.5)),
        rc.GaussianNoise(0.05),
        rc.RandomErasing(0.5),
    ],
}


@pytest.mark.parametrize("name", AUGMENTATIONS)
@pytest.mark.parametrize("source", [(256, 256), (480, 640), (37, 21)])
def test_a_frame_does_not_depend_on_its_batch_or_device(
    name: str, source: tuple[int, int], device: str
) -> None:
    frames = pictures(*source, count=6)
    plan = with_steps(AUGMENTATIONS[name])
    options: dict[str, Any] = {"dtype": torch.bfloat16, "channels_first": True, "augment": plan}
    spec = ImageSpec((224, 224))
    whole = process_frames(
        frames.to(device), spec, **options, samples=drawn_samples(6, device)
    ).cpu()
    samples = {name: each[-2:] for name, each in drawn_samples(6, "cpu").items()}
    part = process_frames(frames[4:].clone(), spec, **options, samples=samples)
    assert torch.equal(whole[4:].view(torch.int16), part.view(torch.int16))
    assert not torch.equal(whole[0], whole[1])


def test_frames_of_a_sample_have_the_same_geometry(device: str) -> None:
    frames = pictures(64, 64, count=1).expand(4, -1, -1, -1).contiguous()
    is_pad = torch.tensor([False, False, False, True], device=device)
    got = process_frames(
        frames.to(device),
        ImageSpec(),
        augment=with_steps([rc.RandomRotation(40)]),
        samples=drawn_samples(2, device),
        is_pad=is_pad,
        frames_per_sample=2,
    ).cpu()
    assert torch.equal(got[0], got[1])
    assert not torch.equal(got[1], got[2])
    assert torch.equal(got[3], frames[3])  # padding is not augmented


@pytest.mark.parametrize("filter_name", ["nearest", "masked"])
def test_depth_keeps_measurements(filter_name: Any, device: str) -> None:
    depth = torch.full((1, 8, 8, 1), 1500.0)
    depth[0, ::3] = 0
    depth[0, 1, 1], depth[0, 2, 2], depth[0, 5, 5] = math.nan, math.inf, -math.inf
    spec = ImageSpec((4, 4), filter=filter_name)
    got = process_frames(depth.to(device), spec).cpu()
    if filter_name == "nearest":
        assert torch.equal(got.nan_to_num(7.0), depth[:, 1::2, 1::2].nan_to_num(7.0))
    else:
        assert set(got.flatten().tolist()) <= {0.0, 1500.0}
        assert (got == 1500).sum() >= 12
    whole = depth.nan_to_num(0.0, 0.0, 0.0).to(torch.uint16)
    exact = process_frames(whole.to(device), spec).cpu()
    assert exact.dtype == torch.uint16
    assert set(exact.int().flatten().tolist()) <= {0, 1500}


@pytest.mark.large
def test_more_than_2_to_the_31_elements(device: str) -> None:
    """3001 frames of 500 x 500: in the output, and then in the source."""
    if device == "cuda":
        torch.cuda.empty_cache()
        if torch.cuda.mem_get_info()[0] < 5 * 2**30:
            pytest.skip("needs 5 GiB of free GPU memory")
    elif "ROBOCACHE_TEST_LARGE" not in os.environ:
        pytest.skip("needs 5 GiB of memory and some seconds: ROBOCACHE_TEST_LARGE=1 runs it")
    small = pictures(4, 4, count=1).expand(3000, -1, -1, -1)
    frames = torch.cat([small, pictures(4, 4, count=1, seed=9)]).to(device)
    large = process_frames(frames, ImageSpec((500, 500)))
    assert large.numel() > 2**31
    alone = process_frames(frames[-1:], ImageSpec((500, 500)))
    assert torch.equal(large[-1:], alone)
    back = process_frames(large, ImageSpec((2, 2)))
    assert torch.equal(back[-1:], process_frames(alone, ImageSpec((2, 2))))


def test_errors_name_the_window() -> None:
    frames = pictures(4, 4)

    def message(make: Any) -> str:
        with pytest.raises((ValueError, TypeError)) as caught:
            make()
        return str(caught.value)

    assert message(lambda: process_frames(frames.double(), ImageSpec())) == (
        "windows[0].frames: expected uint8, uint16, float16 or float32, got float64"
    )
    assert message(lambda: process_frames(frames, ImageSpec(), dtype=torch.float64)) == (
        "windows[0].out: expected uint8, float16, bfloat16, float32 or the type of the frames, "
        "got float64"
    )
    assert message(lambda: process_frames(frames[..., :0], ImageSpec())) == (
        "windows[0].frames: expected contiguous [N=2,H,W,C] of 1 to 4 channels, got [2,4,4,0]"
    )
    assert message(lambda: process_frames(frames, ImageSpec((0, 4)))) == (
        "windows[0].spec.size: expected [height,width] of 1 to 4096, got [0,4]"
    )
    plan = with_steps([rc.RandomGrayscale(0.1)])
    assert message(lambda: process_frames(frames[..., :1], ImageSpec(), augment=plan)) == (
        "windows[0].augment.steps[0]: expected uint8 images of 3 channels for a step of colors, "
        "got uint8 images of 1"
    )
    plan = with_steps([rc.RandomRotation(3), rc.GaussianNoise(0.1)])
    assert message(lambda: process_frames(frames.float(), ImageSpec(), augment=plan)) == (
        "windows[0].augment.steps[1]: expected uint8 images of 1 or 3 channels for a step of "
        "colors, got float32 images of 3"
    )
