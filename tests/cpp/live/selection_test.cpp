// Queries of some keys: they write what a query of all keys writes there, and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "live/reference.h"
#include "live/scalars.h"
#include "support/error_of.h"

namespace robocache::testing {
namespace {

LiveStream vector(const char* name, const std::vector<std::int64_t>& offsets_ms) {
  LiveStream stream = scalar(offsets_ms, name);
  stream.shape = {2};
  return stream;
}

/// Joints and forces in a group, an image, and actions relative to the joints.
std::vector<LiveStream> streams() {
  LiveStream camera = vector("camera", {0});
  camera.dtype = DataType::kUInt8;
  camera.shape = {4, 6, 3};
  LiveStream action = vector("action", {0, 20});
  action.relative_to = "joints";
  action.reference_columns = {0, 1};
  return {vector("joints", {-2, 0}), camera, vector("force", {-2, 0}), vector("gaze", {0}), action};
}

LiveOptions options() {
  LiveOptions made;
  made.robots = 2;
  made.concat = {{"obs", {"joints", "force"}}};
  return made;
}

void push(LiveAligner& aligner, std::int64_t time_ms) {
  for (std::int64_t stream = 0; stream < 4; ++stream) {
    for (std::int64_t robot = 0; robot < 2; ++robot) {
      const auto value = static_cast<float>(100 * stream + 10 * robot + time_ms);
      const float row[] = {value, -value};
      const std::vector<std::uint8_t> image(4 * 6 * 3, static_cast<std::uint8_t>(time_ms));
      const LiveStatus status =
          stream == 1 ? aligner.push<std::uint8_t>(1, time_ms * kMs, image.data(), 72, robot)
                      : aligner.push<float>(stream, time_ms * kMs, row, 2, robot);
      ASSERT_EQ(status, LiveStatus::kOk);
    }
  }
}

/// The bytes of an array in an output.
std::string bytes_of(const LiveAligner& aligner, const Bytes& out, const std::string& key) {
  const LiveArray& array = *aligner.find_output(key);
  std::int64_t bytes = size_of(array.dtype);
  for (const std::int64_t size : array.shape) bytes *= size;
  return {reinterpret_cast<const char*>(out.data()) + array.offset,
          static_cast<std::size_t>(bytes)};
}

TEST(LiveSelection, WritesTheArraysOfItsKeysAlone) {
  for (const std::vector<std::string>& keys :
       {std::vector<std::string>{"obs"}, {"camera"}, {"gaze", "obs"}, {"gaze", "camera"}}) {
    LiveAligner aligner(streams(), options()), whole(streams(), options());
    const LiveSelection selection = aligner.select(keys);
    for (const std::int64_t ms : {1, 2, 3}) {
      push(aligner, ms);
      push(whole, ms);
      const Bytes expected = answer(whole, LiveNow::at(ms * kMs));
      Bytes out(aligner.output_bytes(), LiveReference::kGap);
      ASSERT_EQ(aligner.query(LiveNow::at(ms * kMs), out.data(), selection), LiveStatus::kOk);
      const auto is_selected = [&](const char* key) {
        return std::find(keys.begin(), keys.end(), key) != keys.end();
      };
      for (const LiveArray& array : aligner.outputs()) {
        const std::string name = array.key.substr(0, array.key.find('_'));
        const bool is_obs = name == "obs" || name == "joints" || name == "force";
        const std::string got = bytes_of(aligner, out, array.key);
        if (is_selected(is_obs ? "obs" : name.c_str())) {
          EXPECT_EQ(got, bytes_of(whole, expected, array.key)) << array.key;
        } else {
          EXPECT_EQ(got, std::string(got.size(), static_cast<char>(LiveReference::kGap)))
              << array.key;
        }
      }
    }
    EXPECT_EQ(aligner.stats(1).taken, keys.back() == "camera" ? 3 : 0);
    // The next query of all keys is that of an aligner without selections.
    EXPECT_EQ(difference_of(whole, answer(aligner, LiveNow::at(3 * kMs)),
                            answer(whole, LiveNow::at(3 * kMs))),
              "");
  }
}

TEST(LiveSelection, TakesReferencesFromStreamsThatItLeavesOut) {
  std::vector<LiveStream> given = streams();
  given[3].relative_to = "joints";
  given[3].reference_columns = {0, 1};
  LiveAligner aligner(given, options()), whole(given, options());
  const LiveSelection gaze = aligner.select({"gaze"});
  for (const std::int64_t ms : {1, 2, 3}) {
    push(aligner, ms);
    push(whole, ms);
    const Bytes expected = answer(whole, LiveNow::at(ms * kMs));
    Bytes out(aligner.output_bytes());
    ASSERT_EQ(aligner.query(LiveNow::at(ms * kMs), out.data(), gaze), LiveStatus::kOk);
    EXPECT_EQ(bytes_of(aligner, out, "gaze"), bytes_of(whole, expected, "gaze"));
  }
}

TEST(LiveSelection, WritesTheConstantsOfItsKeys) {
  std::vector<LiveStream> given = {vector("joints", {0}), vector("force", {0}),
                                   vector("gaze", {0})};
  given[0].padded_width = given[1].padded_width = 3;
  given[2].is_missing = true;
  LiveOptions mixture;
  mixture.dataset_index = 5;
  LiveAligner aligner(given, mixture), whole(given, mixture);
  const Bytes expected = answer(whole, LiveNow::at(0));
  for (const char* const key : {"joints", "force", "gaze"}) {
    Bytes out(aligner.output_bytes(), LiveReference::kGap);
    const LiveSelection selection = aligner.select({key});
    const bool takes_rows = key != std::string("gaze");
    ASSERT_EQ(aligner.query(LiveNow::at(0), out.data(), selection),
              takes_rows ? LiveStatus::kNoRows : LiveStatus::kOk);
    for (const LiveArray& array : aligner.outputs()) {
      const std::string got = bytes_of(aligner, out, array.key);
      const bool is_selected = array.key.rfind(key, 0) == 0 || array.key == "dataset_index";
      EXPECT_EQ(got, is_selected ? bytes_of(whole, expected, array.key)
                                 : std::string(got.size(), static_cast<char>(LiveReference::kGap)))
          << array.key << " of " << key;
    }
  }
}

TEST(LiveSelection, HasTicketsOfItsOwn) {
  LiveAligner aligner(streams(), options());
  const LiveSelection camera = aligner.select({"camera"});
  Bytes out(aligner.output_bytes());
  std::vector<LiveTicket> tickets;
  for (const std::int64_t ms : {1, 2, 3}) {
    push(aligner, ms);
    const LiveResult result = ms == 2 ? aligner.query(LiveNow::at(ms * kMs), out.data())
                                      : aligner.query(LiveNow::at(ms * kMs), out.data(), camera);
    ASSERT_EQ(result, LiveStatus::kOk);
    tickets.push_back(result.ticket);
  }
  const double zeros[4] = {};
  for (std::size_t i = 0; i < 3; ++i) {
    double absolute[4];
    const LiveKey& action = *aligner.find_key("action");
    ASSERT_EQ(aligner.undo(tickets[i], action, zeros, 1, absolute), LiveStatus::kOk);
    const double of_joints = static_cast<double>(i) + 1;
    EXPECT_EQ(std::vector<double>(absolute, absolute + 4),
              (std::vector<double>{of_joints, -of_joints, 10 + of_joints, -10 - of_joints}));
  }
}

TEST(LiveSelection, IncludesWhatTransformsReferTo) {
  std::vector<LiveStream> given = streams();
  given[4].relative_to.clear();
  given[4].reference_columns.clear();
  LiveOptions with;
  with.transforms = {DeltaTransform{"action", "joints", DeltaDirection::kToDelta, {}},
                     DeltaTransform{"force", "joints", DeltaDirection::kToDelta, {}}};
  LiveAligner aligner(given, with);
  const LiveSelection gaze = aligner.select({"gaze"});
  EXPECT_EQ(gaze.keys(), (std::vector<std::string>{"joints", "gaze"}));
  EXPECT_EQ(aligner.select({"gaze", "camera", "gaze"}).keys(),
            (std::vector<std::string>{"joints", "camera", "gaze"}));
  for (const std::int64_t stream : {0, 2, 3}) {
    const float row[] = {7, 8};
    ASSERT_EQ(aligner.push<float>(stream, 0, row, 2), LiveStatus::kOk);
  }
  Bytes out(aligner.output_bytes());
  const LiveResult result = aligner.query(LiveNow::at(0), out.data(), gaze);
  ASSERT_EQ(result, LiveStatus::kOk);
  const double zeros[2] = {};
  double absolute[2];
  EXPECT_EQ(aligner.undo(result.ticket, aligner.keys()[4], zeros, 1, absolute), LiveStatus::kOk);
  EXPECT_EQ(absolute[1], 8);
}

TEST(LiveSelection, Errors) {
  LiveAligner aligner(streams(), options());
  const auto refused = [&](const std::vector<std::string>& keys) {
    return error_of([&] { (void)aligner.select(keys); });
  };
  const std::string expected =
      "ValueError keys: expected keys that a query returns (obs, camera, gaze), got ";
  EXPECT_EQ(refused({"obs", "arm"}), expected + "'arm'");
  EXPECT_EQ(refused({"joints"}), expected + "'joints'");
  EXPECT_EQ(refused({"action"}), expected + "'action'");
  EXPECT_EQ(refused({}), "ValueError keys: expected one key or more, got none");
  LiveAligner other({vector("joints", {0})}, {});
  Bytes out(aligner.output_bytes());
  const LiveResult result = aligner.query(LiveNow::at(0), out.data(), other.select({"joints"}));
  EXPECT_EQ(result.status, LiveStatus::kUnknownKey);
  EXPECT_EQ(result.ticket.sequence, 0);
}

}  // namespace
}  // namespace robocache::testing
