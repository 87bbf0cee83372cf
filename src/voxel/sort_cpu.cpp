// A radix sort, least significant digit first, of points together with their keys: 8 bytes per
// point if keys fit 32 bits, 16 otherwise.
#include "voxel/sort_cpu.h"

#include <limits>
#include <utility>

namespace robocache {

void CountingPass::find_places() const {
  // Row by row, which is far faster than digit by digit: rows are contiguous.
  std::int64_t* const totals = starts_;
  std::fill_n(totals, digits_ + 1, 0);
  for (std::int64_t part = 0; part < parts_; ++part) {
    std::int64_t* const row = places_ + part * digits_;
    for (std::int64_t digit = 0; digit < digits_; ++digit) {
      const std::int64_t own = row[digit];
      row[digit] = totals[digit];
      totals[digit] += own;
    }
  }
  std::int64_t place = 0;
  for (std::int64_t digit = 0; digit <= digits_; ++digit) {
    place += std::exchange(starts_[digit], place);
  }
}

namespace {

// 2048 places fit the L1 cache together with the cache lines that they address.
constexpr int kMaxDigitBits = 11;

/// Numbers the voxels, part after part, and writes their starts, keys and points. It has no branch
/// on whether a voxel begins at a point, since that is unpredictable.
template <typename Record>
std::int64_t find_voxels(const Record* records, const SortWorkspace& work, const CountingPass& pass,
                         std::uint64_t limit, std::int64_t* point_to_voxel,
                         const ExecutionContext& context) {
  const auto key_before = [=](std::int64_t i) -> std::uint64_t {
    return i == 0 ? limit : records[i - 1].key;
  };
  std::int64_t before[CountingPass::kMaxParts + 1];  // voxels that begin before each part
  pass.for_each_part(context, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    std::uint64_t last_key = key_before(begin);
    std::int64_t voxels = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint64_t key = records[i].key;
      voxels += int(key < limit) & int(key != last_key);
      last_key = key;
    }
    before[part] = voxels;
  });
  std::int64_t voxels = 0;
  for (std::int64_t part = 0; part < pass.parts(); ++part) {
    voxels += std::exchange(before[part], voxels);
  }
  before[pass.parts()] = voxels;
  pass.for_each_part(context, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    const SortWorkspace to = work;
    std::uint64_t last_key = key_before(begin);
    std::int64_t voxel = before[part];
    const std::int64_t end_voxel = before[part + 1];
    std::int64_t i = begin;
    // While a voxel of this part is still to come, its entry overwrites a premature one.
    for (; voxel < end_voxel; ++i) {
      const std::uint64_t key = records[i].key;
      to.starts[voxel] = i;
      to.keys[voxel] = key;
      voxel += int(key != last_key);
      last_key = key;
    }
    for (i = begin; i < end; ++i) to.points[i] = static_cast<std::uint32_t>(records[i].point);
  });
  work.starts[voxels] =
      std::lower_bound(records, records + work.count, limit,
                       [](const Record& record, std::uint64_t key) { return record.key < key; }) -
      records;
  if (point_to_voxel == nullptr) return voxels;
  pass.for_each_part(context, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    std::uint64_t last_key = key_before(begin);
    std::int64_t voxel = before[part] - 1;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint64_t key = records[i].key;
      voxel += int(key != last_key);
      last_key = key;
      const auto point = static_cast<std::int64_t>(records[i].point);
      point_to_voxel[point] = key < limit ? voxel : -1;
    }
  });
  return voxels;
}

template <typename Integer>
std::int64_t sort_as(const SortWorkspace& work, std::uint64_t limit, std::int64_t* point_to_voxel,
                     const ExecutionContext& context) {
  using Record = Keyed<Integer>;
  const std::uint64_t* const keys = work.keys;
  auto* from = static_cast<Record*>(work.spare);
  auto* to = static_cast<Record*>(work.records);
  // Digits of equal width, with the fewest passes.
  const int bits = bits_of(limit);
  const int passes = (bits + kMaxDigitBits - 1) / kMaxDigitBits;
  const int digit_bits = (bits + passes - 1) / passes;
  const std::uint64_t mask = (std::uint64_t{1} << digit_bits) - 1;
  WorkspaceCutter cutter(work.pass, DeviceType::kCpu);
  const CountingPass pass(work.count, static_cast<std::int64_t>(mask) + 1, cutter);
  for (int shift = 0; shift < bits; shift += digit_bits) {
    if (shift == 0) {
      pass.run(
          context, [=](std::int64_t i) { return keys[i] & mask; },
          [=](std::int64_t i, std::int64_t place) {
            to[place] = {static_cast<Integer>(keys[i]), static_cast<Integer>(i)};
          });
    } else {
      pass.run(
          context, [=](std::int64_t i) { return (from[i].key >> shift) & mask; },
          [=](std::int64_t i, std::int64_t place) { to[place] = from[i]; });
    }
    std::swap(from, to);
  }
  return find_voxels(from, work, pass, limit, point_to_voxel, context);
}

}  // namespace

SortWorkspace::SortWorkspace(std::int64_t count, WorkspaceCutter cutter)
    : count(count),
      keys(cutter.cut<std::uint64_t>(count)),
      records(cutter.cut<Keyed<std::uint64_t>>(count)),
      spare(cutter.cut<Keyed<std::uint64_t>>(count)),
      points(cutter.cut<std::uint32_t>(count)),
      starts(cutter.cut<std::int64_t>(count + 1)) {
  pass = cutter.cut<std::int64_t>(0);
  const CountingPass with_most_digits(count, std::int64_t{1} << kMaxDigitBits, cutter);
  bytes = cutter.bytes();
}

std::int64_t sort_into_voxels(const SortWorkspace& work, std::uint64_t limit,
                              std::int64_t* point_to_voxel, const ExecutionContext& context) {
  return limit <= std::numeric_limits<std::uint32_t>::max()
             ? sort_as<std::uint32_t>(work, limit, point_to_voxel, context)
             : sort_as<std::uint64_t>(work, limit, point_to_voxel, context);
}

}  // namespace robocache
