// The LiveAligner's transforms: against the library's transforms of what an aligner without them
// gives, and back; masks; and each error.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "robocache/live.h"
#include "robocache/transform.h"
#include "support/error_of.h"
#include "support/random.h"
#include "support/tensor.h"

namespace robocache::testing {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr RotationForm kXyzw = RotationForm::kQuaternionXyzw;

LiveStream stream(const char* name, std::int64_t width, DataType out_type = DataType::kFloat32) {
  LiveStream made;
  made.name = name;
  made.shape = {width};
  made.rate = 100;
  made.offsets = {-20 * kMs, -10 * kMs, 0};
  made.out_dtype = out_type;
  return made;
}

/// An aligner, and the arrays of its last query.
struct Robots {
  LiveAligner aligner;
  std::vector<std::byte> out;
  LiveTicket last;  // of the last query

  Robots(const std::vector<LiveStream>& streams, const LiveOptions& options)
      : aligner(streams, options), out(aligner.output_bytes()) {}

  void push(std::int64_t number, std::int64_t time, const std::vector<float>& row,
            std::int64_t robot) {
    ASSERT_EQ(aligner.push(number, time, row.data(), row.size() * sizeof(float), robot),
              LiveStatus::kOk);
  }

  void query(std::int64_t now_ns, LiveStatus status = LiveStatus::kOk) {
    const LiveResult made = aligner.query(LiveNow::at(now_ns), out.data());
    ASSERT_EQ(made, status);
    last = made.ticket;
  }

  const LiveArray& array(const std::string& key) const {
    for (const LiveArray& each : aligner.outputs()) {
      if (each.key == key) return each;
    }
    throw std::out_of_range(key);
  }
  ConstTensorView view(const std::string& key) const {
    const LiveArray& found = array(key);
    ConstTensorView view;
    view.data = out.data() + found.offset;
    view.dtype = found.dtype;
    view.rank = static_cast<int>(found.shape.size());
    std::int64_t stride = 1;
    for (int axis = view.rank - 1; axis >= 0; --axis) {
      view.shape[axis] = found.shape[static_cast<std::size_t>(axis)];
      view.strides[axis] = stride;
      stride *= view.shape[axis];
    }
    return view;
  }
  std::string bytes(const std::string& key) const {
    const ConstTensorView of = view(key);
    std::int64_t count = size_of(of.dtype);
    for (int axis = 0; axis < of.rank; ++axis) count *= of.shape[axis];
    return {static_cast<const char*>(of.data), static_cast<std::size_t>(count)};
  }
};

void run_inline(void*, std::int64_t count, std::int64_t, ParallelBody body, void* body_data) {
  body(body_data, 0, count);
}

/// The last step of [R,K,D], as [R,D].
ConstTensorView last_step(ConstTensorView view) {
  view.data = static_cast<const char*>(view.data) +
              (view.shape[1] - 1) * view.strides[1] * size_of(view.dtype);
  view.shape[1] = view.shape[2];
  view.strides[1] = view.strides[2];
  view.rank = 2;
  return view;
}

/// Random rows of both robots, the first robot's from 0 on and the second's later.
void fill(std::vector<Robots*> all, const std::vector<std::int64_t>& widths) {
  Random random(7);
  for (std::int64_t ms = 0; ms <= 60; ms += 10) {
    for (std::int64_t robot = 0; robot < 2; ++robot) {
      for (std::size_t i = 0; i < widths.size(); ++i) {
        std::vector<float> row(static_cast<std::size_t>(widths[i]));
        for (float& each : row) each = static_cast<float>(random.between(-2, 2));
        if (robot == 1 && ms < 50) continue;
        for (Robots* robots : all) {
          robots->push(static_cast<std::int64_t>(i), ms * kMs, row, robot);
        }
      }
    }
  }
  for (Robots* robots : all) {
    robots->query(60 * kMs);
  }
}

LiveOptions options(std::vector<BatchTransform> transforms) {
  LiveOptions made;
  made.robots = 2;
  made.transforms = std::move(transforms);
  return made;
}

TEST(LiveTransforms, PosesAreTheLibrarys) {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16}) {
    const std::vector<LiveStream> streams = {stream("hand", 7, type), stream("base", 7, type)};
    Robots plain(streams, options({}));
    Robots changed(streams, options({RelativePoseTransform{"hand", "base", kXyzw}}));
    fill({&plain, &changed}, {7, 7});
    std::vector<std::byte> expected(2 * 3 * 7 * static_cast<std::size_t>(size_of(type)));
    TensorView out(expected.data(), type, {2, 3, 7});
    convert_pose(plain.view("hand"), last_step(plain.view("base")), kXyzw,
                 PoseDirection::kToRelative, out, on_cpu(run_inline));
    const std::string got = changed.bytes("hand");
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), expected.size()), 0) << name_of(type);
    EXPECT_EQ(changed.bytes("base"), plain.bytes("base"));
  }
}

