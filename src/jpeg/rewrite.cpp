// rewrite_jpeg: coefficients of any kind of JPEG to a baseline JPEG, by libjpeg-turbo.
#include <cstdlib>
#include <cstring>

#include "jpeg/turbo.h"
#include "robocache/jpeg.h"

namespace robocache {
namespace {

constexpr int kBits = 8;

/// A decoder and an encoder of coefficients, which share an error manager.
struct Rewriter {
  jpeg_decompress_struct in{};
  jpeg_compress_struct out{};
  TurboErrors errors;
  ScanLimit limit;
  unsigned char* data = nullptr;
  unsigned long size = 0;

  Rewriter() { in.err = out.err = errors.reset(); }
  ~Rewriter() {
    jpeg_destroy_compress(&out);
    jpeg_destroy_decompress(&in);
    std::free(data);
  }
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  JpegStatus run(const void* bytes, std::size_t length) {
    if (setjmp(errors.jump) != 0) return JpegStatus::kUndecodable;
    jpeg_create_decompress(&in);
    jpeg_create_compress(&out);
    in.progress = limit.monitor();
    jpeg_mem_src(&in, static_cast<const unsigned char*>(bytes), length);
    if (jpeg_read_header(&in, TRUE) != JPEG_HEADER_OK) return JpegStatus::kUndecodable;
    if (in.image_width > static_cast<JDIMENSION>(kMaxJpegSide) ||
        in.image_height > static_cast<JDIMENSION>(kMaxJpegSide)) {
      return JpegStatus::kTooLarge;
    }
    if (in.data_precision != kBits) return JpegStatus::kDepth;
    jvirt_barray_ptr* const coefficients = jpeg_read_coefficients(&in);
    if (coefficients == nullptr) return JpegStatus::kUndecodable;
    if (in.err->num_warnings != 0) return JpegStatus::kDamaged;
    jpeg_copy_critical_parameters(&in, &out);
    out.optimize_coding = TRUE;  // the standard tables need not have all symbols
    jpeg_mem_dest(&out, &data, &size);
    jpeg_write_coefficients(&out, coefficients);
    jpeg_finish_compress(&out);
    return in.err->num_warnings != 0 ? JpegStatus::kDamaged : JpegStatus::kOk;
  }
};

}  // namespace

JpegStatus rewrite_jpeg(const void* bytes, std::size_t size, std::vector<std::uint8_t>& rewritten) {
  rewritten.clear();
  if (size < 2 || std::memcmp(bytes, "\xff\xd8", 2) != 0) return JpegStatus::kNotJpeg;
  Rewriter rewriter;
  const JpegStatus status = rewriter.run(bytes, size);
  if (status == JpegStatus::kOk) rewritten.assign(rewriter.data, rewriter.data + rewriter.size);
  return status;
}

}  // namespace robocache
