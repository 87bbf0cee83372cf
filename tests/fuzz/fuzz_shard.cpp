// The shard's parser on altered shards; of those that it takes, every episode and row is looked at.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>

#include "fuzz.h"
#include "robocache/error.h"
#include "store/builder.h"
#include "store/manifest.h"
#include "store/shard.h"

namespace robocache::testing {
namespace {

std::string outcome;
volatile std::uint64_t sum_of_all;  // so that what is read is read

/// Reads every byte of a view.
std::uint64_t look_at(const ConstTensorView& view) {
  std::int64_t count = view.present() ? size_of(view.dtype) : 0;
  for (int axis = 0; axis < view.rank; ++axis) count *= view.shape[axis];
  const auto* bytes = static_cast<const unsigned char*>(view.data);
  return std::accumulate(bytes, bytes + count, std::uint64_t{0});
}

std::uint64_t look_at(const StreamRows& rows) {
  return look_at(rows.values) + look_at(rows.times) + look_at(rows.received) + look_at(rows.valid) +
         look_at(rows.row_offsets);
}

/// Reads the items of each ragged row of an episode, whose offsets the store has checked.
std::uint64_t look_at_rows(const StreamRows& rows) {
  if (!rows.row_offsets.present() || rows.values.dtype != DataType::kFloat32) return 0;
  const auto* offsets = static_cast<const std::int64_t*>(rows.row_offsets.data);
  const auto* values = static_cast<const unsigned char*>(rows.values.data);
  const std::int64_t item = rows.values.strides[0] * size_of(rows.values.dtype);
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < rows.times.shape[0]; ++i) {
    const std::int64_t begin = (offsets[i] - offsets[0]) * item;
    const std::int64_t end = (offsets[i + 1] - offsets[0]) * item;
    sum = std::accumulate(values + begin, values + end, sum);
  }
  return sum;
}

/// Runs `read` and keeps what it refuses.
template <typename Read>
void attempt(const Read& read) {
  try {
    read();
  } catch (const StoreError& error) {
    outcome += outcome_of(error.what());
  }
}

/// The manifest that the seeds fit.
const store::Manifest& manifest() {
  static const store::Manifest manifest =
      store::parse_manifest(ragged_manifest({safetensors_file(ragged_shard())}).dump(), "m");
  return manifest;
}

std::uint64_t look_at_shard(const std::byte* file, std::size_t size) {
  const store::ShardEntry& entry = manifest().shards[0];
  const store::Shard shard(file, size, entry, manifest(), "s");
  std::uint64_t sum = 0;
  for (std::int64_t e = 0; e < shard.episodes(); ++e) {
    attempt([&] {
      const EpisodeInfo info = shard.episode(e, entry, "s");
      sum += std::accumulate(info.source.begin(), info.source.end(), std::uint64_t{0});
    });
    for (std::size_t s = 0; s < manifest().streams.size(); ++s) {
      attempt([&] {
        const StreamRows rows = shard.episode_rows(e, s, manifest().streams[s], "s");
        sum += look_at(rows) + look_at_rows(rows);
      });
    }
  }
  for (std::size_t s = 0; s < manifest().streams.size(); ++s) {
    const ShardStream stream = shard.stream(s, manifest().streams[s]);
    sum += look_at(stream.rows) + look_at(stream.offsets);
  }
  attempt([&] { shard.check_data(entry, manifest(), "s"); });
  return sum;
}

}  // namespace

std::vector<Parts> fuzz_seeds() {
  std::vector<Parts> seeds;
  for (const std::vector<FileTensor>& tensors : {example_shard(), ragged_shard()}) {
    Parts parts = {safetensors_header(tensors), ""};
    for (const FileTensor& tensor : tensors) parts[1] += tensor.bytes;
    seeds.push_back(parts);
  }
  return seeds;
}

std::vector<std::string> fuzz_words() {
  return {"\"F64\"",
          "\"BOOL\"",
          "\"I64\"",
          "\"dtype\":",
          "\"shape\":",
          "\"data_offsets\":",
          "\"__metadata__\":{\"a\":\"b\"},",
          "\"action/values\":",
          "\"flag/valid\":",
          "\"cloud/row_offsets\":",
          "\"episode/task\":"};
}

std::string fuzz_join(const Parts& parts) {
  if (parts.size() == 1) return parts[0];  // a file as it is
  // Where the header has grown or shrunk, the data must be aligned again to be looked at.
  std::string header = parts[0];
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return safetensors_file(header, parts[1]);
}

std::string fuzz_outcome() { return outcome; }

}  // namespace robocache::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace robocache::testing;
  // A copy of just this size: the sanitizer knows where it ends.
  const std::unique_ptr<std::byte[]> copy(new std::byte[size]);
  std::copy_n(reinterpret_cast<const std::byte*>(data), size, copy.get());
  outcome.clear();
  attempt([&] { sum_of_all = look_at_shard(copy.get(), size); });
  return 0;
}