TEST(LiveTransforms, OneAfterTheOther) {
  // Deltas of a group whose columns are relative to it, then a rotation of it in another form.
  const std::vector<LiveStream> streams = {stream("place", 3), stream("turn", 4)};
  LiveOptions grouped = options({});
  grouped.concat = {{"pose", {"place", "turn"}}};
  Robots plain(streams, grouped);
  NormalizeTransform scale;
  scale.normalization["pose"] = {{1}, {0.25}, {3}};
  scale.normalization["nobody"] = {{2}, {0, 0}, {1, 1}};
  grouped.transforms = {
      RelativePoseTransform{"pose", "pose", kXyzw},
      RotationTransform{"pose", kXyzw, RotationForm::k6d, 3},
      DeltaTransform{"pose", "pose", DeltaDirection::kToDelta, 0.1},
      scale,
  };
  Robots changed(streams, grouped);
  fill({&plain, &changed}, {3, 4});
  ASSERT_EQ(changed.array("pose").shape, (std::vector<std::int64_t>{2, 3, 9}));
  EXPECT_EQ(changed.aligner.keys()[0].shape, std::vector<std::int64_t>{9});
  EXPECT_EQ(changed.aligner.keys()[0].aligned, std::vector<std::int64_t>{7});

  const ExecutionContext context = on_cpu(run_inline);
  std::vector<float> relative(2 * 3 * 7), turned(2 * 3 * 6), rows(2 * 3 * 9), deltas(2 * 3 * 9);
  convert_pose(plain.view("pose"), last_step(plain.view("pose")), kXyzw, PoseDirection::kToRelative,
               array(relative.data(), {2, 3, 7}), context);
  ConstTensorView turns = array(relative.data() + 3, {6, 4});
  turns.strides[0] = 7;
  convert_rotation(turns, kXyzw, RotationForm::k6d, array(turned.data(), {6, 6}), context);
  for (std::size_t row = 0; row < 6; ++row) {
    std::copy_n(relative.data() + row * 7, 3, rows.data() + row * 9);
    std::copy_n(turned.data() + row * 6, 6, rows.data() + row * 9 + 3);
  }
  const TensorView all = array(rows.data(), {2, 3, 9});
  DeltaTiming timing;
  timing.duration = 0.1;
  convert_delta(all, last_step(all), DeltaDirection::kToDelta, timing,
                array(deltas.data(), {2, 3, 9}), context);
  for (float& each : deltas) each = (each - 0.25f) * 3.0f;
  const std::string got = changed.bytes("pose");
  EXPECT_EQ(std::memcmp(got.data(), deltas.data(), got.size()), 0);

  // And back: the group as it was aligned.
  std::vector<float> undone(2 * 3 * 7), again(deltas);
  ASSERT_EQ(
      changed.aligner.undo(changed.last, changed.aligner.keys()[0], again.data(), 3, undone.data()),
      LiveStatus::kOk);
  const auto* const aligned = static_cast<const float*>(plain.view("pose").data);
  for (std::size_t row = 0; row < 6; ++row) {
    const float* const a = aligned + row * 7;
    const float* const b = undone.data() + row * 7;
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(a[i], b[i], 1e-4);
    const float norm = std::sqrt(a[3] * a[3] + a[4] * a[4] + a[5] * a[5] + a[6] * a[6]);
    const float sign = a[3] * b[3] + a[4] * b[4] + a[5] * b[5] + a[6] * b[6] < 0 ? -1.0f : 1.0f;
    for (std::size_t i = 3; i < 7; ++i) EXPECT_NEAR(a[i] / norm, sign * b[i], 1e-4);
  }
}

