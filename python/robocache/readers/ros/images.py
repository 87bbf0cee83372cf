"""The images of ROS messages: raw pixels in the encodings of sensor_msgs, and JPEG or PNG."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.readers.ros.message_types import Message

RAW = "sensor_msgs/msg/Image"
COMPRESSED = "sensor_msgs/msg/CompressedImage"

# The number of stored channels, and the slice of red, green and blue.
_COLORS = {
    "rgb8": (3, slice(None)),
    "bgr8": (3, slice(None, None, -1)),
    "rgba8": (4, slice(0, 3)),
    "bgra8": (4, slice(2, None, -1)),
}
_GRAYS = {"mono8": "8UC1", "mono16": "16UC1"}
_KINDS = {"U": "u", "S": "i", "F": "f"}


def decode_raw(message: Message) -> NDArray[Any] | str:
    """Decodes a sensor_msgs/Image; the reason as text if it cannot be decoded.

    Returns:
        Colors as uint8 [H,W,3], red first, without alpha; others as they are, [H,W,C]: depth is
        uint16 or float32 [H,W,1].
    """
    encoding = str(message.encoding)
    if encoding in _COLORS:
        channels, order = _COLORS[encoding]
        pixel = np.dtype(np.uint8)
    else:
        match = re.fullmatch(r"(8|16|32|64)([USF])C(\d+)", _GRAYS.get(encoding, encoding))
        if match is None or (match[1], match[2]) in {("8", "F"), ("16", "F")}:
            return f"their encoding is {encoding!r}"
        channels, order = int(match[3]), slice(None)
        pixel = np.dtype(f"{_KINDS[match[2]]}{int(match[1]) // 8}")
    if channels != 1 and (pixel != np.uint8 or channels not in (3, 4)):
        return f"their encoding is {encoding!r}"
    height, width, step = int(message.height), int(message.width), int(message.step)
    row_bytes = width * channels * pixel.itemsize
    data = np.asarray(message.data, np.uint8)
    if min(height, width, channels) == 0 or step < row_bytes or data.size < step * height:
        return f"{data.size} bytes are not {height} rows of {step} bytes for {width} pixels"
    rows = data[: step * height].reshape(height, step)[:, :row_bytes]
    stored = pixel.newbyteorder(">" if message.is_bigendian else "<")
    pixels = np.ascontiguousarray(rows).view(stored)
    image: NDArray[Any] = pixels.reshape(height, width, channels)
    return image[..., order].astype(pixel, copy=False)
