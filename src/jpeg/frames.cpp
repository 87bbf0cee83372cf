// Calls of decode_jpeg_frames: validation, and the conversion of bytes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "core/argument.h"
#include "core/check.h"
#include "core/number.h"
#include "core/workspace.h"
#include "jpeg/backends.h"
#include "robocache/build_info.h"
#include "robocache/jpeg.h"

namespace robocache {
namespace {

namespace target = ROBOCACHE_TARGET;

JpegPlan check_layout(const JpegLayout& layout) {
  const auto check_range = [](const char* name, std::int32_t value, std::int32_t most) {
    if (value >= 1 && value <= most) return;
    throw_value_error(name, "1 to " + std::to_string(most), std::to_string(value));
  };
  check_range("layout.width", layout.width, kMaxJpegSide);
  check_range("layout.height", layout.height, kMaxJpegSide);
  check_range("layout.every", layout.every, kMaxJpegEvery);
  if (layout.sampling > JpegSampling::k420) {
    throw_value_error("layout.sampling", "a JpegSampling",
                      std::to_string(static_cast<int>(layout.sampling)));
  }
  return make_jpeg_plan(layout);
}

std::int32_t divide_up(std::int32_t count, std::int32_t by) { return (count + by - 1) / by; }

std::int32_t most_blocks_per_frame(const JpegPlan& plan) {
  return divide_up(plan.entries, kMinBlockEntries);
}

/// The blocks of samples_kernel per frame: few, but enough for each multiprocessor of a large GPU
/// to have two. No block is without entries.
std::int32_t blocks_per_frame(const JpegPlan& plan, std::int64_t count) {
  constexpr std::int64_t kEnoughBlocks = 264;
  const std::int32_t fewest = divide_up(plan.entries, kMaxBlockEntries);
  const std::int32_t most = most_blocks_per_frame(plan);
  const std::int64_t wanted = (kEnoughBlocks + count - 1) / std::max<std::int64_t>(count, 1);
  const auto blocks = static_cast<std::int32_t>(std::clamp<std::int64_t>(wanted, fewest, most));
  return divide_up(plan.entries, divide_up(plan.entries, blocks));
}

/// The arrays of a workspace on CUDA.
struct Scratch {
  std::uint8_t* samples;
  std::uint8_t* block_status;
  std::int32_t* stream_of;
};

Scratch cut_workspace(WorkspaceCutter& cutter, const JpegPlan& plan, std::int64_t count) {
  Scratch scratch;
  count = std::min(count, kMaxCallFrames);
  scratch.samples = cutter.cut<std::uint8_t>(plan.plane_bytes() * count);
  // A part of a call may have fewer frames, and more blocks of each.
  scratch.block_status = cutter.cut<std::uint8_t>(most_blocks_per_frame(plan) * count);
  scratch.stream_of = cutter.cut<std::int32_t>(count);
  return scratch;
}

/// The bits of an element.
std::uint64_t element_bits(DataType dtype, double x) {
  switch (dtype) {
    case DataType::kFloat64:
      return target::bit_cast<std::uint64_t>(x);
    case DataType::kFloat16:
      return target::Round<target::Float16>::from(x).bits;
    case DataType::kBFloat16:
      return target::Round<target::BFloat16>::from(x).bits;
    case DataType::kFloat32:
      return target::bit_cast<std::uint32_t>(static_cast<float>(x));
    default:
      return target::Round<std::uint8_t>::from(x);
  }
}

/// Finds a scale and a bias of float32 with which fma gives the elements of a channel. Those of
/// float64, rounded, give all of them nearly always, and their neighbors the rest.
bool find_linear(DataType dtype, const std::uint64_t (&table)[256], double multiply, double offset,
                 float& scale, float& bias) {
  constexpr int kNeighbors = 2;
  const auto neighbor = [](double x, int steps) {
    auto near = static_cast<float>(x);
    for (int i = 0; i < std::abs(steps); ++i) {
      near = std::nextafter(near, steps > 0 ? HUGE_VALF : -HUGE_VALF);
    }
    return near;
  };
  const auto element = [&](float x) {
    return dtype == DataType::kFloat16 ? target::Round<target::Float16>::from(x).bits
                                       : target::Round<target::BFloat16>::from(x).bits;
  };
  for (int i = -kNeighbors; i <= kNeighbors; ++i) {
    for (int k = -kNeighbors; k <= kNeighbors; ++k) {
      scale = neighbor(multiply, i);
      bias = neighbor(offset, k);
      bool is_equal = true;
      for (int x = 0; x < 256 && is_equal; ++x) {
        is_equal = element(std::fma(static_cast<float>(x), scale, bias)) == table[x];
      }
      if (is_equal) return true;
    }
  }
  return false;
}

}  // namespace

JpegConversion make_jpeg_conversion(DataType dtype, bool channels_first, std::int32_t channels,
                                    const double* subtract, const double* multiply,
                                    const std::uint64_t (*table)[256]) {
  if (!is_value_type(dtype)) throw_type_error("dtype", kValueTypes, name_of(dtype));
  if (channels != 1 && channels != 3) {
    throw_value_error("channels", "1 or 3", std::to_string(channels));
  }
  JpegConversion made;
  made.pixels.dtype = dtype;
  made.pixels.channels_first = channels_first;
  made.pixels.channels = channels;
  made.pixels.is_identity = dtype == DataType::kUInt8;
  made.pixels.is_linear = dtype == DataType::kFloat16 || dtype == DataType::kBFloat16;
  for (std::int32_t c = 0; c < channels; ++c) {
    for (std::uint64_t x = 0; x < 256; ++x) {
      made.table[c][x] = table[c][x];
      made.pixels.is_identity = made.pixels.is_identity && table[c][x] == x;
    }
    if (!made.pixels.is_linear) continue;
    const double s = subtract == nullptr ? 0 : subtract[c];
    const double m = multiply == nullptr ? 1 : multiply[c];
    made.pixels.is_linear =
        find_linear(dtype, made.table[c], m, -s * m, made.scale[c], made.bias[c]);
  }
  return made;
}

JpegConversion make_jpeg_conversion(DataType dtype, bool channels_first, std::int32_t channels,
                                    const double* subtract, const double* multiply) {
  std::uint64_t table[3][256] = {};
  for (std::int32_t c = 0; c < std::clamp(channels, 0, 3); ++c) {
    const double s = subtract == nullptr ? 0 : subtract[c];
    const double m = multiply == nullptr ? 1 : multiply[c];
    for (int x = 0; x < 256; ++x) table[c][x] = element_bits(dtype, (x - s) * m);
  }
  return make_jpeg_conversion(dtype, channels_first, channels, subtract, multiply, table);
}

std::size_t decode_jpeg_frames_workspace_bytes(const JpegLayout& layout, std::int64_t count,
                                               DeviceType device) {
  const JpegPlan plan = check_layout(layout);
  if (device == DeviceType::kCpu) return 0;
  WorkspaceCutter cutter(nullptr, device);
  cut_workspace(cutter, plan, count);
  return cutter.bytes();
}

void decode_jpeg_frames(const JpegStream* streams, const std::vector<JpegOutput>& outputs,
                        const JpegLayout& layout, const JpegPixels& pixels, std::int64_t* damaged,
                        const Workspace& workspace, const ExecutionContext& context) {
  const bool is_cuda = context.device == DeviceType::kCuda;
  JpegCall call{};
  call.streams = streams;
  call.layout = layout;
  call.plan = check_layout(layout);
  call.pixels = pixels;
  call.damaged = damaged;
  if (!is_value_type(pixels.dtype)) {
    throw_type_error("pixels.dtype", kValueTypes, name_of(pixels.dtype));
  }
  if (pixels.channels != 1 && pixels.channels != 3) {
    throw_value_error("pixels.channels", "1 or 3", std::to_string(pixels.channels));
  }
  if (layout.largest_tables < 1 || layout.largest_tables > kMaxJpegTableWords) {
    throw_value_error("layout.largest_tables", "1 to " + std::to_string(kMaxJpegTableWords),
                      std::to_string(layout.largest_tables));
  }
  std::int64_t count = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const JpegOutput& output = outputs[i];
    const std::string name = "outputs[" + std::to_string(i) + "]";
    if (output.count < 0) {
      throw_value_error(name + ".count", "0 or more", std::to_string(output.count));
    }
    if (output.count > 0 && (output.numbers == nullptr || output.values == nullptr)) {
      throw_value_error(name, "numbers and values", "null");
    }
    if (output.first_stream < 0) {
      throw_value_error(name + ".first_stream", "0 or more", std::to_string(output.first_stream));
    }
    if (output.stream_count < 1) {
      throw_value_error(name + ".stream_count", "1 or more", std::to_string(output.stream_count));
    }
    count += output.count;
  }
  if (count == 0) return;
#if !defined(ROBOCACHE_HAS_CUDA)
  if (is_cuda) throw DeviceError("context: expected the CPU, got CUDA in " + cuda_problem(0));
#endif
  if (is_cuda) {
    WorkspaceCutter measure(nullptr, context.device);
    cut_workspace(measure, call.plan, count);
    WorkspaceCutter cutter(check_workspace(workspace, measure.bytes(), context.device),
                           context.device);
    const Scratch scratch = cut_workspace(cutter, call.plan, count);
    call.samples = scratch.samples;
    call.block_status = scratch.block_status;
    call.stream_of = scratch.stream_of;
  }
  const auto run = [&] {
    if (call.count == 0) return;
    call.blocks_per_frame = blocks_per_frame(call.plan, call.count);
    call.block_entries = divide_up(call.plan.entries, call.blocks_per_frame);
    if (!is_cuda) {
      decode_jpeg_frames_on_cpu(call, context);
    } else {
#if defined(ROBOCACHE_HAS_CUDA)
      decode_jpeg_frames_on_cuda(call, context.stream);
#endif
    }
    call.output_count = 0;
    call.count = 0;
  };
  const std::int64_t frame_bytes = static_cast<std::int64_t>(layout.width) * layout.height *
                                   pixels.channels * size_of(pixels.dtype);
  for (const JpegOutput& output : outputs) {
    for (std::int64_t begin = 0; begin < output.count;) {
      if (call.output_count == kMaxCallOutputs || call.count == kMaxCallFrames) run();
      const std::int64_t part = std::min(output.count - begin, kMaxCallFrames - call.count);
      call.outputs[call.output_count++] = {
          output.numbers + begin,
          static_cast<char*>(output.values) + begin * frame_bytes,
          output.is_pad == nullptr ? nullptr : output.is_pad + begin,
          output.status == nullptr ? nullptr : output.status + begin,
          call.count,
          output.first_stream,
          output.stream_count};
      call.count += part;
      begin += part;
    }
  }
  run();
}

}  // namespace robocache