TEST(LiveTransforms, MasksFollow) {
  std::vector<LiveStream> streams = {stream("a", 7), stream("b", 7)};
  for (LiveStream& each : streams) each.max_gap_ns = 5 * kMs;  // an older row is held, and padded
  const auto masks = [&](const BatchTransform& transform, std::int64_t first_a,
                         std::int64_t last_b) {
    LiveOptions one = options({transform});
    one.robots = 1;
    Robots robots(streams, one);
    for (std::int64_t ms = first_a; ms <= 60; ms += 10) {
      robots.push(0, ms * kMs, std::vector<float>(7, 1), 0);
    }
    for (std::int64_t ms = 0; ms <= last_b; ms += 10) {
      robots.push(1, ms * kMs, std::vector<float>(7, 1), 0);
    }
    EXPECT_EQ(robots.aligner.query(LiveNow::at(60 * kMs), robots.out.data()),
              last_b == 60 ? LiveStatus::kOk : LiveStatus::kStale);
    std::string text;
    for (const char padded : robots.bytes("a_is_pad")) text += padded != 0 ? 'x' : '.';
    return text;
  };
  const RelativePoseTransform pose{"a", "b", kXyzw};
  EXPECT_EQ(masks(pose, 0, 60), "...");
  EXPECT_EQ(masks(pose, 50, 60), "x..");
  EXPECT_EQ(masks(pose, 0, 50), "xxx");
  const DeltaTransform absolute{"a", "b", DeltaDirection::kToAbsolute, {}};
  EXPECT_EQ(masks(absolute, 0, 60), "...");
  EXPECT_EQ(masks(absolute, 50, 60), "xxx");
  EXPECT_EQ(masks(absolute, 0, 50), "xxx");
  const DeltaTransform delta{"a", "b", DeltaDirection::kToDelta, {}};
  EXPECT_EQ(masks(delta, 0, 60), "...");
  EXPECT_EQ(masks(delta, 50, 60), "xx.");
  EXPECT_EQ(masks(delta, 0, 50), "x..");
}

TEST(LiveTransforms, AnswersAreRelativeToTheirQuery) {
  LiveStream action = stream("action", 2);
  action.offsets = {0, 20 * kMs};
  const DeltaTransform deltas{"action", "joints", DeltaDirection::kToDelta, 2.0};
  LiveOptions given = options({deltas});
  Robots robots({stream("joints", 2), action}, given);
  const double answer[8] = {1, 2, 3, 4, 10, 20, 30, 40};
  double out[8];
  EXPECT_EQ(robots.aligner.undo(robots.last, robots.aligner.keys()[1], answer, 2, out),
            LiveStatus::kNoQuery);
  robots.push(0, 0, {5, 6}, 0);
  robots.query(0, LiveStatus::kNoRows);
  EXPECT_EQ(robots.aligner.undo(robots.last, robots.aligner.keys()[1], answer, 2, out),
            LiveStatus::kNoRows);
  EXPECT_EQ((std::vector<double>(out, out + 8)),
            (std::vector<double>{7, 10, 13, 18, 20, 40, 80, 120}));
  robots.push(0, 0, {1, 1}, 1);
  robots.query(kMs);
  EXPECT_EQ(robots.aligner.undo(robots.last, robots.aligner.keys()[1], answer, 2, out),
            LiveStatus::kOk);      // held, but there
  robots.push(0, kMs, {9, 9}, 1);  // not seen by the query that the policy answered
  EXPECT_EQ(robots.aligner.undo(robots.last, robots.aligner.keys()[1], answer, 2, out),
            LiveStatus::kOk);
  EXPECT_EQ(out[4], 21);
  ASSERT_EQ(robots.aligner.reset(1), LiveStatus::kOk);
  EXPECT_EQ(robots.aligner.undo(robots.last, robots.aligner.keys()[1], answer, 2, out),
            LiveStatus::kUnknownTicket);
  EXPECT_EQ(robots.aligner.undo(robots.last, LiveKey{}, answer, 2, out), LiveStatus::kUnknownKey);
}

