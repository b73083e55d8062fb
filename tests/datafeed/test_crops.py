"""Check which part of a picture is kept, and what it becomes."""

from __future__ import annotations

import itertools
import struct
from typing import Literal

import cv2
import numpy as np
import pytest
import simplejpeg

from datafeed.crops import DRAWS, central, drawn
from datafeed.errors import ConfigError, CorruptData
from datafeed.images import ImageDecoder, ImageOptions
from datafeed.splitmix import image_draws, stream

SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
Pixels = np.ndarray


def draws(count: int, seed: int = 0, epoch: int = 0) -> list[list[float]]:
    """Draw for the records from 0."""
    return image_draws(seed, epoch, np.arange(count, dtype=np.uint64), DRAWS).tolist()


def ramp(height: int, width: int) -> Pixels:
    """Paint red that grows to the right and green that grows downwards."""
    out = np.zeros((height, width, 3), np.uint8)
    out[..., 0] = np.linspace(0, 255, width)[None]
    out[..., 1] = np.linspace(0, 255, height)[:, None]
    return out


def png(pixels: Pixels) -> bytes:
    """Encode RGB."""
    return bytes(cv2.imencode(".png", pixels[..., ::-1])[1])


def decoded(encoded: bytes, options: ImageOptions, chosen: list[float] | None = None) -> Pixels:
    """Decode as the options say."""
    out = np.zeros((*options.sides, 3), np.uint8)
    ImageDecoder(options).decode(np.frombuffer(encoded, np.uint8), out, chosen or ())
    return out


def test_draws_are_uniform_and_differ_by_seed_epoch_and_record() -> None:
    """Their mean and spread are those of [0, 1), and no two are equal."""
    values = np.concatenate(
        [image_draws(s, e, np.arange(2000, dtype=np.uint64), DRAWS) for s in (0, 1) for e in (0, 1)]
    )
    assert values.min() >= 0
    assert values.max() < 1
    assert np.abs(values.mean(0) - 0.5).max() < 0.02
    assert np.abs(values.var(0) - 1 / 12).max() < 0.005
    assert len(np.unique(values)) == values.size


def test_draws_follow_from_the_order_s_generator() -> None:
    """A record's key is the stream of its seed, epoch and number; draw d is its d-th splitmix64 output."""
    key = stream(9, 3, 5, 1)
    value = (key + 2 * 0x9E3779B97F4A7C15) % 2**64
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) % 2**64
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) % 2**64
    assert draws(2, 3, 5)[1][1] == ((value ^ value >> 31) >> 11) / 2**53


@pytest.mark.parametrize(("height", "width"), [(300, 400), (375, 500), (500, 200)])
def test_random_parts_have_torchvision_s_areas_and_aspects(height: int, width: int) -> None:
    """They lie within the picture, in range but for rounding, and reach both ends of each range."""
    parts = np.array([drawn(height, width, SCALE, RATIO, chosen) for chosen in draws(4000)])
    top, left, high, wide = parts.T
    assert top.min() == left.min() == 0
    assert ((top + high) <= height).all()
    assert ((left + wide) <= width).all()
    areas, aspects = high * wide / (height * width), wide / high
    assert 0.075 < areas.min() < 0.1
    assert areas.max() <= 1.0
    assert 0.73 < aspects.min() < 0.77
    assert 1.3 < aspects.max() < 1.36


def test_areas_and_aspects_are_drawn_as_torchvision_draws_them() -> None:
    """Parts too small to be refused: uniform in area, uniform in the logarithm of the aspect."""
    parts = np.array([drawn(2000, 2000, (0.1, 0.5), RATIO, chosen) for chosen in draws(4000)])
    areas, aspects = parts[:, 2] * parts[:, 3] / 4e6, np.log(parts[:, 3] / parts[:, 2])
    assert np.abs(np.quantile(areas, [0.25, 0.5, 0.75]) - [0.2, 0.3, 0.4]).max() < 0.015
    assert np.abs(np.quantile(aspects, [0.25, 0.5, 0.75]) - np.log(4 / 3) * np.array([-0.5, 0, 0.5])).max() < 0.02


