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

constexpr std::int32_t kMaxEvery = 65535;

JpegPlan check_layout(const JpegLayout& layout) {
  const auto check_range = [](const char* name, std::int32_t value, std::int32_t most) {
    if (value >= 1 && value <= most) return;
    throw_value_error(name, "1 to " + std::to_string(most), std::to_string(value));
  };
  check_range("layout.width", layout.width, kMaxJpegSide);
  check_range("layout.height", layout.height, kMaxJpegSide);
  check_range("layout.every", layout.every, kMaxEvery);
  if (layout.sampling > JpegSampling::k420) {
    throw_value_error("layout.sampling", "a JpegSampling",
                      std::to_string(static_cast<int>(layout.sampling)));
  }
  return make_jpeg_plan(layout);
}

std::int32_t divide_up(std::int32_t count, std::int32_t by) { return (count + by - 1) / by; }

/// The blocks of samples_kernel per frame: few, but enough for all multiprocessors of a large GPU
/// to have two.
std::int32_t blocks_per_frame(const JpegPlan& plan, std::int64_t count) {
  constexpr std::int64_t kEnoughBlocks = 264;
  const std::int32_t fewest = divide_up(plan.entries, kMaxBlockEntries);
  const std::int32_t most = divide_up(plan.entries, kMinBlockEntries);
  const std::int64_t wanted = (kEnoughBlocks + count - 1) / std::max<std::int64_t>(count, 1);
  const auto blocks = static_cast<std::int32_t>(std::clamp<std::int64_t>(wanted, fewest, most));
  return divide_up(plan.entries, divide_up(plan.entries, blocks));  // none without entries
}

/// The arrays of a workspace.
struct Scratch {
  std::uint8_t* samples;
  std::uint8_t* block_status;
};

Scratch cut_workspace(WorkspaceCutter& cutter, const JpegPlan& plan, std::int64_t count) {
  Scratch scratch;
  scratch.samples = cutter.cut<std::uint8_t>(plan.plane_bytes() * count);
  scratch.block_status = cutter.cut<std::uint8_t>(blocks_per_frame(plan, count) * count);
  return scratch;
}

/// The bits of an element.
std::uint32_t element_bits(DataType dtype, double x) {
  switch (dtype) {
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
bool find_linear(DataType dtype, const std::uint32_t (&table)[256], double multiply, double offset,
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
                                    const double* subtract, const double* multiply) {
  if (dtype != DataType::kUInt8 && dtype != DataType::kFloat16 && dtype != DataType::kBFloat16 &&
      dtype != DataType::kFloat32) {
    throw_type_error("dtype", "uint8, float16, bfloat16 or float32", name_of(dtype));
  }
  if (channels != 1 && channels != 3) {
    throw_value_error("channels", "1 or 3", std::to_string(channels));
  }
  JpegConversion made;
  made.dtype = dtype;
  made.channels_first = channels_first;
  made.channels = channels;
  made.is_identity = dtype == DataType::kUInt8 && subtract == nullptr && multiply == nullptr;
  const bool is_half = dtype == DataType::kFloat16 || dtype == DataType::kBFloat16;
  made.is_linear = is_half;
  for (std::int32_t c = 0; c < channels; ++c) {
    const double s = subtract == nullptr ? 0 : subtract[c];
    const double m = multiply == nullptr ? 1 : multiply[c];
    for (int x = 0; x < 256; ++x) made.table[c][x] = element_bits(dtype, (x - s) * m);
    made.is_linear =
        made.is_linear && find_linear(dtype, made.table[c], m, -s * m, made.scale[c], made.bias[c]);
  }
  return made;
}

std::size_t decode_jpeg_frames_workspace_bytes(const JpegLayout& layout, std::int64_t count) {
  WorkspaceCutter cutter(nullptr, DeviceType::kCuda);
  cut_workspace(cutter, check_layout(layout), count);
  return cutter.bytes();
}

void decode_jpeg_frames(const JpegFrames& frames, const JpegLayout& layout,
                        const JpegConversion& conversion, const TensorView& out,
                        const TensorView& status, const Workspace& workspace,
                        const ExecutionContext& context) {
  if (context.device != DeviceType::kCuda) {
    throw_value_error("context", "CUDA (JpegDecoder decodes on the CPU)", "the CPU");
  }
  JpegCall call{};
  call.frames = frames;
  call.layout = layout;
  call.plan = check_layout(layout);
  const ConstTensorView out_view = out;
  const ConstTensorView status_view = status;
  const Argument out_argument{"out", out_view};
  const Argument status_argument{"status", status_view};
  out_argument.expect_type(out.dtype == conversion.dtype, name_of(conversion.dtype));
  status_argument.expect_type(status.dtype == DataType::kUInt8, "uint8");
  const std::int64_t channels = conversion.channels;
  const std::int64_t shape[2][3] = {{layout.height, layout.width, channels},
                                    {channels, layout.height, layout.width}};
  const auto& expected = shape[conversion.channels_first ? 1 : 0];
  bool fits = out.rank == 4 && is_contiguous(out_view);
  for (int axis = 0; axis < 3 && fits; ++axis) fits = out.shape[axis + 1] == expected[axis];
  out_argument.expect_shape(fits, [&] {
    return "contiguous [N," + std::to_string(expected[0]) + "," + std::to_string(expected[1]) +
           "," + std::to_string(expected[2]) + "]";
  });
  call.count = out.shape[0];
  if (call.count == 0) return;
  status_argument.expect_shape(
      status.rank == 1 && status.shape[0] == call.count && is_contiguous(status_view),
      [&] { return "contiguous [N=" + std::to_string(call.count) + "]"; });
  out_argument.expect_device(context.device);
  status_argument.expect_device(context.device);
  if (frames.largest_tables < 1 || frames.largest_tables > kMaxJpegTableWords) {
    throw_value_error("frames.largest_tables", "1 to " + std::to_string(kMaxJpegTableWords),
                      std::to_string(frames.largest_tables));
  }
  if (reinterpret_cast<std::uintptr_t>(frames.tables) % 16 != 0) {
    throw_value_error("frames.tables", "an address aligned to 16 bytes", "another");
  }
  constexpr std::int64_t kMaxBlocks = 0x7fffffff;
  call.blocks_per_frame = blocks_per_frame(call.plan, call.count);
  call.block_entries = divide_up(call.plan.entries, call.blocks_per_frame);
  if (call.count * call.plan.mcus() * kMaxJpegBlocks > kMaxBlocks) {
    throw_value_error("out", "fewer frames in one call", std::to_string(call.count));
  }
  WorkspaceCutter measure(nullptr, context.device);
  cut_workspace(measure, call.plan, call.count);
  WorkspaceCutter cutter(check_workspace(workspace, measure.bytes(), context.device),
                         context.device);
  const Scratch scratch = cut_workspace(cutter, call.plan, call.count);
  call.samples = scratch.samples;
  call.block_status = scratch.block_status;
  call.out = out.data;
  call.status = static_cast<std::uint8_t*>(status.data);
#if defined(ROBOCACHE_HAS_CUDA)
  decode_jpeg_frames_on_cuda(call, conversion, context.stream);
#else
  throw DeviceError("context: expected the CPU, got CUDA in " + cuda_problem(0));
#endif
}

}  // namespace robocache
