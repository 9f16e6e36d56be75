"""Folders of pictures: what Pillow wrote from an array is read back as that array."""

import zlib

import numpy as np
import pytest
from PIL import Image
from tests.fuzz.seeds import DEFLATE, tiff

from recollect.core import RecollectError
from recollect.data.folder import read_folder

GENERATOR = np.random.default_rng(0)


def picture(*shape: int) -> np.ndarray:
    return GENERATOR.integers(0, 256, shape, dtype=np.uint8)


def save(path, pixels: np.ndarray, mode: str | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(pixels)
    (image.convert(mode) if mode else image).save(path)


def read(path):
    return read_folder(str(path), "folder 'mine'")


@pytest.mark.parametrize("suffix", ["png", "PNG", "bmp", "tiff"])
@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3)])
def test_pictures_come_back_in_order_of_names(tmp_path, suffix, shape):
    pixels = [picture(*shape) for _ in range(3)]
    save(tmp_path / "cat" / f"b.{suffix}", pixels[1])
    save(tmp_path / "cat" / f"a.{suffix}", pixels[0])
    save(tmp_path / "dog" / f"a.{suffix}", pixels[2])
    images, labels = read(tmp_path)
    np.testing.assert_array_equal(images.numpy(), np.stack(pixels).reshape(3, 5, 7, -1))
    assert labels.tolist() == [0, 0, 1]


def test_grey_among_colour_becomes_colour(tmp_path):
    grey, colour = picture(4, 4), picture(4, 4, 3)
    save(tmp_path / "a" / "1.png", grey)
    save(tmp_path / "b" / "1.png", colour)
    images, _ = read(tmp_path)
    np.testing.assert_array_equal(images[0].numpy(), np.repeat(grey[..., None], 3, axis=2))
    np.testing.assert_array_equal(images[1].numpy(), colour)


def test_transparency_is_dropped_and_palettes_are_looked_up(tmp_path):
    pixels = picture(4, 4, 4)
    two_tone = np.where(picture(4, 4) > 127, 255, 0).astype(np.uint8)
    save(tmp_path / "a" / "1.png", pixels)
    save(tmp_path / "a" / "2.png", two_tone, mode="P")
    save(tmp_path / "a" / "3.png", two_tone, mode="1")
    images = read(tmp_path)[0].numpy()
    np.testing.assert_array_equal(images[0], pixels[..., :3])
    np.testing.assert_array_equal(images[1], np.repeat(two_tone[..., None], 3, axis=2))
    np.testing.assert_array_equal(images[2], images[1])


def test_links_hidden_entries_and_other_files_are_left_out(tmp_path):
    kept = picture(4, 4)
    save(tmp_path / "mine" / "a" / "1.png", kept)
    save(tmp_path / "elsewhere" / "2.png", picture(9, 9))
    save(tmp_path / "mine" / ".hidden" / "1.png", picture(9, 9))
    (tmp_path / "mine" / "a" / "notes.txt").write_text("not a picture")
    (tmp_path / "mine" / "a" / "2.png").symlink_to(tmp_path / "elsewhere" / "2.png")
    (tmp_path / "mine" / "b").symlink_to(tmp_path / "elsewhere")
    images, labels = read(tmp_path / "mine")
    np.testing.assert_array_equal(images.numpy(), kept[None, :, :, None])
    assert labels.tolist() == [0]


def test_first_picture_of_another_size_is_named(tmp_path):
    for name, shape in (("1", (4, 6)), ("2", (4, 6)), ("3", (6, 4)), ("4", (9, 9))):
        save(tmp_path / "a" / f"{name}.png", picture(*shape))
    with pytest.raises(RecollectError, match=r"3\.png' is 4 x 6 pixels and '.*1\.png' is 6 x 4"):
        read(tmp_path)


def test_sixteen_bit_pictures_are_refused(tmp_path):
    save(tmp_path / "a" / "1.png", np.full((4, 4), 40_000, dtype=np.uint16))
    with pytest.raises(RecollectError, match=r"1\.png' has pixel mode I;16, but must have 8 bits"):
        read(tmp_path)


