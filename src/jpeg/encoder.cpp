// JpegEncoder: libjpeg-turbo.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>
#include <string>

#include "core/check.h"
#include "jpeg/turbo.h"
#include "jpeg/turbo_memory.h"
#include "robocache/jpeg.h"

namespace robocache {
namespace {

/// Memory that libjpeg-turbo writes to, kept between frames.
struct Destination {
  jpeg_destination_mgr base{};
  JOCTET* bytes = nullptr;
  std::size_t capacity = 0;

  static Destination& of(j_compress_ptr info) {
    return *reinterpret_cast<Destination*>(info->dest);
  }
  static void start(j_compress_ptr info) {
    Destination& self = of(info);
    self.base.next_output_byte = self.bytes;
    self.base.free_in_buffer = self.capacity;
  }
  static boolean grow(j_compress_ptr info) {  // called when all memory is used
    constexpr std::size_t kFirst = 64 << 10;
    Destination& self = of(info);
    const std::size_t used = self.capacity;
    const std::size_t wanted = used == 0 ? kFirst : 2 * used;
    auto* const grown = static_cast<JOCTET*>(std::realloc(self.bytes, wanted));
    if (grown == nullptr) info->err->error_exit(reinterpret_cast<j_common_ptr>(info));
    self.bytes = grown;
    self.capacity = wanted;
    self.base.next_output_byte = self.bytes + used;
    self.base.free_in_buffer = wanted - used;
    return TRUE;
  }
  static void finish(j_compress_ptr /*info*/) {}
};

/// Maps the samples of limited-range video to the full range of JPEG, rounded.
struct RangeTable {
  std::uint8_t luma[256];
  std::uint8_t chroma[256];
  RangeTable() {
    for (int i = 0; i < 256; ++i) {
      luma[i] = saturated((i - 16) * 255.0 / 219);
      chroma[i] = saturated((i - 128) * 255.0 / 224 + 128);
    }
  }
  static std::uint8_t saturated(double x) {
    return static_cast<std::uint8_t>(std::clamp(std::floor(x + 0.5), 0.0, 255.0));
  }
};

/// The rows of one MCU row of a plane, with the last column and row repeated to whole blocks.
void copy_rows(const std::uint8_t* plane, std::ptrdiff_t stride, std::int32_t width,
               std::int32_t height, std::int32_t first, std::int32_t count,
               const std::uint8_t* table, std::ptrdiff_t padded_width, std::uint8_t* out) {
  for (std::int32_t row = 0; row < count; ++row) {
    const std::uint8_t* const from = plane + std::min(first + row, height - 1) * stride;
    std::uint8_t* const to = out + row * padded_width;
    if (table == nullptr) {
      std::copy(from, from + width, to);
    } else {
      for (std::int32_t x = 0; x < width; ++x) to[x] = table[from[x]];
    }
    std::fill(to + width, to + padded_width, to[width - 1]);
  }
}

}  // namespace

struct JpegEncoder::State {
  jpeg_compress_struct info{};
  TurboErrors errors;
  TurboMemory memory;
  Destination destination;
  JpegEncoding options;
  std::vector<std::uint8_t> rows;  // of an MCU row of video planes

  explicit State(const JpegEncoding& chosen) : options(chosen) {
    info.err = errors.reset();
    if (setjmp(errors.jump) != 0) throw std::bad_alloc();
    jpeg_create_compress(&info);
    memory.attach(reinterpret_cast<j_common_ptr>(&info));
    destination.base.init_destination = Destination::start;
    destination.base.empty_output_buffer = Destination::grow;
    destination.base.term_destination = Destination::finish;
    info.dest = &destination.base;
  }
  ~State() {
    jpeg_destroy_compress(&info);
    std::free(destination.bytes);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Sets the parameters of a frame, with 4:2:0 sampling where it has chroma.
  void set_parameters(std::int32_t width, std::int32_t height, std::int32_t channels,
                      J_COLOR_SPACE space) {
    if (destination.bytes == nullptr) Destination::grow(&info);
    info.image_width = static_cast<JDIMENSION>(width);
    info.image_height = static_cast<JDIMENSION>(height);
    info.input_components = channels;
    info.in_color_space = space;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, options.quality, TRUE);
    info.restart_interval = static_cast<unsigned>(options.restart_interval);
    info.optimize_coding = options.optimize_huffman ? TRUE : FALSE;
  }

  void encode(const std::uint8_t* pixels, std::int32_t width, std::int32_t height,
              std::int32_t channels, std::ptrdiff_t row_stride) {
    set_parameters(width, height, channels, channels == 1 ? JCS_GRAYSCALE : JCS_RGB);
    if (options.sampling == JpegSampling::kGray) jpeg_set_colorspace(&info, JCS_GRAYSCALE);
    const JpegSampling sampling = options.sampling;
    info.comp_info[0].h_samp_factor =
        sampling == JpegSampling::k420 || sampling == JpegSampling::k422 ? 2 : 1;
    info.comp_info[0].v_samp_factor =
        sampling == JpegSampling::k420 || sampling == JpegSampling::k440 ? 2 : 1;
    if (info.num_components == 1) {
      info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = 1;
    }
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
      auto* row = const_cast<JSAMPROW>(pixels + static_cast<std::ptrdiff_t>(info.next_scanline) *
                                                    row_stride);
      jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
  }

