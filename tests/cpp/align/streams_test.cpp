// Several streams in one call, and the same rows laid out in different ways.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "align/engine_test.h"
#include "align/problem.h"
#include "align/random_problem.h"
#include "support/check.h"
#include "support/numbers.h"

namespace robocache::testing {
namespace {

class Streams : public EngineTest {
 protected:
  static void run(Problem& problem) {
    engine().align(problem.views(), problem.target_times.view(), problem.options,
                   problem.values_out.view(), problem.valid_out.view(), problem.age_out.view());
  }

  /// Runs both and compares their outputs, which are contiguous, by bits.
  static void expect_same_output(Problem& one, Problem& other) {
    run(one);
    run(other);
    EXPECT_EQ(one.values_out.bytes(), other.values_out.bytes());
    EXPECT_EQ(one.valid_out.bytes(), other.valid_out.bytes());
    EXPECT_EQ(one.age_out.bytes(), other.age_out.bytes());
  }
};

TEST_P(Streams, AnyStreamsSideBySide) {
  for (std::uint64_t seed = 50'000; seed < 50'150 && !HasFailure(); ++seed) {
    Wanted wanted;
    wanted.streams = 2 + static_cast<int>(seed % 4);
    Problem problem = random_problem(seed, wanted);
    const std::string wrong = check_alignment(engine(), problem);
    EXPECT_EQ(wrong, "") << "seed " << seed;
  }
}

TEST_P(Streams, EachIsAsItWouldBeAlone) {
  for (std::uint64_t seed = 51'000; seed < 51'040; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Wanted wanted;
    wanted.streams = 3;
    wanted.out_type = DataType::kFloat32;
    Problem together = random_problem(seed, wanted);
    run(together);
    const std::vector<std::int64_t> shape = together.values_out.shape();
    const std::int64_t columns = shape.back();
    std::int64_t column = 0;
    for (std::size_t i = 0; i < together.streams.size(); ++i) {
      Problem alone;
      alone.streams.push_back(together.streams[i]);
      // Targets with the batch of all streams, so that a stream without one has it too.
      alone.target_times = together.target_times;
      alone.options = together.options;
      const AlignedShape own = aligned_shape(alone.views().data(), 1, alone.target_times.view(),
                                             alone.options, DataType::kFloat32, on_cpu());
      const std::int64_t batch = shape.size() == 3 ? shape[0] : 1;
      const std::vector<std::int64_t> own_shape =
          own.is_batched ? std::vector<std::int64_t>{own.batch, own.targets, own.channels}
                         : std::vector<std::int64_t>{own.targets, own.channels};
      alone.values_out = Tensor(DataType::kFloat32, own_shape);
      std::vector<std::int64_t> column_shape = own_shape;
      column_shape.back() = 1;
      alone.age_out = Tensor(alone.target_times.type(), column_shape);
      alone.valid_out = Tensor(DataType::kBool, column_shape);
      run(alone);
      for (std::int64_t b = 0; b < batch; ++b) {
        for (std::int64_t t = 0; t < own.targets; ++t) {
          for (std::int64_t c = 0; c < own.channels; ++c) {
            const std::int64_t own_row = (own.is_batched ? b : 0) * own.targets + t;
            const double expected = alone.values_out.get(own_row * own.channels + c);
            const double got =
                together.values_out.get((b * own.targets + t) * columns + column + c);
            // A NaN may be any NaN.
            ASSERT_TRUE(expected == got || (expected != expected && got != got))
                << "stream " << i << " at [" << b << "," << t << "," << c << "]";
          }
        }
      }
      const Tensor& masks = together.valid_out;
      const Tensor& ages = together.age_out;
      const auto count = static_cast<std::int64_t>(together.streams.size());
      for (std::int64_t row = 0; row < batch * own.targets; ++row) {
        const std::int64_t own_row = own.is_batched ? row : row % own.targets;
        const auto index = row * count + static_cast<std::int64_t>(i);
        if (masks.present()) {
          ASSERT_EQ(alone.valid_out.get(own_row), masks.get(index)) << "stream " << i;
        }
        if (!ages.present()) continue;
        if (ages.type() == DataType::kInt64) {
          ASSERT_EQ(alone.age_out.get_int(own_row), ages.get_int(index)) << "stream " << i;
        } else {
          ASSERT_TRUE(is_same_number(alone.age_out.get(own_row), ages.get(index)))
              << "stream " << i;
        }
      }
      column += own.channels;
    }
  }
}

/// A dense problem with lengths: [B,S,D] values of channels that four methods combine.
Problem dense_problem(std::uint64_t seed, DataType value_type) {
  constexpr std::int64_t kBatch = 3;
  constexpr std::int64_t kRows = 17;
  constexpr std::int64_t kTargets = 29;
  Random random(seed);
  Problem problem;
  StreamData data;
  data.values = Tensor(value_type, {kBatch, kRows, 7});
  fill_at_random(data.values, random, 3);
  data.times = Tensor(DataType::kInt64, {kBatch, kRows});
  data.valid = Tensor(DataType::kBool, {kBatch, kRows});
  for (std::int64_t b = 0; b < kBatch; ++b) {
    std::int64_t time = random.below(5);
    for (std::int64_t row = b * kRows; row < (b + 1) * kRows; ++row) {
      data.times.set_int(row, time += random.below(4));
      data.valid.set(row, random.one_in(4) ? 0 : 1);
    }
  }
  data.lengths = Tensor(DataType::kInt64, {kBatch}, {17, 0, 9});
  data.layout = {
      {Method::kLinear, 1}, {Method::kMean, 1}, {Method::kSlerpXyzw, 4}, {Method::kNearest, 1}};
  data.mean_window = Duration::nanoseconds(5);
  data.clock_offset = Duration::nanoseconds(-1);
  data.max_gap = Duration::nanoseconds(2);
  problem.streams.push_back(data);
  problem.target_times = Tensor(DataType::kInt64, {kBatch, kTargets});
  for (std::int64_t i = 0; i < kBatch * kTargets; ++i) {
    problem.target_times.set_int(i, random.below(40) - 2);
  }
  problem.values_out = Tensor(value_type, {kBatch, kTargets, 7});
  problem.valid_out = Tensor(DataType::kBool, {kBatch, kTargets, 1});
  problem.age_out = Tensor(DataType::kInt64, {kBatch, kTargets, 1});
  return problem;
}

TEST_P(Streams, RaggedRowsAreAsDenseOnes) {
  for (const DataType value_type : {DataType::kFloat16, DataType::kFloat32, DataType::kFloat64}) {
    Problem dense = dense_problem(52'000, value_type);
    const StreamData& from = dense.streams[0];
    // The episodes of `dense` in another order in memory, with rows of no episode between them.
    Problem ragged = dense;
    StreamData& to = ragged.streams[0];
    const std::int64_t begins[] = {12, 5, 1};
    constexpr std::int64_t kRows = 30;
    to.values = Tensor(value_type, {kRows, 7});
    to.times = Tensor(DataType::kInt64, {kRows});
    to.valid = Tensor(DataType::kBool, {kRows});
    to.begins = Tensor(DataType::kInt64, {3});
    for (std::int64_t row = 0; row < kRows; ++row) to.times.set_int(row, 1000 - row);
    for (std::int64_t b = 0; b < 3; ++b) {
      to.begins.set_int(b, begins[b]);
      for (std::int64_t i = 0; i < from.lengths.get_int(b); ++i) {
        const std::int64_t source = b * 17 + i;
        const std::int64_t row = begins[b] + i;
        for (std::int64_t c = 0; c < 7; ++c) {
          to.values.set(row * 7 + c, from.values.get(source * 7 + c));
        }
        to.times.set_int(row, from.times.get_int(source));
        to.valid.set(row, from.valid.get(source));
      }
    }
    expect_same_output(dense, ragged);
  }
}

TEST_P(Streams, SharedArgumentsAreAsRepeatedOnes) {
  Problem shared = dense_problem(53'000, DataType::kFloat32);
  StreamData& data = shared.streams[0];
  const auto first_of = [](const Tensor& tensor, const std::vector<std::int64_t>& shape) {
    Tensor first(tensor.type(), shape);
    for (std::int64_t i = 0; i < first.size(); ++i) {
      if (tensor.type() == DataType::kInt64) {
        first.set_int(i, tensor.get_int(i));
      } else {
        first.set(i, tensor.get(i));
      }
    }
    return first;
  };
  data.values = first_of(data.values, {17, 7});
  data.times = first_of(data.times, {17});
  data.valid = first_of(data.valid, {17});
  shared.target_times = first_of(shared.target_times, {29});

  Problem repeated = shared;
  const auto repeat = [](const Tensor& tensor) {
    std::vector<std::int64_t> shape = tensor.shape();
    shape.insert(shape.begin(), 3);
    Tensor all(tensor.type(), shape);
    for (std::int64_t i = 0; i < all.size(); ++i) {
      if (tensor.type() == DataType::kInt64) {
        all.set_int(i, tensor.get_int(i % tensor.size()));
      } else {
        all.set(i, tensor.get(i % tensor.size()));
      }
    }
    return all;
  };
  StreamData& each = repeated.streams[0];
  each.values = repeat(each.values);
  each.times = repeat(each.times);
  each.valid = repeat(each.valid);
  repeated.target_times = repeat(repeated.target_times);
  expect_same_output(shared, repeated);
}

TEST_P(Streams, AsManyAsACallTakes) {
  for (std::uint64_t seed = 54'000; seed < 54'012 && !HasFailure(); ++seed) {
    Wanted wanted;
    wanted.streams = seed % 2 == 0 ? kMaxStreams : 9 + static_cast<int>(seed % 50);
    if (seed % 3 == 0) wanted.is_differentiable = true;  // no NaN, nothing ragged beside it
    Problem problem = random_problem(seed, wanted);
    const std::string wrong = check_alignment(engine(), problem);
    EXPECT_EQ(wrong, "") << "seed " << seed;
  }
}

// Single channels beside thousands: most streams' columns begin somewhere within 16 bytes.
TEST_P(Streams, WideOnesBesideNarrowOnes) {
  for (std::uint64_t seed = 55'000; seed < 55'012 && !HasFailure(); ++seed) {
    Wanted wanted;
    wanted.streams = 2 + static_cast<int>(seed % 4);
    wanted.is_wide = true;
    Problem problem = random_problem(seed, wanted);
    const std::string wrong = check_alignment(engine(), problem);
    EXPECT_EQ(wrong, "") << "seed " << seed;
  }
}

// Streams that CUDA moves 16 bytes at a time, unless their columns of the output are unaligned.
TEST_P(Streams, ContiguousOnesAtAnyColumn) {
  std::uint64_t seed = 56'000;
  for (const DataType out_type : kValueTypes) {
    for (const std::int64_t first_width : {1, 2, 3, 5, 8, 13, 16}) {
      Wanted wanted;
      wanted.streams = 3;
      wanted.is_vectorized = true;
      wanted.out_type = out_type;
      Problem problem = random_problem(++seed, wanted);
      StreamData& first = problem.streams[0];
      std::vector<std::int64_t> shape = first.values.shape();
      std::vector<std::int64_t> out_shape = problem.values_out.shape();
      out_shape.back() += first_width - shape.back();
      shape.back() = first_width;
      first.method = Method::kNearest;
      first.values = Tensor(first.values.type(), shape);
      first.subtract = {};
      first.multiply = {};
      Random random(seed);
      fill_at_random(first.values, random, 5);
      problem.values_out = Tensor(out_type, out_shape);
      ASSERT_EQ(check_alignment(engine(), problem), "") << "seed " << seed;
    }
  }
}

// Columns of one array as streams of their own, where they lie.
TEST_P(Streams, ColumnsOfOneArray) {
  Problem whole = dense_problem(57'000, DataType::kFloat32);
  const StreamData& data = whole.streams[0];
  std::vector<Stream> streams;
  std::int64_t first = 0;
  for (const robocache::Run& run : data.runs()) {
    Stream part = data.stream();
    part.layout.clear();
    part.method = run.method;
    if (run.method != Method::kMean) part.mean_window.reset();
    part.values.shape[2] = run.channels;
    part.values.data = static_cast<const float*>(part.values.data) + first;
    first += run.channels;
    streams.push_back(part);
  }
  const std::vector<std::int64_t> shape = whole.values_out.shape();
  Tensor out(DataType::kFloat32, shape);
  const auto count = static_cast<std::int64_t>(streams.size());
  Tensor mask(DataType::kBool, {shape[0], shape[1], count});
  engine().align(streams, whole.target_times.view(), whole.options, out.view(), mask.view());
  run(whole);
  EXPECT_EQ(out.bytes(), whole.values_out.bytes());
  for (std::int64_t i = 0; i < whole.valid_out.size(); ++i) {
    bool all = true;
    for (std::int64_t k = 0; k < count; ++k) all = all && mask.get(i * count + k) != 0;
    EXPECT_EQ(whole.valid_out.get(i), all ? 1 : 0) << "one mask serves the row";
  }
}

INSTANTIATE_ENGINES(Streams);

}  // namespace
}  // namespace robocache::testing
