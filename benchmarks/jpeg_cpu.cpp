#include <algorithm>
#include <chrono>
#include <csetjmp>
#include <cstdio>
#include <memory>
#include <thread>

#include "jpeg.h"
#include "robocache/execution.h"

extern "C" {
#include <jpeglib.h>
}

namespace robocache::benchmark {
namespace {

constexpr double kSeconds = 2;

/// Decodes one file as a plain program does.
void decode_plainly(jpeg_decompress_struct& info, const std::vector<std::uint8_t>& file,
                    std::uint8_t* out) {
  jpeg_mem_src(&info, file.data(), file.size());
  jpeg_read_header(&info, TRUE);
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW rows[16];
    for (unsigned i = 0; i < 16; ++i) {
      rows[i] = out + std::size_t{3} * info.output_width * (info.output_scanline + i);
    }
    jpeg_read_scanlines(&info, rows, std::min(16u, info.output_height - info.output_scanline));
  }
  jpeg_finish_decompress(&info);
}

/// Frames per second of all threads, each of which calls `make()` once, and the result with numbers
/// of files.
template <typename Make>
double measure(unsigned threads, std::size_t files, const Make& make) {
  std::vector<std::thread> workers;
  std::vector<std::int64_t> counts(threads);
  const auto begin = std::chrono::steady_clock::now();
  for (unsigned t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      auto decode = make();
      for (std::size_t i = t;; ++i) {
        decode(i % files);
        ++counts[t];
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
        if (elapsed.count() > kSeconds) return;
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  std::int64_t total = 0;
  for (const std::int64_t count : counts) total += count;
  return static_cast<double>(total) / elapsed.count();
}

}  // namespace

int measure_cpu(const Files& files) {
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  JpegHeader header;
  if (parse_jpeg(files[0].data(), files[0].size(), header) != JpegStatus::kOk) return 1;
  const std::size_t bytes = std::size_t{3} * header.width * header.height;
  double mean_size = 0;
  for (const auto& file : files) mean_size += static_cast<double>(file.size()) / files.size();
  std::printf("%dx%d, %zu files of %.0f bytes, %u threads, libjpeg-turbo %s\n", header.width,
              header.height, files.size(), mean_size, threads, jpeg_library_version());
  for (int round = 0; round < 3; ++round) {
    const double plain = measure(threads, files.size(), [&] {
      auto errors = std::make_shared<jpeg_error_mgr>();
      auto info = std::shared_ptr<jpeg_decompress_struct>(new jpeg_decompress_struct{},
                                                          [errors](jpeg_decompress_struct* done) {
                                                            jpeg_destroy_decompress(done);
                                                            delete done;
                                                          });
      info->err = jpeg_std_error(errors.get());
      jpeg_create_decompress(info.get());
      auto out = std::make_shared<std::vector<std::uint8_t>>(bytes);
      return [&files, info, out](std::size_t i) { decode_plainly(*info, files[i], out->data()); };
    });
    const double ours = measure(threads, files.size(), [&] {
      auto decoder = std::make_shared<JpegDecoder>();
      auto out = std::make_shared<std::vector<std::uint8_t>>(bytes);
      return [&files, &header, decoder, out](std::size_t i) {
        decoder->decode(files[i].data(), files[i].size(), header.width, header.height, 3, {},
                        out->data(), std::ptrdiff_t{3} * header.width);
      };
    });
    const double indexed = measure(threads, files.size(), [&] {
      return [&files](std::size_t i) {
        JpegHeader parsed;
        JpegIndex index;
        parse_jpeg(files[i].data(), files[i].size(), parsed);
        index_jpeg(files[i].data(), files[i].size(), parsed, 1, index);
      };
    });
    std::printf("  libjpeg-turbo %.0f frames/s, JpegDecoder %.0f (%.2f); index %.0f (%.0f MB/s)\n",
                plain, ours, ours / plain, indexed, indexed * mean_size / 1e6);
  }
  return 0;
}

}  // namespace robocache::benchmark