  /// Encodes planes; `rows` has room for an MCU row.
  void encode_planes(const VideoPlanes& planes) {
    static const RangeTable table;
    const std::uint8_t* const luma_table = planes.is_full_range ? nullptr : table.luma;
    const std::uint8_t* const chroma_table = planes.is_full_range ? nullptr : table.chroma;
    set_parameters(planes.width, planes.height, 3, JCS_YCbCr);
    info.raw_data_in = TRUE;
    constexpr std::int32_t kRows = 2 * DCTSIZE;  // of luma in an MCU row; chroma has half
    const auto padded = static_cast<std::ptrdiff_t>(padded_width(planes.width));
    std::uint8_t* const parts[3] = {rows.data(), rows.data() + kRows * padded,
                                    rows.data() + kRows * padded + kRows * padded / 4};
    JSAMPROW pointers[3][kRows];
    for (std::ptrdiff_t row = 0; row < kRows; ++row) pointers[0][row] = parts[0] + row * padded;
    for (std::ptrdiff_t row = 0; row < DCTSIZE; ++row) {
      pointers[1][row] = parts[1] + row * (padded / 2);
      pointers[2][row] = parts[2] + row * (padded / 2);
    }
    JSAMPARRAY arrays[3] = {pointers[0], pointers[1], pointers[2]};
    const std::int32_t chroma_width = (planes.width + 1) / 2;
    const std::int32_t chroma_height = (planes.height + 1) / 2;
    jpeg_start_compress(&info, TRUE);
    for (std::int32_t y = 0; y < planes.height; y += kRows) {
      copy_rows(planes.luma, planes.luma_stride, planes.width, planes.height, y, kRows, luma_table,
                padded, parts[0]);
      copy_rows(planes.cb, planes.chroma_stride, chroma_width, chroma_height, y / 2, DCTSIZE,
                chroma_table, padded / 2, parts[1]);
      copy_rows(planes.cr, planes.chroma_stride, chroma_width, chroma_height, y / 2, DCTSIZE,
                chroma_table, padded / 2, parts[2]);
      jpeg_write_raw_data(&info, arrays, kRows);
    }
    jpeg_finish_compress(&info);
    info.raw_data_in = FALSE;
  }

  /// Width in samples of whole MCUs of 4:2:0.
  static std::int32_t padded_width(std::int32_t width) {
    constexpr std::int32_t kMcu = 2 * DCTSIZE;
    return (width + kMcu - 1) / kMcu * kMcu;
  }
  /// Copies the encoded bytes.
  JpegStatus take(std::vector<std::uint8_t>& bytes) const {
    const JOCTET* const begin = destination.bytes;
    try {
      bytes.assign(begin, begin + (destination.capacity - destination.base.free_in_buffer));
    } catch (const std::bad_alloc&) {
      return JpegStatus::kUndecodable;
    }
    return JpegStatus::kOk;
  }
};

JpegEncoder::JpegEncoder(const JpegEncoding& options) {
  constexpr std::int32_t kMostInterval = 65535;
  if (options.quality < 1 || options.quality > 100) {
    throw_value_error("quality", "1 to 100", std::to_string(options.quality));
  }
  if (options.restart_interval < 0 || options.restart_interval > kMostInterval) {
    throw_value_error("restart_interval", "0 to 65535", std::to_string(options.restart_interval));
  }
  state_ = std::make_unique<State>(options);
}
JpegEncoder::~JpegEncoder() = default;

JpegStatus JpegEncoder::encode(const std::uint8_t* pixels, std::int32_t width, std::int32_t height,
                               std::int32_t channels, std::ptrdiff_t row_stride,
                               std::vector<std::uint8_t>& bytes) noexcept {
  State& state = *state_;
  if (width < 1 || height < 1 || width > kMaxJpegSide || height > kMaxJpegSide) {
    return JpegStatus::kTooLarge;
  }
  if (setjmp(state.errors.jump) != 0) {
    jpeg_abort_compress(&state.info);
    return JpegStatus::kUndecodable;
  }
  state.encode(pixels, width, height, channels, row_stride);
  return state.take(bytes);
}

JpegStatus JpegEncoder::encode_planes(const VideoPlanes& planes,
                                      std::vector<std::uint8_t>& bytes) noexcept {
  State& state = *state_;
  if (planes.width < 1 || planes.height < 1 || planes.width > kMaxJpegSide ||
      planes.height > kMaxJpegSide) {
    return JpegStatus::kTooLarge;
  }
  try {
    constexpr std::size_t kSamples = 24;  // rows of luma, and 8 of Cb and Cr at half width
    state.rows.resize(kSamples * static_cast<std::size_t>(State::padded_width(planes.width)));
  } catch (const std::bad_alloc&) {
    return JpegStatus::kUndecodable;
  }
  if (setjmp(state.errors.jump) != 0) {
    jpeg_abort_compress(&state.info);
    state.info.raw_data_in = FALSE;
    return JpegStatus::kUndecodable;
  }
  state.encode_planes(planes);
  return state.take(bytes);
}

}  // namespace robocache
