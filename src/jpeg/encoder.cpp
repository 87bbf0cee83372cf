// JpegEncoder: libjpeg-turbo.
#include <cstdlib>
#include <new>
#include <string>

#include "core/check.h"
#include "jpeg/turbo.h"
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

}  // namespace

struct JpegEncoder::State {
  jpeg_compress_struct info{};
  TurboErrors errors;
  Destination destination;
  JpegEncoding options;

  explicit State(const JpegEncoding& chosen) : options(chosen) {
    info.err = errors.reset();
    if (setjmp(errors.jump) != 0) throw std::bad_alloc();
    jpeg_create_compress(&info);
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

  void encode(const std::uint8_t* pixels, std::int32_t width, std::int32_t height,
              std::int32_t channels, std::ptrdiff_t row_stride) {
    if (destination.bytes == nullptr) Destination::grow(&info);
    info.image_width = static_cast<JDIMENSION>(width);
    info.image_height = static_cast<JDIMENSION>(height);
    info.input_components = channels;
    info.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&info);
    if (options.sampling == JpegSampling::kGray) jpeg_set_colorspace(&info, JCS_GRAYSCALE);
    jpeg_set_quality(&info, options.quality, TRUE);
    const JpegSampling sampling = options.sampling;
    info.comp_info[0].h_samp_factor =
        sampling == JpegSampling::k420 || sampling == JpegSampling::k422 ? 2 : 1;
    info.comp_info[0].v_samp_factor =
        sampling == JpegSampling::k420 || sampling == JpegSampling::k440 ? 2 : 1;
    if (info.num_components == 1) {
      info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = 1;
    }
    info.restart_interval = static_cast<unsigned>(options.restart_interval);
    info.optimize_coding = options.optimize_huffman ? TRUE : FALSE;
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
      auto* row = const_cast<JSAMPROW>(pixels + static_cast<std::ptrdiff_t>(info.next_scanline) *
                                                    row_stride);
      jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
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
  const JOCTET* const begin = state.destination.bytes;
  const std::size_t size = state.destination.capacity - state.destination.base.free_in_buffer;
  try {
    bytes.assign(begin, begin + size);
  } catch (const std::bad_alloc&) {
    return JpegStatus::kUndecodable;
  }
  return JpegStatus::kOk;
}

}  // namespace robocache
