// Every JPEG kernel on small frames, right ones and damaged ones, beside libjpeg-turbo.
#include <string>

#include "jpeg/device_decoder.h"
#include "jpeg/frames.h"
#include "support/gpu_check.h"
#include "support/random.h"

namespace robocache::testing {

void check_jpeg() {
  const double scale[3] = {1 / 255.0, 1 / 255.0, 1 / 255.0};
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    FrameOptions options = random_frame_options(random);
    if (random.one_in(2)) options.width = 48;
    const Bytes file = make_frame(options, seed);
    Batch batch;
    batch.layout = {options.width, options.height, options.encoding.sampling,
                    random.pick({1, 1, 3}), 1};
    const std::string what = "JPEG, seed " + std::to_string(seed);
    if (!append_frame(batch, file)) return fail(what, "the frame has no index");
    const DeviceDecoded got = decode_on_device(batch, bytes_of(3));
    const Decoded expected = decode_with_libjpeg(file, 3);
    check(what, got.status[0] != 0 ? "the frame was not decoded"
                                   : difference(expected.pixels, got.out, expected.width, 3));
    for (const DataType dtype : {DataType::kBFloat16, DataType::kFloat32}) {
      decode_on_device(batch, make_jpeg_conversion(dtype, true, 3, nullptr, scale));
    }
    for (std::uint32_t& word : batch.scans) word ^= 1u << random.below(32);
    for (std::uint64_t& entry : batch.indices) entry ^= std::uint64_t{1} << random.below(64);
    decode_on_device(batch, bytes_of(3));
    batch.frames[0].scan = ~std::uint64_t{0};
    decode_on_device(batch, bytes_of(3));
  }
}

}  // namespace robocache::testing
