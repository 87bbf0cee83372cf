#include "live/image_rows.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "image/checks.h"
#include "live/buffer_rows.h"
#include "live/inline_execution.h"
#include "window/windows.h"

namespace robocache {
namespace {

/// The image operation of a stream, for one frame.
ImageWindow window_of(const LiveStream& stream) {
  const std::int64_t channels = image_channels(stream);
  const std::vector<std::int64_t> row = output_shape(stream);
  ImageWindow window;
  window.spec = stream.image.value_or(ImageSpec{});
  window.frames =
      ConstTensorView(nullptr, stream.dtype, {1, stream.shape[0], stream.shape[1], channels});
  for (const auto& [numbers, scale] : {std::pair{&stream.subtract, window.subtract},
                                       std::pair{&stream.multiply, window.multiply}}) {
    if (numbers->empty()) continue;
    for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
      scale[c] = (*numbers)[c % numbers->size()];
    }
  }
  window.channels_first = stream.channels_first;
  window.out = TensorView(nullptr, stream.out_dtype, {1, row[0], row[1], channels});
  if (stream.channels_first) {
    window.out = TensorView(nullptr, stream.out_dtype, {1, channels, row[1], row[2]});
  }
  return window;
}

}  // namespace

std::vector<LiveStream> processed_streams(const std::vector<LiveStream>& streams) {
  std::vector<LiveStream> processed = streams;
  for (LiveStream& stream : processed) {
    static_cast<WindowSpec&>(stream) = processed_window(stream);
  }
  return processed;
}

ImageRows::ImageRows(const std::vector<LiveStream>& streams, std::int64_t robots)
    : streams_(streams.size()) {
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const LiveStream& stream = streams[i];
    if (!stream.image || !takes_rows(stream, streams)) continue;
    Stream& made = streams_[i];
    made.element_bytes = static_cast<std::size_t>(size_of(stream.dtype));
    made.frame_bytes = static_cast<std::size_t>(elements_of(stream)) * made.element_bytes;
    for (std::int64_t r = 0; r < robots; ++r) {
      Robot& robot = *made.robots.emplace_back(std::make_unique<Robot>());
      robot.call = check_image_window(window_of(stream), 0, 1, {}, DeviceType::kCpu);
      robot.frame = make_aligned(made.frame_bytes);
      robot.workspace = make_aligned(image_workspace_on_cpu(robot.call.plan));
    }
    made.black = make_aligned(row_bytes(stream));
    process(static_cast<std::int64_t>(i), 0, robot_of(static_cast<std::int64_t>(i), 0).frame.get(),
            made.black.get());
  }
}

void ImageRows::process(std::int64_t stream, std::int64_t robot, const void* frame,
                        std::byte* row) noexcept {
  Robot& with = robot_of(stream, robot);
  if (reinterpret_cast<std::uintptr_t>(frame) % of(stream).element_bytes != 0) {
    std::memcpy(with.frame.get(), frame, of(stream).frame_bytes);
    frame = with.frame.get();
  }
  with.call.plan.frames = frame;
  with.call.plan.out = row;
  process_images_on_cpu(with.call, with.workspace.get(), in_this_thread());
}

}  // namespace robocache
