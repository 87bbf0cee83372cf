#include "window/windows.h"

#include <algorithm>

#include "core/argument.h"
#include "image/spec.h"

namespace robocache {

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  return elements;
}

std::int64_t elements_of(const WindowSpec& window) { return elements_of(window.shape); }

bool is_computed(const WindowSpec& window) { return is_value_type(window.dtype); }

bool is_image(const WindowSpec& window) {
  return window.dtype == DataType::kUInt8 && window.shape.size() == 3;
}

bool may_be_jpeg(const WindowSpec& window) {
  return is_image(window) && (window.shape[2] == 1 || window.shape[2] == 3);
}

bool is_by_row(const WindowSpec& window) { return window.timeline == Timeline::kRows; }

std::vector<Run> runs_of(const WindowSpec& window) {
  if (!window.layout.empty()) return window.layout;
  return {{window.method, elements_of(window)}};
}

bool has_method(const WindowSpec& window, Method method) {
  const std::vector<Run> runs = runs_of(window);
  return !is_by_row(window) && std::any_of(runs.begin(), runs.end(),
                                           [&](const Run& run) { return run.method == method; });
}

std::int64_t image_channels(const WindowSpec& window) {
  return window.shape.size() > 2 ? window.shape[2] : 1;
}

std::vector<std::int64_t> output_shape(const WindowSpec& window) {
  if (!window.image && !window.channels_first) return window.shape;
  ImageSize size{window.shape[0], window.shape[1]};
  if (window.image) size = output_size(*window.image, size);
  if (window.channels_first) return {image_channels(window), size.height, size.width};
  std::vector<std::int64_t> shape = window.shape;
  shape[0] = size.height;
  shape[1] = size.width;
  return shape;
}

WindowSpec base_window(const WindowSpec& window) {
  WindowSpec base = window;
  if (!window.image) return base;
  base.image.reset();
  base.out_dtype = window.dtype;
  base.channels_first = false;
  base.subtract.clear();
  base.multiply.clear();
  base.normalize.clear();
  return base;
}

WindowSpec processed_window(const WindowSpec& window) {
  if (!window.image) return window;
  WindowSpec processed = base_window(window);
  processed.dtype = processed.out_dtype = window.out_dtype;
  processed.shape = output_shape(window);
  processed.channels.clear();
  processed.encoding.reset();
  return processed;
}

bool is_live(const WindowSpec& window) {
  return std::all_of(window.offsets.begin(), window.offsets.end(),
                     [](std::int64_t offset) { return offset <= 0; });
}

std::int64_t earliest_offset(const WindowSpec& window) {
  return std::min(std::int64_t{0}, *std::min_element(window.offsets.begin(), window.offsets.end()));
}

}  // namespace robocache
