// The CPU decoder of batches: JpegDecoder in the context's threads, and the conversion of bytes.
#include <atomic>
#include <cstring>
#include <vector>

#include "core/parallel.h"
#include "jpeg/backends.h"
#include "robocache/jpeg.h"

namespace robocache {
namespace {

/// Converts the bytes [pixels, channels] of an image.
template <typename Element>
void convert(const JpegConversion& conversion, const std::uint8_t* bytes, std::int64_t pixels,
             void* out) {
  const std::int32_t channels = conversion.pixels.channels;
  const std::int64_t step = conversion.pixels.channels_first ? 1 : channels;
  const std::int64_t plane = conversion.pixels.channels_first ? pixels : 1;
  for (std::int32_t c = 0; c < channels; ++c) {
    Element table[256];
    for (int x = 0; x < 256; ++x) table[x] = static_cast<Element>(conversion.table[c][x]);
    Element* const to = static_cast<Element*>(out) + c * plane;
    for (std::int64_t i = 0; i < pixels; ++i) to[i * step] = table[bytes[i * channels + c]];
  }
}

/// Decodes a file, and converts its bytes. The image is zeros if the result is not kOk or kDamaged.
JpegStatus decode_file(const JpegCall& call, const JpegStream& from, std::int64_t row, void* out,
                       std::int64_t image_bytes) {
  const JpegFiles& files = from.files;
  const std::int32_t width = call.layout.width;
  const std::int32_t height = call.layout.height;
  const std::int32_t channels = call.pixels.channels;
  if (files.sizes[row] <= 0) {
    std::memset(out, 0, static_cast<std::size_t>(image_bytes));
    return JpegStatus::kBadFrame;
  }
  thread_local JpegDecoder decoder;
  thread_local std::vector<std::uint8_t> scratch;
  const std::int64_t pixels = std::int64_t{width} * height;
  const bool is_direct = call.pixels.is_identity && !call.pixels.channels_first;
  if (!is_direct) scratch.resize(static_cast<std::size_t>(pixels * channels));
  auto* const bytes = is_direct ? static_cast<std::uint8_t*>(out) : scratch.data();
  const JpegStatus status =
      decoder.decode(files.files[row], static_cast<std::size_t>(files.sizes[row]), width, height,
                     channels, {}, bytes, static_cast<std::ptrdiff_t>(width) * channels);
  if (is_direct) return status;
  if (status != JpegStatus::kOk && status != JpegStatus::kDamaged) {
    std::memset(out, 0, static_cast<std::size_t>(image_bytes));
    return status;
  }
  switch (size_of(call.pixels.dtype)) {
    case 1:
      convert<std::uint8_t>(from.conversion, bytes, pixels, out);
      break;
    case 2:
      convert<std::uint16_t>(from.conversion, bytes, pixels, out);
      break;
    case 4:
      convert<std::uint32_t>(from.conversion, bytes, pixels, out);
      break;
    default:
      convert<std::uint64_t>(from.conversion, bytes, pixels, out);
  }
  return status;
}

}  // namespace

void decode_jpeg_frames_on_cpu(const JpegCall& call, const ExecutionContext& context) {
  const std::int64_t image_bytes = static_cast<std::int64_t>(call.layout.width) *
                                   call.layout.height * call.pixels.channels *
                                   size_of(call.pixels.dtype);
  std::atomic<std::int64_t> damaged{0};
  std::atomic<bool> is_out_of_memory{false};
  const auto decode = [&](std::int64_t n) {
    const JpegCallOutput& output = output_of(call.outputs, call.output_count, n);
    const std::int64_t i = n - output.begin;
    const std::int64_t number = output.numbers[i];
    void* const out = static_cast<char*>(output.values) + i * image_bytes;
    if (number == 0) {
      std::memset(out, 0, static_cast<std::size_t>(image_bytes));
      if (output.status != nullptr) output.status[i] = 0;
      return;
    }
    const std::int32_t stream = stream_of_number(call.streams, output, number, false);
    if (stream < 0) return;
    const JpegStream& from = call.streams[stream];
    const JpegStatus status = decode_file(call, from, number - from.first_number, out, image_bytes);
    if (output.status != nullptr) output.status[i] = static_cast<std::uint8_t>(status);
    if (status == JpegStatus::kOk || status == JpegStatus::kDamaged) return;
    if (output.is_pad != nullptr) output.is_pad[i] = true;
    ++damaged;
  };
  parallel_for(context, call.count, 1, [&](std::int64_t begin, std::int64_t end) {
    try {
      for (std::int64_t n = begin; n < end; ++n) decode(n);
    } catch (const std::bad_alloc&) {
      is_out_of_memory = true;  // a thread's function does not throw
    }
  });
  if (is_out_of_memory) throw std::bad_alloc();
  if (call.damaged != nullptr) {
    std::atomic_ref<std::int64_t>(*call.damaged) += damaged;  // other threads may decode too
  }
}

}  // namespace robocache
