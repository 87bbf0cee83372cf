// The indices of frames (JpegIndex), and their plain scans.
#include <algorithm>
#include <memory>
#include <vector>

#include "jpeg/frame_walk.h"
#include "jpeg/plain_scan.h"
#include "jpeg/plan.h"
#include "jpeg/scan_walker.h"
#include "robocache/jpeg.h"

namespace robocache {
namespace {

/// The tables of two frames that are walked over at once. The frames of a recording have equal
/// tables, as a rule: then both share one.
class TablePair {
 public:
  /// The tables of a header. Those that the other frame uses stay as they are.
  const WalkTables& of(const JpegHeader& header, const WalkTables* in_use, JpegStatus& status) {
    WalkTables* tables = tables_[1].holds(header) ? &tables_[1] : &tables_[0];
    if (tables == in_use && !tables->holds(header)) tables = &tables_[1];
    status = tables->prepare(header);
    return *tables;
  }

 private:
  WalkTables tables_[2];
};

TablePair& thread_tables() {
  thread_local const auto tables = std::make_unique<TablePair>();
  return *tables;
}

/// Reverses the bytes of words that bytes were copied to, so that the first bit is the highest.
void order_words(std::uint32_t* words, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) words[i] = __builtin_bswap32(words[i]);
}

/// Computes the indices of files, two at a time.
class Indexer {
 public:
  Indexer(const JpegFiles& files, std::int32_t every, JpegIndexRow* rows)
      : files_(files), every_(every), rows_(rows) {}

  void run() {
    bool has_first = feed(lanes_[0], lanes_[1]);
    bool has_second = feed(lanes_[1], lanes_[0]);
    while (has_first && has_second) {
      walk_both(lanes_[0].walk, lanes_[1].walk);
      if (lanes_[0].walk.is_done()) has_first = feed(lanes_[0], lanes_[1]);
      if (lanes_[1].walk.is_done()) has_second = feed(lanes_[1], lanes_[0]);
    }
    Lane& last = lanes_[has_first ? 0 : 1];
    for (bool has_last = has_first || has_second; has_last;) {
      walk(last.walk);
      has_last = feed(last, lanes_[has_first ? 1 : 0]);
    }
  }

 private:
  struct Lane {
    FrameWalk frame;
    WalkLane walk;
    const WalkTables* tables = nullptr;  // of a frame in progress; else null
    std::int64_t row = 0;
  };

  /// Gives a lane its next segment, of its frame or of the next one; false if there is none.
  bool feed(Lane& lane, const Lane& other) {
    for (;;) {
      if (lane.tables != nullptr) {
        if (const auto segment = lane.frame.next_segment()) {
          lane.walk = *segment;
          return true;
        }
        JpegIndexRow& row = rows_[lane.row];
        row.status = lane.frame.finish(row.entries, row.scan_bits);
        lane.tables = nullptr;
      }
      if (next_ == files_.count) return false;
      lane.row = next_++;
      begin(lane, other);
    }
  }

  void begin(Lane& lane, const Lane& other) {
    JpegIndexRow& row = rows_[lane.row];
    const std::uint8_t* const bytes = files_.files[lane.row];
    const auto size = static_cast<std::size_t>(files_.sizes[lane.row]);
    JpegHeader header;
    row.status = parse_jpeg(bytes, size, header);
    if (row.status != JpegStatus::kOk) return;
    if (row.size != jpeg_index_size(header.width, header.height, header.sampling, every_)) {
      row.status = JpegStatus::kIndexMismatch;
      return;
    }
    const WalkTables& tables = tables_.of(header, other.tables, row.status);
    if (row.status == JpegStatus::kOk) {
      row.status = lane.frame.begin(bytes, size, header, every_, tables);
    }
    if (row.status == JpegStatus::kOk) lane.tables = &tables;
  }

  const JpegFiles& files_;
  std::int32_t every_;
  JpegIndexRow* rows_;
  TablePair& tables_ = thread_tables();
  std::int64_t next_ = 0;
  Lane lanes_[2];
};

}  // namespace

std::int64_t jpeg_index_size(std::int32_t width, std::int32_t height, JpegSampling sampling,
                             std::int32_t every) {
  const JpegPlan plan = make_jpeg_plan({width, height, sampling, every});
  return jpeg_entry_element(plan.entries - 1) + 1;
}

JpegStatus index_jpeg(const void* bytes, std::size_t size, const JpegHeader& header,
                      std::int32_t every, JpegIndex& index) {
  JpegStatus status = JpegStatus::kOk;
  const WalkTables& tables = thread_tables().of(header, nullptr, status);
  if (status != JpegStatus::kOk) return status;
  FrameWalk frame;
  status = frame.begin(bytes, size, header, every, tables);
  if (status != JpegStatus::kOk) return status;
  while (auto segment = frame.next_segment()) walk(*segment);
  index.every = every;
  index.entries.resize(static_cast<std::size_t>(
      jpeg_index_size(header.width, header.height, header.sampling, every)));
  return frame.finish(index.entries.data(), index.scan_bits);
}

void index_jpegs(const JpegFiles& files, std::int32_t every, JpegIndexRow* rows) {
  Indexer(files, every, rows).run();
}

JpegStatus verify_jpeg_index(const void* bytes, std::size_t size, std::int32_t every,
                             const std::uint64_t* entries, std::int64_t entry_count,
                             std::uint32_t scan_bits) {
  JpegHeader header;
  JpegIndex index;
  JpegStatus status = parse_jpeg(bytes, size, header);
  if (status == JpegStatus::kOk) status = index_jpeg(bytes, size, header, every, index);
  if (status != JpegStatus::kOk && status != JpegStatus::kDamaged) return status;
  const bool is_equal = index.scan_bits == scan_bits &&
                        static_cast<std::int64_t>(index.entries.size()) == entry_count &&
                        std::equal(index.entries.begin(), index.entries.end(), entries);
  return is_equal ? status : JpegStatus::kIndexMismatch;
}

std::int64_t extract_jpeg_scan(const void* bytes, std::size_t size, const JpegHeader& header,
                               std::uint32_t scan_bits, std::uint32_t* words) {
  if (header.scan_begin > size) return -1;
  Stripper stripper(static_cast<const std::uint8_t*>(bytes) + header.scan_begin,
                    size - header.scan_begin, header.restart_interval > 0);
  const std::size_t capacity = scan_bits / 8;
  auto* const out = reinterpret_cast<std::uint8_t*>(words);
  const std::size_t count = stripper.copy(out, capacity, [](std::size_t) {});
  const auto whole = static_cast<std::size_t>(jpeg_scan_words(scan_bits));
  std::fill(out + count, out + whole * 4, static_cast<std::uint8_t>(0));
  order_words(words, capacity / 4 + 1);
  return static_cast<std::int64_t>(count) * 8;
}

}  // namespace robocache
