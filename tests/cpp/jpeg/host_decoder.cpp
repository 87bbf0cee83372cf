// The code of CUDA's threads, on the host.
#include <algorithm>
#include <cstring>
#include <memory>

#include "jpeg/color.h"
#include "jpeg/frames.h"
#include "jpeg/task.h"

namespace robocache::testing {
namespace {

namespace target = ROBOCACHE_TARGET;

template <typename Put>
void color_frame(const JpegPlan& plan, JpegSampling sampling, const std::uint8_t* samples,
                 int channels, const Put& put) {
  const target::SamplePlanes planes = target::planes_at(plan, samples);
  for (std::int32_t y = 0; y < plan.height; y += target::kStripRows) {
    for (std::int32_t x = 0; x < plan.width; x += target::kGroup) {
      std::int32_t row = y;
      const target::StripLuma strip = target::load_luma(plan, planes, x, y);
      const auto put_group = [&](auto& luma, auto& rgb) { put(x, row++, luma, rgb); };
      if (sampling == JpegSampling::kGray || channels == 1) {
        target::gray_strip(strip, put_group);
        continue;
      }
      switch (sampling) {
        case JpegSampling::k420:
          target::color_strip<2, 2>(plan, planes, strip, x, y, put_group);
          break;
        case JpegSampling::k422:
          target::color_strip<2, 1>(plan, planes, strip, x, y, put_group);
          break;
        case JpegSampling::k440:
          target::color_strip<1, 2>(plan, planes, strip, x, y, put_group);
          break;
        default:
          target::color_strip<1, 1>(plan, planes, strip, x, y, put_group);
      }
    }
  }
}

}  // namespace

bool run_tasks_on_host(const JpegHeader& header, const JpegIndex& index,
                       const std::vector<std::uint32_t>& words,
                       const std::vector<std::uint32_t>& tables, int channels, Bytes& pixels) {
  const JpegPlan plan = make_jpeg_plan({header.width, header.height, header.sampling, index.every});
  const auto size = static_cast<std::size_t>(plan.plane_bytes());
  // Exactly as large as needed: a sanitizer sees one byte too far.
  const std::unique_ptr<std::uint8_t[]> samples(new std::uint8_t[size]);
  std::memset(samples.get(), 0xA5, size);
  target::TaskFrame frame = {};
  frame.scan = {words.data(), 0, static_cast<std::uint32_t>(words.size()) - 1};
  frame.bits = index.scan_bits;
  frame.index = index.entries.data();
  frame.tables = tables.data();
  frame.restart_interval = header.restart_interval;
  frame.samples = samples.get();
  alignas(16) unsigned char block[8 * kColumnPitch] = {};
  bool fits = true;
  for (std::int32_t i = plan.tasks() - 1; i >= 0; --i) {
    fits = target::run_task(plan, frame, i, block) && fits;
  }
  pixels.assign(static_cast<std::size_t>(header.width) * header.height * channels, 0x5A);
  color_frame(plan, header.sampling, samples.get(), channels,
              [&](std::int32_t x, std::int32_t y, auto& luma, auto& rgb) {
                if (y >= header.height) return;
                const int count = std::min(target::kGroup, header.width - x) * channels;
                std::memcpy(&pixels[(static_cast<std::size_t>(y) * header.width + x) * channels],
                            channels == 1 ? static_cast<const void*>(luma) : rgb, count);
              });
  return fits;
}

HostDecoded decode_on_host(const Bytes& bytes, std::int32_t every, int channels) {
  HostDecoded made;
  made.status = parse_jpeg(bytes.data(), bytes.size(), made.header);
  if (made.status != JpegStatus::kOk) return made;
  JpegIndex index;
  made.status = index_jpeg(bytes.data(), bytes.size(), made.header, every, index);
  if (made.status != JpegStatus::kOk && made.status != JpegStatus::kDamaged) return made;
  std::vector<std::uint32_t> tables;
  make_jpeg_tables(made.header, tables);
  std::vector<std::uint32_t> words(static_cast<std::size_t>(jpeg_scan_words(index.scan_bits)));
  const std::int64_t bits =
      extract_jpeg_scan(bytes.data(), bytes.size(), made.header, index.scan_bits, words.data());
  made.fits = bits == index.scan_bits && static_cast<std::int64_t>(index.entries.size()) ==
                                             jpeg_index_size(made.header.width, made.header.height,
                                                             made.header.sampling, every);
  made.fits =
      run_tasks_on_host(made.header, index, words, tables, channels, made.pixels) && made.fits;
  return made;
}

}  // namespace robocache::testing