def test_damaged_picture_is_named(tmp_path):
    save(tmp_path / "a" / "1.png", picture(32, 32))
    whole = (tmp_path / "a" / "1.png").read_bytes()
    for content in (b"", b"not a picture", whole[: len(whole) // 2]):
        (tmp_path / "a" / "2.png").write_bytes(content)
        with pytest.raises(RecollectError, match=r"2\.png' cannot be read"):
            read(tmp_path)


@pytest.mark.parametrize("suffix", ["png", "bmp", "gif", "tiff", "jpg"])
def test_a_picture_with_too_many_pixels_is_refused_before_it_is_unpacked(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr("recollect.data.folder.MOST_PIXELS", 1600)
    save(tmp_path / "a" / f"1.{suffix}", picture(40, 40))
    assert read(tmp_path)[0].shape[:3] == (1, 40, 40)
    save(tmp_path / "a" / f"1.{suffix}", picture(40, 41))
    monkeypatch.setattr(Image.Image, "convert", lambda *args: pytest.fail("it was unpacked"))
    with pytest.raises(RecollectError, match=r"1\.\w+' has more than 1,600 pixels"):
        read(tmp_path)


@pytest.mark.parametrize("pixels", [1000, 700], ids=["a warning of Pillow's", "an error of Pillow's"])
def test_what_pillow_itself_finds_too_large_is_the_same_sentence(tmp_path, monkeypatch, pixels):
    monkeypatch.setattr("recollect.data.folder.MOST_PIXELS", 500)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", pixels)
    save(tmp_path / "a" / "1.png", picture(40, 40))
    with pytest.raises(RecollectError, match="has more than 500 pixels"):
        read(tmp_path)


@pytest.mark.parametrize("compression", ["tiff_lzw", "tiff_adobe_deflate", "packbits"])
def test_compressed_tiffs_come_back(tmp_path, compression):
    pixels = picture(5, 7, 3)
    (tmp_path / "a").mkdir()
    Image.fromarray(pixels).save(tmp_path / "a" / "1.tif", compression=compression)
    np.testing.assert_array_equal(read(tmp_path)[0][0].numpy(), pixels)


def test_other_compressions_of_tiff_are_refused(tmp_path):
    (tmp_path / "a").mkdir()
    Image.fromarray(picture(16, 16, 3)).save(tmp_path / "a" / "1.tif", compression="jpeg")
    with pytest.raises(RecollectError, match=r"1\.tif' is a TIFF compressed by jpeg, but only LZW"):
        read(tmp_path)


def test_tiles_of_a_tiff_count_as_pixels(tmp_path):
    (tmp_path / "a").mkdir()
    pixels = np.zeros((16, 16, 3), dtype=np.uint8)
    pixels[:5, :7] = picture(5, 7, 3)
    held = zlib.compress(pixels.tobytes())
    (tmp_path / "a" / "1.tif").write_bytes(tiff(7, 5, held, DEFLATE, tile=(16, 16)))
    np.testing.assert_array_equal(read(tmp_path)[0][0].numpy(), pixels[:5, :7])
    (tmp_path / "a" / "1.tif").write_bytes(tiff(7, 5, held, DEFLATE, tile=(2**11, 2**11 + 16)))
    with pytest.raises(RecollectError, match="has more than 4,194,304 pixels"):
        read(tmp_path)


def test_a_folder_too_large_for_memory_is_refused(tmp_path, monkeypatch):
    for index in range(3):
        save(tmp_path / "a" / f"{index}.png", picture(10, 10))
    monkeypatch.setattr("recollect.data.images.LARGEST_BYTES", 3 * 400 - 1)
    with pytest.raises(RecollectError, match=r"the folder of '.*0\.png' would take"):
        read(tmp_path)


def test_folders_without_classes_or_pictures_are_refused(tmp_path):
    save(tmp_path / "1.png", picture(4, 4))
    with pytest.raises(RecollectError, match="folder 'mine' has no sub-folders"):
        read(tmp_path)
    (tmp_path / "a").mkdir()
    with pytest.raises(RecollectError, match="/a' holds no pictures"):
        read(tmp_path)


def test_a_program_for_a_printer_is_no_picture(tmp_path):
    """Pillow would hand it to Ghostscript, whatever the file is called."""
    save(tmp_path / "cat" / "a.png", picture(5, 7))
    (tmp_path / "cat" / "b.png").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 7 5\n%%EndComments\nshowpage\n"
    )
    with pytest.raises(RecollectError, match=r"b\.png' cannot be read \(UnidentifiedImageError\)"):
        read(tmp_path)


def test_pillow_has_nothing_to_say_about_whole_pixels(tmp_path, recwarn):
    save(tmp_path / "cat" / "a.tiff", picture(5, 7))
    content = (tmp_path / "cat" / "a.tiff").read_bytes()
    (tmp_path / "cat" / "a.tiff").write_bytes(content[:-2])
    try:
        read(tmp_path)
    except RecollectError as error:
        assert "cannot be read" in str(error)  # noqa: PT017
    assert not recwarn.list
