// JpegDecoder: libjpeg-turbo with its default settings.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>

#include "jpeg/turbo.h"
#include "jpeg/turbo_memory.h"
#include "robocache/jpeg.h"

namespace robocache {
namespace {

constexpr int kRowsAtOnce = 16;
constexpr unsigned char kNoByte = 0;

/// A range of columns or rows.
struct Span {
  std::int32_t begin, end;
};

}  // namespace

struct JpegDecoder::State {
  jpeg_decompress_struct info{};
  TurboErrors errors;
  TurboMemory memory;
  ScanLimit limit;
  std::vector<std::uint8_t> rows;  // of kRowsAtOnce, where they differ from the output's

  State() {
    info.err = errors.reset();
    if (setjmp(errors.jump) != 0) throw std::bad_alloc();
    jpeg_create_decompress(&info);
    memory.attach(reinterpret_cast<j_common_ptr>(&info));
    info.progress = limit.monitor();
    jpeg_mem_src(&info, &kNoByte, sizeof kNoByte);  // allocates the source once and for all
    memory.serve_tables();
  }
  ~State() { jpeg_destroy_decompress(&info); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  bool read_header(const void* bytes, std::size_t size) {
    info.err->num_warnings = 0;
    // libjpeg-turbo would decode a frame that lacks tables with those of the frame before.
    std::fill(std::begin(info.quant_tbl_ptrs), std::end(info.quant_tbl_ptrs), nullptr);
    std::fill(std::begin(info.dc_huff_tbl_ptrs), std::end(info.dc_huff_tbl_ptrs), nullptr);
    std::fill(std::begin(info.ac_huff_tbl_ptrs), std::end(info.ac_huff_tbl_ptrs), nullptr);
    jpeg_mem_src(&info, static_cast<const unsigned char*>(bytes), size);
    return jpeg_read_header(&info, TRUE) == JPEG_HEADER_OK;
  }

  /// Reads `count` rows, the columns of `span`, into `out`; nothing if it is null.
  void read_rows(std::int32_t count, Span span, std::uint8_t* out, std::ptrdiff_t row_stride) {
    const auto pixel = static_cast<std::ptrdiff_t>(info.output_components);
    const std::ptrdiff_t width = static_cast<std::ptrdiff_t>(info.output_width) * pixel;
    const bool is_direct = out != nullptr && span.begin == 0 &&
                           span.end == static_cast<std::int32_t>(info.output_width);
    JSAMPROW pointers[kRowsAtOnce];
    for (std::int32_t row = 0; row < count;) {
      const std::int32_t most = std::min(count - row, kRowsAtOnce);
      for (std::int32_t i = 0; i < most; ++i) {
        pointers[i] = is_direct ? out + (row + i) * row_stride : rows.data() + i * width;
      }
      const auto read = static_cast<std::int32_t>(
          jpeg_read_scanlines(&info, pointers, static_cast<JDIMENSION>(most)));
      if (out != nullptr && !is_direct) {
        for (std::int32_t i = 0; i < read; ++i) {
          std::memcpy(out + (row + i) * row_stride, pointers[i] + span.begin * pixel,
                      static_cast<std::size_t>((span.end - span.begin) * pixel));
        }
      }
      row += read;
    }
  }

  /// Decodes a file; what `out` holds is not defined if the result is an error. A function of its
  /// own, since an error's jump back to it loses local variables.
  JpegStatus try_decode(const void* bytes, std::size_t size, std::int32_t width,
                        std::int32_t height, std::int32_t channels, Span columns, Span lines,
                        std::uint8_t* out, std::ptrdiff_t row_stride);

  /// Decodes after `read_header`. libjpeg-turbo computes the samples at the border of a range
  /// differently, so the ranges that it is asked for have an MCU more at each side.
  void decode(Span columns, Span lines, std::uint8_t* out, std::ptrdiff_t row_stride) {
    jpeg_start_decompress(&info);
    const auto width = static_cast<std::int32_t>(info.output_width);
    const std::int32_t mcu_width = info.max_h_samp_factor * DCTSIZE;
    const std::int32_t mcu_height = info.max_v_samp_factor * DCTSIZE;
    const std::int32_t first = std::max(columns.begin - mcu_width, 0) / mcu_width * mcu_width;
    const std::int32_t last = std::min(columns.end + mcu_width, width);
    if (first > 0 || last < width) {
      auto begin = static_cast<JDIMENSION>(first);
      auto count = static_cast<JDIMENSION>(last - first);
      jpeg_crop_scanline(&info, &begin, &count);
      columns = {columns.begin - static_cast<std::int32_t>(begin),
                 columns.end - static_cast<std::int32_t>(begin)};
    }
    const std::int32_t skipped = std::max(lines.begin / mcu_height - 1, 0) * mcu_height;
    if (skipped > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(skipped));
    read_rows(lines.begin - skipped, columns, nullptr, 0);
    read_rows(lines.end - lines.begin, columns, out, row_stride);
  }
};

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) {}
JpegDecoder::~JpegDecoder() = default;

JpegStatus JpegDecoder::read_size(const void* bytes, std::size_t size, std::int32_t& width,
                                  std::int32_t& height) noexcept {
  State& state = *state_;
  if (size < 2 || std::memcmp(bytes, "\xff\xd8", 2) != 0) return JpegStatus::kNotJpeg;
  if (setjmp(state.errors.jump) != 0) {
    jpeg_abort_decompress(&state.info);
    return JpegStatus::kUndecodable;
  }
  state.read_header(bytes, size);
  width = static_cast<std::int32_t>(state.info.image_width);
  height = static_cast<std::int32_t>(state.info.image_height);
  jpeg_abort_decompress(&state.info);
  return JpegStatus::kOk;
}

JpegStatus JpegDecoder::State::try_decode(const void* bytes, std::size_t size, std::int32_t width,
                                          std::int32_t height, std::int32_t channels, Span columns,
                                          Span lines, std::uint8_t* out,
                                          std::ptrdiff_t row_stride) {
  if (size < 2 || std::memcmp(bytes, "\xff\xd8", 2) != 0) return JpegStatus::kNotJpeg;
  try {
    rows.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(channels) * kRowsAtOnce);
  } catch (const std::bad_alloc&) {
    return JpegStatus::kUndecodable;
  }
  if (setjmp(errors.jump) != 0) {
    jpeg_abort_decompress(&info);
    return JpegStatus::kUndecodable;
  }
  read_header(bytes, size);
  if (static_cast<std::int32_t>(info.image_width) != width ||
      static_cast<std::int32_t>(info.image_height) != height || columns.begin < 0 ||
      lines.begin < 0 || columns.end > width || lines.end > height) {
    jpeg_abort_decompress(&info);
    return JpegStatus::kLayoutMismatch;
  }
  info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  decode(columns, lines, out, row_stride);
  jpeg_abort_decompress(&info);  // what follows the last row is not read
  return info.err->num_warnings > 0 ? JpegStatus::kDamaged : JpegStatus::kOk;
}

