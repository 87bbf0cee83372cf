// Episode stores, read by the C++ interface. tests/python has the errors, each by its message.
#include "robocache/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/builder.h"
#include "store/crc32.h"
#include "store/file.h"

namespace robocache::testing {
namespace {

template <typename T>
std::vector<T> elements(const ConstTensorView& view) {
  std::int64_t count = 1;
  for (int axis = 0; axis < view.rank; ++axis) count *= view.shape[axis];
  const T* data = static_cast<const T*>(view.data);
  return {data, data + count};
}

using Int64s = std::vector<std::int64_t>;

TEST(Store, SaysWhatItHolds) {
  const StoreFolder folder(2);
  const EpisodeStore store(folder.path());
  EXPECT_EQ(store.path(), folder.path());
  EXPECT_EQ(nlohmann::json::parse(store.manifest()).at("version"), 1);
  EXPECT_EQ(store.episodes(), 4);
  EXPECT_EQ(store.shards(), 2);
  EXPECT_EQ(store.tasks(), (std::vector<std::string>{"pick", "place"}));
  EXPECT_EQ(store.subsets(), (std::vector<std::string>{"train"}));
  EXPECT_EQ(store.rows(0), 6);
  EXPECT_EQ(store.rows(1), 2);
  EXPECT_EQ(store.find_stream("action"), 0);
  EXPECT_EQ(store.find_stream("flag"), 1);
  EXPECT_EQ(store.find_stream("flags"), std::nullopt);

  const StreamInfo& action = store.streams().at(0);
  EXPECT_EQ(action.name, "action");
  EXPECT_EQ(action.dtype, DataType::kFloat32);
  EXPECT_EQ(action.shape, Int64s{2});
  ASSERT_EQ(action.layout.size(), 2u);
  EXPECT_EQ(action.layout[1].method, Method::kAngle);
  EXPECT_EQ(action.layout[1].channels, 1);
  EXPECT_EQ(action.units, "rad");
  EXPECT_EQ(action.channels, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(action.rate, 100.5);
  EXPECT_EQ(action.timeline, Timeline::kRows);
  EXPECT_EQ(action.source, "x");
  const StreamInfo& flag = store.streams().at(1);
  EXPECT_EQ(flag.dtype, DataType::kBool);
  EXPECT_TRUE(flag.shape.empty() && flag.layout.empty() && flag.channels.empty());
  EXPECT_EQ(flag.method, Method::kPrevious);
  EXPECT_EQ(flag.units, std::nullopt);
  EXPECT_EQ(flag.rate, std::nullopt);
  EXPECT_EQ(flag.timeline, Timeline::kTime);
}

TEST(Store, SaysWhatAnEpisodeIs) {
  const StoreFolder folder(2);
  const EpisodeStore store(folder.path());
  const EpisodeInfo first = store.episode(0);
  EXPECT_EQ(first.start_ns, 10);
  EXPECT_EQ(first.end_ns, 20);
  EXPECT_EQ(first.length, 2);
  EXPECT_EQ(first.task, 0) << "the shard's task 1 is the store's task 0";
  EXPECT_EQ(first.subsets, Int64s{0});
  EXPECT_EQ(first.source, "a#1");
  const EpisodeInfo last = store.episode(3);
  EXPECT_EQ(last.task, -1);
  EXPECT_TRUE(last.subsets.empty());
  EXPECT_EQ(last.source, "b#2");
  EXPECT_EQ(last.shard, 1);
  EXPECT_EQ(last.index_in_shard, 1);
  EXPECT_EQ(store.shard_of(1), 0);
  EXPECT_EQ(store.shard_of(2), 1);

  Int64s lengths(4);
  Int64s ends(4);
  store.episode_columns(lengths.data(), nullptr, ends.data(), nullptr);
  EXPECT_EQ(lengths, (Int64s{2, 1, 2, 1}));
  EXPECT_EQ(ends, (Int64s{20, 15, 20, 15}));
  Int64s starts(4);
  Int64s tasks(4);
  store.episode_columns(nullptr, starts.data(), nullptr, tasks.data());
  EXPECT_EQ(starts, (Int64s{10, 10, 10, 10}));
  EXPECT_EQ(tasks, (Int64s{0, -1, 0, -1}));
}

TEST(Store, GivesRowsInPlace) {
  const StoreFolder folder(2);
  const EpisodeStore store(folder.path());
  const StreamRows first = store.rows(0, 0);
  EXPECT_EQ(elements<float>(first.values), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(first.values.dtype, DataType::kFloat32);
  EXPECT_EQ(first.values.rank, 2);
  EXPECT_EQ(first.values.shape[0], 2);
  EXPECT_EQ(first.values.shape[1], 2);
  EXPECT_EQ(first.values.strides[0], 2);
  EXPECT_EQ(elements<std::int64_t>(first.times), (Int64s{10, 20}));
  EXPECT_FALSE(first.received.present());
  EXPECT_FALSE(first.valid.present());
  EXPECT_EQ(elements<float>(store.rows(1, 0).values), (std::vector<float>{4, 5}));

  const StreamRows flag = store.rows(3, 1);
  EXPECT_EQ(flag.values.rank, 1);
  EXPECT_EQ(elements<std::uint8_t>(flag.values), std::vector<std::uint8_t>{1});
  EXPECT_EQ(elements<std::int64_t>(flag.received), Int64s{16});
  EXPECT_EQ(elements<std::uint8_t>(flag.valid), std::vector<std::uint8_t>{0});
  const StreamRows none = store.rows(2, 1);
  EXPECT_EQ(none.values.shape[0], 0);
  EXPECT_EQ(none.times.shape[0], 0);
}

TEST(Store, GivesWholeShards) {
  const StoreFolder folder(2);
  const EpisodeStore store(folder.path());
  const ShardView shard = store.shard(1);
  EXPECT_EQ(shard.file, "shard-00001.safetensors");
  EXPECT_EQ(shard.first_episode, 2);
  EXPECT_EQ(shard.episodes, 2);
  EXPECT_EQ(
      std::string(static_cast<const char*>(shard.data), static_cast<std::size_t>(shard.bytes)),
      safetensors_file(example_shard()));
  const ShardStream action = store.shard_stream(1, 0);
  EXPECT_EQ(elements<float>(action.rows.values), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(elements<std::int64_t>(action.rows.times), (Int64s{10, 20, 10}));
  EXPECT_EQ(elements<std::int64_t>(action.offsets), (Int64s{0, 2, 3}));
  store.check_offsets(1, 0);
  store.verify_shard(1);
  store.verify_statistics();
}

/// A folder with a store of one shard with these tensors and the manifest of ragged streams.
void write_ragged(const StoreFolder& folder, const std::vector<FileTensor>& tensors) {
  const std::string file = safetensors_file(tensors);
  folder.write("shard-00000.safetensors", file);
  folder.write("manifest.json", sealed(ragged_manifest({file})));
}

TEST(Store, GivesRaggedRowsInPlace) {
  const StoreFolder folder;
  write_ragged(folder, ragged_shard());
  const EpisodeStore store(folder.path());
  const StreamInfo& info = store.streams().at(2);
  EXPECT_TRUE(info.is_ragged);
  EXPECT_EQ(info.shape, Int64s{3});
  EXPECT_FALSE(store.streams().at(0).is_ragged);
  EXPECT_EQ(store.rows(2), 3);

  const StreamRows first = store.rows(0, 2);
  EXPECT_EQ(elements<std::int64_t>(first.times), (Int64s{11, 12}));
  EXPECT_EQ(elements<std::int64_t>(first.row_offsets), (Int64s{0, 2, 2}));
  EXPECT_EQ(elements<float>(first.values), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  const StreamRows second = store.rows(1, 2);
  EXPECT_EQ(elements<std::int64_t>(second.row_offsets), (Int64s{2, 3}));
  EXPECT_EQ(elements<float>(second.values), (std::vector<float>{6, 7, 8}));
  EXPECT_FALSE(store.rows(0, 0).row_offsets.present());

  const ShardStream all = store.shard_stream(0, 2);
  EXPECT_EQ(elements<std::int64_t>(all.rows.row_offsets), (Int64s{0, 2, 2, 3}));
  EXPECT_EQ(all.rows.values.shape[0], 3);
  EXPECT_EQ(all.rows.times.shape[0], 3);
  store.verify_shard(0);
}

TEST(Store, AStreamMayBeAbsentFromAShard) {
  std::vector<FileTensor> tensors;
  for (FileTensor& tensor : example_shard()) {
    if (tensor.name.rfind("flag/", 0) != 0) tensors.push_back(std::move(tensor));
  }
  // The streams after the absent one are still aligned.
  const std::string file = safetensors_file(tensors);
  const StoreFolder folder;
  folder.write("shard-00000.safetensors", file);
  folder.write("manifest.json", sealed(example_manifest({file})));
  const EpisodeStore store(folder.path());
  EXPECT_EQ(store.rows(1), 0);
  EXPECT_EQ(store.rows(0, 1).values.shape[0], 0);
  const ShardStream flag = store.shard_stream(0, 1);
  EXPECT_EQ(flag.rows.times.shape[0], 0);
  EXPECT_FALSE(flag.offsets.present());
  store.check_offsets(0, 1);
}

TEST(Store, CopiesShareTheMaps) {
  const StoreFolder folder;
  std::optional<EpisodeStore> first(folder.path());
  const EpisodeStore second = *first;
  const void* data = first->rows(0, 0).values.data;
  first.reset();
  EXPECT_EQ(second.rows(0, 0).values.data, data);
  EXPECT_EQ(elements<float>(second.rows(0, 0).values)[3], 3);
}

TEST(Store, ServesManyThreads) {
  const StoreFolder folder(3);
  const EpisodeStore store(folder.path());
  std::atomic<int> wrong = 0;
  const auto read = [&] {
    for (int i = 0; i < 2000; ++i) {
      const std::int64_t episode = i % store.episodes();
      const float expected = episode % 2 == 0 ? 0 : 4;
      if (elements<float>(store.rows(episode, 0).values)[0] != expected) ++wrong;
      if (store.episode(episode).source != (episode % 2 == 0 ? "a#1" : "b#2")) ++wrong;
    }
  };
  std::thread other(read);
  read();
  other.join();
  EXPECT_EQ(wrong, 0);
}

/// The error that `call` throws: its class and its message.
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const StoreError& error) {
    return std::string("StoreError ") + error.what();
  } catch (const ValueError& error) {
    return std::string("ValueError ") + error.what();
  }
  return "no error";
}

TEST(StoreErrors, Indices) {
  const StoreFolder folder;
  const EpisodeStore store(folder.path());
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(error_of([&] { store.episode(2); }),
            "ValueError episode: expected an index below 2, got 2");
  EXPECT_EQ(error_of([&] { store.rows(kLowest, 0); }),
            "ValueError episode: expected an index below 2, got -9223372036854775808");
  EXPECT_EQ(error_of([&] { store.rows(0, 2); }),
            "ValueError stream: expected an index below 2, got 2");
  EXPECT_EQ(error_of([&] { store.rows(-1); }),
            "ValueError stream: expected an index below 2, got -1");
  EXPECT_EQ(error_of([&] { store.shard(1); }),
            "ValueError shard: expected an index below 1, got 1");
  EXPECT_EQ(error_of([&] { store.shard_stream(0, 2); }),
            "ValueError stream: expected an index below 2, got 2");
  EXPECT_EQ(error_of([&] { store.check_offsets(-1, 0); }),
            "ValueError shard: expected an index below 1, got -1");
  EXPECT_EQ(error_of([&] { store.verify_shard(1); }),
            "ValueError shard: expected an index below 1, got 1");
}

TEST(StoreErrors, NameTheFile) {
  const StoreFolder folder;
  const std::string shard = folder.path_of("shard-00000.safetensors");
  EXPECT_EQ(error_of([&] { EpisodeStore(folder.path() + "/no"); }),
            "StoreError " + folder.path() +
                "/no: expected the folder of an episode store, got No such file or directory");
  std::vector<FileTensor> tensors = example_shard();
  tensors[1].bytes = bytes_of(Int64s{0, 4, 3});
  const std::string file = safetensors_file(tensors);
  folder.write("shard-00000.safetensors", file);
  EXPECT_NE(error_of([&] { EpisodeStore(folder.path()).verify_shard(0); }).find(shard),
            std::string::npos);
  folder.write("manifest.json", sealed(example_manifest({file})));
  const EpisodeStore store(folder.path());
  const std::string offsets =
      "StoreError " + shard + ": \"action/offsets\"[0]: expected a range within 3, got [0,4]";
  EXPECT_EQ(error_of([&] { store.rows(0, 0); }), offsets);
  EXPECT_EQ(error_of([&] { store.check_offsets(0, 0); }), offsets);
  EXPECT_EQ(error_of([&] { store.verify_shard(0); }), offsets);
  EXPECT_EQ(error_of([&] { store.rows(0, 1); }), "no error");
}

TEST(StoreErrors, OffsetsOfRaggedRows) {
  const StoreFolder folder;
  const std::string name =
      "StoreError " + folder.path_of("shard-00000.safetensors") + ": \"cloud/row_offsets\"";
  const auto write_offsets = [&](const Int64s& offsets) {
    std::vector<FileTensor> tensors = ragged_shard();
    tensors[2].shape = {static_cast<std::int64_t>(offsets.size())};
    tensors[2].bytes = bytes_of(offsets);
    write_ragged(folder, tensors);
  };
  write_offsets({0, 2, 2, 4});
  const EpisodeStore past_end(folder.path());
  const std::string range = name + "[2]: expected a range within 3, got [2,4]";
  EXPECT_EQ(error_of([&] { past_end.rows(0, 2); }), "no error");
  EXPECT_EQ(error_of([&] { past_end.rows(1, 2); }), range);
  EXPECT_EQ(error_of([&] { past_end.check_offsets(0, 2); }), range);
  EXPECT_EQ(error_of([&] { past_end.verify_shard(0); }), range);
  EXPECT_EQ(past_end.shard_stream(0, 2).rows.values.shape[0], 3);

  write_offsets({0, 2, 1, 3});
  EXPECT_EQ(error_of([&] { EpisodeStore(folder.path()).rows(0, 2); }),
            name + "[1]: expected a range within 3, got [2,1]");
  write_offsets({0, -1, 2, 3});
  EXPECT_EQ(error_of([&] { EpisodeStore(folder.path()).rows(0, 2); }),
            name + "[0]: expected a range within 3, got [0,-1]");
  write_offsets({1, 2, 2, 3});
  EXPECT_EQ(error_of([&] { EpisodeStore(folder.path()).verify_shard(0); }),
            name + ": expected 0 first, got 1");
  write_offsets({0, 2, 2, 2});
  EXPECT_EQ(error_of([&] { EpisodeStore(folder.path()).verify_shard(0); }),
            name + ": expected 3 last, got 2");
  write_offsets({});
  EXPECT_EQ(error_of([&] { EpisodeStore store(folder.path()); }),
            name + ": expected I64 [N+1], got I64 [0]");
  write_offsets({0, 2, 3});
  EXPECT_EQ(error_of([&] { EpisodeStore store(folder.path()); }),
            "StoreError " + folder.path_of("shard-00000.safetensors") +
                ": \"cloud/times\": expected I64 [2], got I64 [3]");
}

TEST(StoreErrors, OffsetsBesideAnEpisodeWithoutRows) {
  const StoreFolder folder;
  std::vector<FileTensor> tensors = ragged_shard();
  tensors[1].bytes = bytes_of(Int64s{0, 3, 3});
  tensors[2].bytes = bytes_of(Int64s{0, 2, 2, std::int64_t{1} << 40});
  write_ragged(folder, tensors);
  const EpisodeStore store(folder.path());
  const StreamRows rows = store.rows(1, 2);
  EXPECT_EQ(rows.values.shape[0], 0);
  EXPECT_EQ(rows.values.data, store.shard_stream(0, 2).rows.values.data) << "within the file";
}

TEST(StoreErrors, RaggedStreamsOfTheManifest) {
  const StoreFolder folder;
  const std::string name = "StoreError " + folder.path_of("manifest.json") + ": ";
  const std::string file = safetensors_file(ragged_shard());
  folder.write("shard-00000.safetensors", file);
  const auto error_with = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json manifest = ragged_manifest({file});
    (std::string(key) == "version" ? manifest : manifest["streams"][2])[key] = value;
    folder.write("manifest.json", sealed(manifest));
    return error_of([&] { EpisodeStore store(folder.path()); });
  };
  EXPECT_EQ(error_with("version", 1),
            name +
                "streams[2].shape[0]: expected a whole number from 0 to 9223372036854775807, got "
                "null");
  EXPECT_EQ(error_with("version", 3),
            name + "version: expected 1 or 2, which this version of robocache reads, got 3");
  EXPECT_EQ(error_with("shape", {3, nullptr}),
            name +
                "streams[2].shape[1]: expected a whole number from 0 to 9223372036854775807, got "
                "null");
  EXPECT_EQ(error_with("method", "linear"),
            name +
                "streams[2].method: expected previous or nearest: rows of different sizes "
                "can't be combined, got \"linear\"");
  EXPECT_EQ(error_with("channels", {"x"}),
            name + "streams[2].channels: expected null or 3 names, got [\"x\"]");
}

TEST(StoreErrors, BytesAfterTheManifestsEnd) {
  const StoreFolder folder;
  nlohmann::json manifest = example_manifest({});
  folder.write("manifest.json", sealed(manifest) + "x");
  EXPECT_EQ(error_of([&] { EpisodeStore(folder.path()); }),
            "StoreError " + folder.path_of("manifest.json") +
                ": expected the manifest of an episode store, which ends in its checksum, got a "
                "file that is cut short or another one");
}

#if !defined(ROBOCACHE_SHARED)  // a shared library hides these

TEST(StoreErrors, FilesBeyondALimit) {
  const StoreFolder folder;
  folder.write("f", "0123456789");
  const store::Folder opened(folder.path());
  EXPECT_EQ(opened.read("f", 10), "0123456789");
  EXPECT_EQ(error_of([&] { opened.read("f", 9); }),
            "StoreError " + folder.path_of("f") + ": expected at most 9 bytes, got 10");
}

TEST(Crc32, IsZlibs) {
  EXPECT_EQ(store::crc32("", 0), 0u);
  EXPECT_EQ(store::crc32("123456789", 9), 0xCBF43926u) << "the check value of its definition";
  const std::string zeros(32, '\0');
  EXPECT_EQ(store::crc32(zeros.data(), 32), 0x190A55ADu);
}

TEST(Crc32, GoesOnWhereItStopped) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 37);
  const std::uint32_t whole = store::crc32(text.data(), text.size());
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const std::uint32_t first = store::crc32(text.data(), cut);
    EXPECT_EQ(store::crc32(text.data() + cut, text.size() - cut, first), whole) << cut;
  }
}

TEST(Crc32, IsThatOfItsBytes) {  // many bytes at once go another way than one
  std::string text;
  std::uint32_t one_by_one = 0;
  for (int i = 0; i < 300; ++i) {
    text += static_cast<char>(i * 101);
    one_by_one = store::crc32(&text.back(), 1, one_by_one);
    EXPECT_EQ(store::crc32(text.data(), text.size()), one_by_one) << text.size();
  }
}

#endif

}  // namespace
}  // namespace robocache::testing