TEST(LiveTransforms, WhatDoesNotFitIsRefused) {
  LiveStream action = stream("action", 7), counter = stream("counter", 2);
  action.offsets = {0, 20 * kMs};
  counter.dtype = counter.out_dtype = DataType::kInt64;
  counter.method = Method::kPrevious;
  LiveStream number = stream("number", 1);
  number.shape = {};
  LiveStream one = stream("one", 7);
  one.offsets = {0};
  one.has_axis = false;
  const std::vector<LiveStream> streams = {stream("hand", 7),  action, counter, number, one,
                                           stream("joints", 3)};
  const auto refused = [&](const BatchTransform& transform) {
    return error_of([&] { LiveAligner aligner(streams, options({transform})); });
  };
  EXPECT_EQ(refused(RotationTransform{"hand", kXyzw, kXyzw, 3}), "no error");
  EXPECT_EQ(refused(RotationTransform{"nobody", kXyzw, kXyzw}),
            "ValueError transforms[0].key: expected a key of the batch, got 'nobody'");
  EXPECT_EQ(refused(RotationTransform{"counter", kXyzw, kXyzw}),
            "ValueError transforms[0].key: expected one of floats, got int64 of 'counter'");
  EXPECT_EQ(refused(RotationTransform{"number", kXyzw, kXyzw}),
            "ValueError transforms[0].key: expected rows [...,D], got numbers of 'number'");
  EXPECT_EQ(refused(RotationTransform{"joints", kXyzw, kXyzw}),
            "ValueError transforms[0].key: expected rows [...,4] or wider, got [3] of 'joints'");
  EXPECT_EQ(refused(RotationTransform{"hand", kXyzw, kXyzw, 4}),
            "ValueError transforms[0].at: expected a column from 0 to 3 of 'hand', got 4");
  EXPECT_EQ(refused(RotationTransform{"hand", kXyzw, kXyzw, -1}),
            "ValueError transforms[0].at: expected a column from 0 to 3 of 'hand', got -1");
  EXPECT_EQ(refused(RotationTransform{"hand", RotationForm{9}, kXyzw}),
            "ValueError transforms[0].source: expected a RotationForm, got 9");
  EXPECT_EQ(refused(RelativePoseTransform{"hand", "joints", kXyzw}),
            "ValueError transforms[0].to: expected rows [...,7] or wider, got [3] of 'joints'");
  EXPECT_EQ(refused(RelativePoseTransform{"hand", "action", kXyzw}),
            "ValueError transforms[0].to: expected a key whose steps are all 0 or less, got "
            "'action'");
  EXPECT_EQ(refused(RelativePoseTransform{"action", "hand", kXyzw, 0, 0, 1}),
            "ValueError transforms[0].step: expected the step of 'hand' at offset 0, got 1");
  EXPECT_EQ(refused(RelativePoseTransform{"action", "hand", kXyzw, 0, 0, 3}),
            "ValueError transforms[0].step: expected the step of 'hand' at offset 0, got 3");
  EXPECT_EQ(refused(RelativePoseTransform{"action", "one", kXyzw, 0, 0, 7}), "no error");
  const auto delta = [](const char* key, const char* start, double time_step) {
    return DeltaTransform{key, start, DeltaDirection::kToDelta, time_step};
  };
  EXPECT_EQ(refused(delta("action", "hand", 1)), "no error");
  EXPECT_EQ(refused(delta("one", "hand", 1)),
            "ValueError transforms[0].key: expected one with an axis of steps, got 'one'");
  EXPECT_EQ(refused(delta("action", "joints", 1)),
            "ValueError transforms[0].start: expected rows [7] like 'action', got [3] of 'joints'");
  EXPECT_EQ(
      refused(delta("action", "hand", 0)),
      "ValueError transforms[0].time_step: expected a positive finite number of seconds, got 0");
  EXPECT_EQ(refused(delta("action", "hand", 1e-60)),  // in float32
            "ValueError transforms[0].time_step: expected a positive finite number of seconds, got "
            "1e-60");
  const auto scale = [](const char* key, std::vector<std::int64_t> shape,
                        std::vector<double> numbers) {
    NormalizeTransform made;
    made.normalization[key] = {std::move(shape), numbers, numbers};
    return made;
  };
  EXPECT_EQ(refused(scale("hand", {}, {2})), "no error");
  EXPECT_EQ(refused(NormalizeTransform{}), "no error");
  EXPECT_EQ(refused(scale("hand", {1, 1, 7}, std::vector<double>(7, 2))), "no error");
  EXPECT_EQ(refused(scale("number", {1}, {2})), "no error");
  EXPECT_EQ(refused(scale("nobody", {}, {2})),
            "ValueError transforms[0].normalization: expected a key of the batch, or several, got "
            "'nobody'");
  EXPECT_EQ(refused(scale("hand", {2}, {2, 2})),
            "ValueError transforms[0].normalization['hand']: expected a shape that fits the end of "
            "rows [7], got [2]");
  EXPECT_EQ(refused(scale("hand", {3}, {2, 2})),
            "ValueError transforms[0].normalization['hand'].subtract: expected [3] numbers, got 2");
  EXPECT_EQ(
      refused(scale("hand", {1}, {0})),
      "ValueError transforms[0].normalization['hand'].multiply: expected numbers that float32 "
      "is computed with, other than 0, got 0");
  EXPECT_EQ(
      refused(scale("hand", {1}, {1e-60})),
      "ValueError transforms[0].normalization['hand'].multiply: expected numbers that float32 "
      "is computed with, other than 0, got 1e-60");
  EXPECT_EQ(refused(scale("hand", {1}, {NAN})),
            "ValueError transforms[0].normalization['hand'].subtract: expected finite numbers, got "
            "nan");
}

}  // namespace
}  // namespace robocache::testing
