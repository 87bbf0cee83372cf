// Properties that follow from the fields of a window.
#pragma once

#include <cstdint>
#include <vector>

#include "robocache/window.h"

namespace robocache {

/// The product of a shape's sizes.
std::int64_t elements_of(const std::vector<std::int64_t>& shape);
/// D: the elements of a row.
std::int64_t elements_of(const WindowSpec& window);

/// Whether rows are images [H,W,C] of U8.
bool is_image(const WindowSpec& window);
/// Whether rows are images that JPEG files can have, of 1 or 3 channels.
bool may_be_jpeg(const WindowSpec& window);

/// Whether alignment computes with the window's type; rows of other types are copied as bytes.
bool is_computed(const WindowSpec& window);

bool is_by_row(const WindowSpec& window);

/// The runs of a row's elements; one run where the window has no layout.
std::vector<Run> runs_of(const WindowSpec& window);

/// Whether a run of the window has this method. False by row, where methods have no effect.
bool has_method(const WindowSpec& window, Method method);

/// The channels of a row that is an image [H,W] or [H,W,C].
std::int64_t image_channels(const WindowSpec& window);

/// The shape of a step's values in a batch: [h,w,C] or [C,h,w] of an image, else that of a row.
std::vector<std::int64_t> output_shape(const WindowSpec& window);

/// The window of the source frames that `process_images` reads, of a window with `image`; other
/// windows themselves.
WindowSpec base_window(const WindowSpec& window);

/// The window of rows that are what an image operation wrote; the window itself without one.
WindowSpec processed_window(const WindowSpec& window);

/// Whether no offset lies past the anchor, so that a robot can compute the window live.
bool is_live(const WindowSpec& window);

/// The earliest offset in ns or rows; 0 where all offsets are positive.
std::int64_t earliest_offset(const WindowSpec& window);

}  // namespace robocache