JpegStatus JpegDecoder::decode(const void* bytes, std::size_t size, std::int32_t width,
                               std::int32_t height, std::int32_t channels, const JpegCrop& crop,
                               std::uint8_t* out, std::ptrdiff_t row_stride) noexcept {
  const bool is_whole = crop.width <= 0 || crop.height <= 0;
  const Span columns = is_whole ? Span{0, width} : Span{crop.x, crop.x + crop.width};
  const Span lines = is_whole ? Span{0, height} : Span{crop.y, crop.y + crop.height};
  const JpegStatus status =
      state_->try_decode(bytes, size, width, height, channels, columns, lines, out, row_stride);
  if (status == JpegStatus::kOk || status == JpegStatus::kDamaged) return status;
  const auto row_bytes =
      static_cast<std::size_t>(columns.end - columns.begin) * static_cast<std::size_t>(channels);
  for (std::int32_t y = 0; y < lines.end - lines.begin; ++y) {
    std::memset(out + y * row_stride, 0, row_bytes);
  }
  return status;
}

// The macro has no quotation marks.
#define ROBOCACHE_QUOTE_(version) #version
#define ROBOCACHE_QUOTE(version) ROBOCACHE_QUOTE_(version)
const char* jpeg_library_version() { return ROBOCACHE_QUOTE(LIBJPEG_TURBO_VERSION); }

}  // namespace robocache
