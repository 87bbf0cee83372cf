// The JPEG parser and the code of CUDA's threads on altered frames. Of those that can be indexed,
// the pixels must be libjpeg-turbo's; entries are altered, too, and must stay without effect on
// memory.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "fuzz.h"
#include "jpeg/frames.h"

namespace robocache::testing {
namespace {

std::string outcome;

std::vector<FrameOptions> seeds() {
  std::vector<FrameOptions> options;
  for (const JpegSampling sampling : {JpegSampling::kGray, JpegSampling::k444, JpegSampling::k422,
                                      JpegSampling::k440, JpegSampling::k420}) {
    for (const int restart_interval : {0, 2}) {
      FrameOptions frame{37, 21, Content::kText, {}};
      frame.encoding.sampling = sampling;
      frame.encoding.restart_interval = restart_interval;
      frame.encoding.optimize_huffman = restart_interval == 0;
      options.push_back(frame);
    }
  }
  return options;
}

/// Runs the tasks with entries that are changed as the file's own bytes say.
void run_altered(const Bytes& file, std::int32_t every) {
  JpegHeader header;
  JpegIndex index;
  if (parse_jpeg(file.data(), file.size(), header) != JpegStatus::kOk) return;
  if (std::int64_t{header.width} * header.height > 100'000) return;
  const JpegStatus status = index_jpeg(file.data(), file.size(), header, every, index);
  if (status != JpegStatus::kOk && status != JpegStatus::kDamaged) return;
  std::vector<std::uint32_t> tables;
  make_jpeg_tables(header, tables);
  std::vector<std::uint32_t> words(static_cast<std::size_t>(jpeg_scan_words(index.scan_bits)));
  extract_jpeg_scan(file.data(), file.size(), header, index.scan_bits, words.data());
  std::uint64_t state = file.size();
  for (const std::uint8_t byte : file) state = (state + byte) * 6364136223846793005u + 1;
  for (int i = 0; i < 3; ++i) {
    state = state * 6364136223846793005u + 1;
    index.entries[(state >> 33) % index.entries.size()] ^= std::uint64_t{1} << (state >> 58);
  }
  Bytes pixels;
  run_tasks_on_host(header, index, words, tables, 3, pixels);
}

}  // namespace

std::vector<Parts> fuzz_seeds() {
  std::vector<Parts> files;
  for (const FrameOptions& options : seeds()) {
    const Bytes bytes = make_frame(options, 1);
    files.push_back({std::string(bytes.begin(), bytes.end())});
  }
  return files;
}

std::vector<std::string> fuzz_words() {
  using std::string_literals::operator""s;
  return {"\xff\xd8"s, "\xff\xd9"s, "\xff\x00"s, "\xff\xff"s, "\xff\xd0"s,
          "\xff\xd1"s, "\xff\xda"s, "\xff\xc4"s, "\xff\xdb"s, "\xff\xdd\x00\x04\x00\x01"s,
          "\xff\xc0"s};
}

std::string fuzz_join(const Parts& parts) {
  std::string file;
  for (const std::string& part : parts) file += part;
  return file;
}

std::string fuzz_outcome() { return outcome; }

}  // namespace robocache::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace robocache;
  using namespace robocache::testing;
  const Bytes file(data, data + size);  // of just this size: the sanitizer knows where it ends
  const std::int32_t every = size % 3 == 0 ? 3 : 1;
  JpegHeader header;
  outcome.clear();
  const JpegStatus parsed = parse_jpeg(file.data(), file.size(), header);
  if (parsed != JpegStatus::kOk || std::int64_t{header.width} * header.height > 100'000) {
    outcome = describe(parsed);
    return 0;
  }
  const HostDecoded got = decode_on_host(file, every, 3);
  if (got.status != JpegStatus::kOk) outcome = describe(got.status);
  if (got.status == JpegStatus::kOk || got.status == JpegStatus::kDamaged) {
    const Decoded expected = decode_with_libjpeg(file, 3);
    const std::string wrong = !expected.is_decoded ? "libjpeg-turbo: " + expected.error
                              : !got.fits
                                  ? "the index does not fit"
                                  : difference(expected.pixels, got.pixels, expected.width, 3);
    if (!wrong.empty()) throw std::runtime_error(wrong);
    JpegDecoder decoder;
    Bytes out(expected.pixels.size());
    decoder.decode(file.data(), file.size(), expected.width, expected.height, 3, {}, out.data(),
                   std::ptrdiff_t{3} * expected.width);
    if (out != expected.pixels) throw std::runtime_error("JpegDecoder gives another image");
  }
  Bytes rewritten;
  if (rewrite_jpeg(file.data(), file.size(), rewritten) == JpegStatus::kOk) {
    const Decoded expected = decode_with_libjpeg(file, 3);
    const Decoded same = decode_with_libjpeg(rewritten, 3);
    if (expected.pixels != same.pixels) throw std::runtime_error("rewriting changes the image");
  }
  run_altered(file, every);
  return 0;
}
