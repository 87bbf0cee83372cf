// Measures the decoding of JPEG frames:
//   robocache_jpeg_bench [--frames FOLDER] [--device cpu|cuda] [--batches 64,192,1024]
//                        [--nvjpeg LIBRARY]
//
// --frames: files of one size and sampling; without it, generated frames of 224x224 at quality 90.
//
// cuda: the time of a batch, by the replay of a CUDA graph over a pool of frames, each at its own
// address, into as many outputs: more bytes than L2 holds. The floor is the time of the bytes
// that must move, of scans, index entries and pixels, at the bandwidth of a copy in the same run.
// --nvjpeg names libnvjpeg.so, which is measured beside it: the wall time of nvjpegDecodeBatched
// from host memory, by its backends GPU hybrid and hardware.
//
// cpu: frames per second of JpegDecoder on all threads, beside a plain loop of libjpeg-turbo.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "jpeg.h"

namespace {

using robocache::benchmark::Files;

Files read_files(const std::string& folder) {
  Files files;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".jpg") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

/// Frames with edges, gradients and noise, of about the size of a camera's.
Files generate_files() {
  constexpr int kSide = 224;
  constexpr int kCount = 64;
  robocache::JpegEncoding encoding;
  encoding.quality = 90;
  robocache::JpegEncoder encoder(encoding);
  Files files(kCount);
  std::uint32_t state = 1;
  for (int i = 0; i < kCount; ++i) {
    std::vector<std::uint8_t> rgb;
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        for (int c = 0; c < 3; ++c) {
          state = state * 1664525 + 1013904223;
          const int shape = ((x + i * 7) / 19 + (y + i * 3) / 23) % 4 * 40;
          rgb.push_back(static_cast<std::uint8_t>(30 + shape + (x * (c + 1) + y) % 64 / 2 +
                                                  static_cast<int>(state >> 28)));
        }
      }
    }
    encoder.encode(rgb.data(), kSide, kSide, 3, 3 * kSide, files[static_cast<std::size_t>(i)]);
  }
  return files;
}

}  // namespace

int main(int count, char** arguments) {
  std::string folder;
  std::string device = "cpu";
  std::string nvjpeg;
  std::vector<int> batches = {64, 192, 1024};
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string option = arguments[i];
    const std::string value = arguments[i + 1];
    if (option == "--frames") folder = value;
    if (option == "--device") device = value;
    if (option == "--nvjpeg") nvjpeg = value;
    if (option == "--batches") {
      batches.clear();
      for (std::size_t at = 0; at < value.size(); at = value.find_first_of(',', at) + 1) {
        batches.push_back(std::atoi(value.c_str() + at));
        if (value.find(',', at) == std::string::npos) break;
      }
    }
  }
  const Files files = folder.empty() ? generate_files() : read_files(folder);
  if (files.empty()) {
    std::fprintf(stderr, "--frames: expected JPEG files, got none in %s\n", folder.c_str());
    return 1;
  }
  if (device == "cpu") return robocache::benchmark::measure_cpu(files);
#if defined(ROBOCACHE_HAS_CUDA)
  return robocache::benchmark::measure_cuda(files, batches, nvjpeg);
#else
  std::fprintf(stderr, "--device: expected cpu, got %s in a build without CUDA\n", device.c_str());
  return 1;
#endif
}
