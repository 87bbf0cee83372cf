// JpegFrameTable: the records and tables of files, and the extraction of their scans.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/check.h"
#include "core/parallel.h"
#include "robocache/jpeg.h"

namespace robocache {
namespace {

constexpr std::int64_t kFramesAtOnce = 256;  // of a thread that parses headers
constexpr std::int64_t kScansAtOnce = 4;     // at least, of a thread that extracts scans
constexpr std::uint32_t kNoTables = ~std::uint32_t{0};
constexpr std::size_t kMostTableWords = kNoTables;  // JpegFrame::tables counts them in 32 bits

/// The tables of a header as bytes, to compare them.
std::string tables_key(const JpegHeader& header) {
  std::string key;
  const auto append = [&key](const void* data, std::size_t size) {
    key.append(static_cast<const char*>(data), size);
  };
  for (int c = 0; c < header.components; ++c) {
    append(header.quantization[c].steps, sizeof(header.quantization[c].steps));
    for (const JpegHuffman* table : {&header.dc[c], &header.ac[c]}) {
      append(table->counts, sizeof(table->counts));
      append(table->symbols, sizeof(table->symbols));
    }
  }
  return key;
}

/// A part of the frames, whose headers one thread parses.
struct Part {
  std::unordered_map<std::string, std::uint32_t> numbers;  // of tables, by key
  std::vector<std::vector<std::uint32_t>> tables;          // in order of their numbers
};

/// Parses the header of frame `i` into its record, where `tables` is a number of the part's.
JpegFrame parse_frame(const JpegSources& sources, const JpegLayout& layout, std::int64_t i,
                      Part& part) {
  JpegFrame frame;
  frame.tables = kNoTables;
  const std::int64_t size = sources.files.sizes[i];
  if (size <= 0 || sources.entry_counts[i] <= 0) return frame;
  JpegHeader header;
  const JpegStatus status =
      parse_jpeg(sources.files.files[i], static_cast<std::size_t>(size), header);
  if (status != JpegStatus::kOk || header.width != layout.width || header.height != layout.height ||
      sources.entry_counts[i] !=
          jpeg_index_size(header.width, header.height, header.sampling, layout.every)) {
    return frame;
  }
  const auto [found, is_new] =
      part.numbers.try_emplace(tables_key(header), static_cast<std::uint32_t>(part.tables.size()));
  if (is_new) {
    std::vector<std::uint32_t> words;
    if (make_jpeg_tables(header, words) != JpegStatus::kOk) words.clear();
    part.tables.push_back(std::move(words));
  }
  if (part.tables[found->second].empty()) return frame;
  frame.tables = found->second;
  frame.scan_bits = sources.scan_bits[i];
  frame.width = static_cast<std::uint16_t>(header.width);
  frame.height = static_cast<std::uint16_t>(header.height);
  frame.restart_interval = header.restart_interval;
  frame.every = static_cast<std::uint16_t>(layout.every);
  frame.sampling = header.sampling;
  return frame;
}

/// Writes the plain scan of file `i` to the place that its record has in `words`.
void extract_scan(const JpegFiles& files, std::int64_t i, const JpegFrame& frame,
                  std::uint32_t* words) {
  if (frame.width == 0) return;
  JpegHeader header;
  const auto size = static_cast<std::size_t>(files.sizes[i]);
  std::uint32_t* const to = words + frame.scan;
  const bool fits =
      parse_jpeg(files.files[i], size, header) == JpegStatus::kOk &&
      extract_jpeg_scan(files.files[i], size, header, frame.scan_bits, to) == frame.scan_bits;
  if (fits) return;
  std::memset(to, 0, static_cast<std::size_t>(jpeg_scan_words(frame.scan_bits)) * sizeof(*to));
}

}  // namespace

JpegFrameTable::JpegFrameTable(const JpegSources& sources, const JpegLayout& layout,
                               const ExecutionContext& context)
    : layout_(layout) {
  const std::int64_t count = sources.files.count;
  frames_.resize(static_cast<std::size_t>(count));
  const std::int64_t part_count = (count + kFramesAtOnce - 1) / kFramesAtOnce;
  std::vector<Part> parts(static_cast<std::size_t>(part_count));
  parallel_for(context, part_count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t last = std::min(count, (p + 1) * kFramesAtOnce);
      for (std::int64_t i = p * kFramesAtOnce; i < last; ++i) {
        frames_[static_cast<std::size_t>(i)] =
            parse_frame(sources, layout, i, parts[static_cast<std::size_t>(p)]);
      }
    }
  });
  std::unordered_map<std::string, std::uint32_t> known;  // the first word of tables, by key
  layout_.largest_tables = 1;
  std::vector<std::uint32_t> places;
  std::int64_t first = -1;  // the first frame with an image
  for (std::int64_t i = 0; i < count; ++i) {
    Part& part = parts[static_cast<std::size_t>(i / kFramesAtOnce)];
    if (i % kFramesAtOnce == 0) {
      places.assign(part.tables.size(), 0);
      for (const auto& [key, number] : part.numbers) {
        const auto [found, is_new] =
            known.try_emplace(key, static_cast<std::uint32_t>(tables_.size()));
        places[number] = found->second;
        if (!is_new) continue;
        const std::vector<std::uint32_t>& words = part.tables[number];
        if (tables_.size() + words.size() > kMostTableWords) {
          throw_value_error("frames", "at most 16 GiB of Huffman and quantization tables",
                            "more of " + std::to_string(i) + " frames");
        }
        tables_.insert(tables_.end(), words.begin(), words.end());
        layout_.largest_tables =
            std::max(layout_.largest_tables, static_cast<std::int32_t>(words.size()));
      }
    }
    JpegFrame& frame = frames_[static_cast<std::size_t>(i)];
    const std::uint32_t number = frame.tables;
    frame.tables = 0;
    frame.index = static_cast<std::uint64_t>(index_size_);
    index_size_ += std::max<std::int64_t>(sources.entry_counts[i], 0);
    if (number == kNoTables) continue;
    if (first < 0) {
      first = i;
      layout_.sampling = frame.sampling;
    } else if (frame.sampling != layout_.sampling) {
      throw_value_error("frame " + std::to_string(i),
                        std::string("chroma sampling ") + name_of(layout_.sampling) + " as frame " +
                            std::to_string(first),
                        name_of(frame.sampling));
    }
    frame.tables = places[number];
    frame.scan = static_cast<std::uint64_t>(scan_words_);
    scan_words_ += jpeg_scan_words(frame.scan_bits);
  }
}

