#include "live/undo.h"

#include "window/windows.h"

namespace robocache {

Inverse::Inverse(const LiveStream& stream)
    : exists_(is_computed(stream) && !stream.channels_first && !stream.image),
      count_(elements_of(stream)) {
  const bool is_plain =
      stream.subtract.empty() && stream.multiply.empty() && stream.relative_to.empty();
  if (!exists_ || is_plain) return;
  const bool is_wide = compute_type(stream.dtype, stream.out_dtype) == DataType::kFloat64;
  const auto planned = [&](const std::vector<double>& numbers, std::size_t channel, double none) {
    if (numbers.empty()) return none;
    const double number = numbers[channel % numbers.size()];
    return is_wide ? number : static_cast<double>(static_cast<float>(number));
  };
  channels_.resize(static_cast<std::size_t>(count_));
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    channels_[c] = {planned(stream.subtract, c, 0), planned(stream.multiply, c, 1),
                    stream.relative_to.empty() ? -1 : stream.reference_columns[c],
                    stream.layout.empty() && stream.method == Method::kAngle};
  }
  std::size_t c = 0;
  for (const Run& run : stream.layout) {
    for (std::int64_t i = 0; i < run.channels; ++i) {
      channels_[c++].is_angle = run.method == Method::kAngle;
    }
  }
}

double Inverse::value_of(const LiveWindows::Reference& reference, std::int64_t row,
                         std::int64_t column) {
  const std::int64_t at = row * elements_of(*reference.stream) + column;
  if (reference.type == DataType::kFloat64) {
    return reinterpret_cast<const double*>(reference.values.get())[at];
  }
  return static_cast<double>(reinterpret_cast<const float*>(reference.values.get())[at]);
}

}  // namespace robocache
