#include "live/constant_outputs.h"

#include <cstring>
#include <utility>

#include "live/batch_keys.h"
#include "window/windows.h"

namespace robocache {
namespace {

std::vector<std::byte> repeated(std::int64_t count, int byte) {
  return std::vector<std::byte>(static_cast<std::size_t>(count), static_cast<std::byte>(byte));
}

}  // namespace

ConstantOutputs::ConstantOutputs(const std::vector<LiveStream>& streams, const OutputLayout& layout,
                                 const TransformChain& chain,
                                 std::optional<std::int64_t> dataset_index) {
  for (const WindowPlace& place : layout.windows) {
    const auto number = static_cast<std::size_t>(place.stream);
    const LiveStream& stream = streams[number];
    if (chain.window_of(number) == nullptr) add_values(stream, place);
    if (!stream.is_missing) continue;
    const auto steps = static_cast<std::int64_t>(stream.offsets.size());
    const std::int64_t age_bytes = steps * size_of(DataType::kInt64);
    constants_.push_back({place.stream, place.is_pad, steps, 1, repeated(steps, 1)});
    constants_.push_back({place.stream, place.age, age_bytes, 1, repeated(age_bytes, 0)});
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (layout.dim_is_pad[i] < 0) continue;
    const std::int64_t width = width_of(streams[i]);
    const std::int64_t own = streams[i].is_missing ? 0 : elements_of(streams[i]);
    std::vector<std::byte> is_pad = repeated(width, 1);
    std::memset(is_pad.data(), 0, static_cast<std::size_t>(own));
    constants_.push_back(
        {static_cast<std::int64_t>(i), layout.dim_is_pad[i], width, 1, std::move(is_pad)});
  }
  if (!dataset_index) return;
  std::vector<std::byte> index(sizeof *dataset_index);
  std::memcpy(index.data(), &*dataset_index, index.size());
  constants_.push_back({-1, layout.dataset_index, size_of(DataType::kInt64), 1, std::move(index)});
}

/// Adds the zeros of a window: of a missing stream, or past a row's own elements.
void ConstantOutputs::add_values(const LiveStream& stream, const WindowPlace& place) {
  const std::int64_t own = stream.is_missing ? 0 : elements_of(stream);
  const std::int64_t zeros = width_of(stream) - own;
  if (zeros == 0) return;
  const std::int64_t element = size_of(stream.out_dtype);
  constants_.push_back({place.stream, place.values + own * element, place.row_stride * element,
                        static_cast<std::int64_t>(stream.offsets.size()),
                        repeated(zeros * element, 0)});
}

void ConstantOutputs::write(const Selection& selection, std::int64_t robot, std::byte* out) const {
  for (const Constant& constant : constants_) {
    const std::int64_t stream = constant.stream;
    if (stream >= 0 && selection.streams[static_cast<std::size_t>(stream)] == 0) continue;
    std::byte* to = out + constant.offset + robot * constant.steps * constant.step_bytes;
    for (std::int64_t k = 0; k < constant.steps; ++k, to += constant.step_bytes) {
      std::memcpy(to, constant.bytes.data(), constant.bytes.size());
    }
  }
}

}  // namespace robocache