void extract_jpeg_scans(const JpegFiles& files, const JpegFrame* frames, std::uint32_t* words,
                        const ExecutionContext& context) {
  parallel_for(context, files.count, kScansAtOnce, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) extract_scan(files, i, frames[i], words);
  });
}

void stage_jpeg_frames(const JpegSources& sources, const JpegFrame* frames,
                       const std::int64_t* numbers, std::int64_t count, const JpegStage& stage,
                       const ExecutionContext& context) {
  if (count > stage.capacity) {
    throw_value_error("count", "at most " + std::to_string(stage.capacity), std::to_string(count));
  }
  std::int64_t words = 0;
  std::int64_t entries = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool is_frame = numbers[i] >= 1 && numbers[i] <= sources.files.count;
    stage.numbers[i] = is_frame ? i + 1 : 0;
    JpegFrame& staged = stage.frames[i];
    staged = is_frame ? frames[numbers[i] - 1] : JpegFrame{};
    staged.scan = static_cast<std::uint64_t>(words);
    staged.index = static_cast<std::uint64_t>(entries);
    if (staged.width == 0) continue;
    words += jpeg_scan_words(staged.scan_bits);
    entries += sources.entry_counts[numbers[i] - 1];
  }
  if (words > stage.scan_words || entries > stage.index_size) {
    throw_value_error(
        "stage",
        "room for " + std::to_string(words) + " words and " + std::to_string(entries) + " entries",
        std::to_string(stage.scan_words) + " and " + std::to_string(stage.index_size));
  }
  parallel_for(context, count, kScansAtOnce, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const JpegFrame& staged = stage.frames[i];
      if (staged.width == 0) continue;
      const std::int64_t from = numbers[i] - 1;
      extract_scan(sources.files, from, staged, stage.scans);
      std::memcpy(stage.indices + staged.index, sources.entries[from],
                  static_cast<std::size_t>(sources.entry_counts[from]) * sizeof(std::uint64_t));
    }
  });
}

}  // namespace robocache