@pytest.mark.parametrize(
    ("height", "width", "kept"), [(10, 1000, (10, 13)), (1000, 10, (13, 10)), (100, 100, (100, 100))]
)
def test_the_central_part_is_taken_when_ten_tries_do_not_fit(height: int, width: int, kept: tuple[int, int]) -> None:
    """The largest part whose aspect is in range."""
    chosen = [0.0, 0.9, 0.9, *[1 - 2**-53, 0.9] * 10]
    expected = ((height - kept[0]) // 2, (width - kept[1]) // 2, *kept)
    assert drawn(height, width, (1.0, 1.0), RATIO, chosen) == expected


def test_the_central_crop_is_seven_eighths_of_the_shorter_side() -> None:
    """Resize(256) and CenterCrop(224) keep 224 / 256 of it."""
    assert central(256, 512, (224, 224)) == (16, 144, 224, 224)
    assert central(512, 512, (224, 448)) == (144, 32, 224, 448)


@pytest.mark.parametrize(("height", "width"), [(256, 256), (300, 400), (900, 700), (64, 48), (1, 1), (3, 200)])
@pytest.mark.parametrize("form", ["jpeg", "png"])
def test_the_central_crop_equals_a_resize_and_a_cut(height: int, width: int, form: str) -> None:
    """OpenCV's resize to 256 of the shorter side, then the middle 224, within the rounding to whole pixels."""
    pixels = ramp(height, width)
    encoded = png(pixels) if form == "png" else simplejpeg.encode_jpeg(pixels, 98, colorsubsampling="444")
    factor = 256 / min(height, width)
    large = cv2.resize(pixels, (round(width * factor), round(height * factor)), interpolation=cv2.INTER_LINEAR)
    top, left = (large.shape[0] - 224) // 2, (large.shape[1] - 224) // 2
    expected = large[top : top + 224, left : left + 224].astype(int)
    if min(height, width) > 3:  # of fewer pixels nothing can be cut
        assert np.abs(decoded(encoded, ImageOptions(224, "center")) - expected).max() <= 8
    else:
        assert decoded(encoded, ImageOptions(224, "center")).shape == (224, 224, 3)


def test_jpegs_and_pngs_are_cut_alike() -> None:
    """A JPEG that is decoded smaller keeps the same part, up to two of its pixels."""
    pixels = ramp(1200, 1600)
    options = ImageOptions(64, "random", 0.5)
    jpeg, lossless = simplejpeg.encode_jpeg(pixels, 95, colorsubsampling="444"), png(pixels)
    for chosen in draws(8):
        found = decoded(jpeg, options, chosen).astype(int)
        assert np.abs(found - decoded(lossless, options, chosen)).max() <= 6


@pytest.mark.parametrize("crop", ["center", "random"])
@pytest.mark.parametrize("turn", range(1, 9))
def test_an_orientation_is_applied_before_the_crop(crop: Literal["center", "random"], turn: int) -> None:
    """A turned JPEG gives what the upright picture gives."""
    stored = simplejpeg.encode_jpeg(ramp(300, 500), 95, colorsubsampling="444")
    tiff = struct.pack("<2sHIHHHIHHI", b"II", 42, 8, 1, 0x0112, 3, 1, turn, 0, 0)
    segment = b"\xff\xe1" + struct.pack(">H", len(tiff) + 8) + b"Exif\0\0" + tiff
    options, upright = (
        ImageOptions((40, 50), crop),
        cv2.imdecode(np.frombuffer(stored[:2] + segment + stored[2:], np.uint8), cv2.IMREAD_COLOR_RGB),
    )
    for chosen in draws(4):
        found = decoded(stored[:2] + segment + stored[2:], options, chosen).astype(int)
        assert np.abs(found - decoded(png(upright), options, chosen)).max() <= 10


def test_grey_and_cmyk_pictures_are_cropped() -> None:
    """A grey one keeps equal channels; a CMYK one, which is not decoded smaller, its part."""
    options, chosen = ImageOptions(40, "random"), draws(1)[0]
    grey = decoded(simplejpeg.encode_jpeg(ramp(300, 500)[..., :1].copy(), 95, colorspace="GRAY"), options, chosen)
    expected = decoded(png(ramp(300, 500)), options, chosen)[..., 0].astype(int)
    assert np.abs(grey.astype(int) - expected[..., None]).max() <= 6
    ink = np.full((300, 500, 4), 255, np.uint8)
    ink[..., :3] = ramp(300, 500)[..., :1]
    cmyk = decoded(simplejpeg.encode_jpeg(ink, 95, colorspace="CMYK", colorsubsampling="444"), options, chosen)
    slopes = np.diff(cmyk[20, [0, 39], 0].astype(int)), np.diff(expected[20, [0, 39]])
    assert abs(abs(slopes[0][0]) - abs(slopes[1][0])) <= 8


def test_flips_mirror_half_of_the_pictures() -> None:
    """Each is the picture or its mirror image, as often as asked."""
    encoded, options = png(ramp(32, 32)), ImageOptions(32, flip=0.3)
    flipped = [decoded(encoded, options, chosen)[0, 0, 0] > 127 for chosen in draws(1000)]
    assert 0.25 < np.mean(flipped) < 0.35
    mirrored = next(chosen for chosen, mirror in zip(draws(1000), flipped, strict=True) if mirror)
    assert np.array_equal(decoded(encoded, options, mirrored), ramp(32, 32)[:, ::-1])


@pytest.mark.parametrize(("crop", "flip"), list(itertools.product([None, "center", "random"], [0.0, 1.0])))
def test_what_does_not_decode_is_corrupt(crop: None, flip: float) -> None:
    """A cut JPEG, its header alone, garbage and nothing."""
    jpeg = simplejpeg.encode_jpeg(ramp(300, 300), 95)
    for encoded in (jpeg[: len(jpeg) // 2], jpeg[:20], b"\xff\xd8\xff", b"garbage", b""):
        with pytest.raises(CorruptData, match="did not decode"):
            decoded(encoded, ImageOptions(64, crop, flip), draws(1)[0])


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"crop": "middle"}, "crop must be None"),
        ({"flip": 1.5}, "flip must be a probability"),
        ({"flip": True}, "flip must be a probability"),
        ({"crop": "random", "scale": (0.0, 1.0)}, "scale must be"),
        ({"crop": "random", "scale": (0.5, 1.5)}, "scale must be"),
        ({"crop": "random", "ratio": (2.0, 1.0)}, "ratio must be"),
        ({"crop": "random", "ratio": 1.0}, "ratio must be"),
        ({"crop": "center", "scale": (0.5, 1.0)}, "leave them out"),
    ],
)
def test_options_out_of_range_are_refused(wrong: dict[str, object], match: str) -> None:
    """Each by name."""
    with pytest.raises(ConfigError, match=match):
        ImageOptions(8, **wrong)  # type: ignore[arg-type]
