// The manifest's parser on altered manifests, with and without a checksum that fits.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "fuzz.h"
#include "robocache/error.h"
#include "store/builder.h"
#include "store/manifest.h"

namespace robocache::testing {
namespace {

std::string outcome;

}  // namespace

std::vector<Parts> fuzz_seeds() {
  const std::string shard = safetensors_file(example_shard());
  const nlohmann::json manifest = example_manifest({shard, shard});
  return {{sealed(example_manifest({}))},
          {manifest.dump()},
          {manifest.dump(1)},
          {ragged_manifest({shard}).dump()}};
}

std::vector<std::string> fuzz_words() {
  return {"\"linear\"",
          "\"slerp_xyzw\"",
          "\"F64\"",
          "\"rows\"",
          "\"shard-00009.safetensors\"",
          "\"statistics-00003.safetensors\"",
          "\"../\"",
          "\"episode\"",
          "\"00000000\"",
          "\"name\":",
          "\"shape\":",
          "\"quantiles\":",
          ",\"crc32\":\"00000000\"}\n"};
}

std::string fuzz_join(const Parts& parts) { return parts[0]; }

std::string fuzz_outcome() { return outcome; }

}  // namespace robocache::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace store = robocache::store;
  // A copy of just this size: the sanitizer knows where it ends.
  const std::unique_ptr<char[]> copy(new char[size]);
  std::copy_n(data, size, copy.get());
  const std::string_view text(copy.get(), size);
  using robocache::testing::outcome;
  try {
    store::check_manifest_checksum(text, "m");
  } catch (const robocache::StoreError&) {
    // Few altered texts fit their checksum; what is behind this check is to be seen too.
  }
  try {
    const store::Manifest manifest = store::parse_manifest(text, "m");
    for (const store::ShardEntry& shard : manifest.shards) {
      if (shard.file.find('/') != std::string::npos) std::abort();  // out of the folder
    }
    outcome.clear();
  } catch (const robocache::StoreError& error) {
    outcome = robocache::testing::outcome_of(error.what());
  }
  return 0;
}
