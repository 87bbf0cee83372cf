// The loader's batches against the sequential reference, on every engine: random streams, anchors
// and orders. A failure names its seed; `random_loader_problem(seed, wanted)` makes the same
// problem again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "align/engine_test.h"
#include "loader/engine.h"
#include "loader/reference.h"

namespace robocache::testing {
namespace {

class LoaderBatch : public TestOfEngines<LoaderEngine, loader_engine> {
 protected:
  std::uint64_t seed = 0;

  /// So many problems of a kind; stops at the first that goes wrong.
  void check(const LoaderWanted& wanted, std::uint64_t count) {
    for (const std::uint64_t end = seed + count; seed < end && !HasFailure(); ++seed) {
      const LoaderProblem problem = random_loader_problem(seed, wanted);
      Random random(seed);
      const std::vector<std::int64_t> indices =
          random_indices(problem, random.one_in(16) ? 0 : 1 + random.below(20), random);
      try {
        BatchResult result = engine().gather(problem, indices);
        EXPECT_EQ(check_batch(problem, indices, result), "") << "seed " << seed;
        EXPECT_TRUE(result.epoch.is_untouched(BatchResult::kGap)) << "seed " << seed;
      } catch (const std::exception& error) {
        ADD_FAILURE() << "seed " << seed << " threw " << error.what() << problem.text();
      }
    }
  }
};

TEST_P(LoaderBatch, AnyProblem) { check({}, 400); }

TEST_P(LoaderBatch, EveryPairOfValueTypes) {
  seed = 10'000;
  for (const DataType value_type : kValueTypes) {
    for (const DataType out_type : kValueTypes) {
      LoaderWanted wanted;
      wanted.value_type = value_type;
      wanted.out_type = out_type;
      check(wanted, 6);
    }
  }
}

TEST_P(LoaderBatch, EveryMethodByTime) {
  seed = 20'000;
  for (const Method method : kMethods) {
    for (const bool is_causal : {false, true}) {
      for (const DataType value_type : {DataType::kFloat32, DataType::kFloat64}) {
        LoaderWanted wanted;
        wanted.timeline = Timeline::kTime;
        wanted.method = method;
        wanted.is_causal = is_causal;
        wanted.value_type = value_type;
        wanted.out_type = value_type;
        check(wanted, 12);
      }
    }
  }
}

TEST_P(LoaderBatch, ByRow) {
  seed = 30'000;
  LoaderWanted wanted;
  wanted.timeline = Timeline::kRows;
  check(wanted, 150);
}

// Most policies train on float32 streams, which have a kernel of their own.
TEST_P(LoaderBatch, AllOfFloat32) {
  seed = 40'000;
  LoaderWanted wanted;
  wanted.value_type = DataType::kFloat32;
  wanted.out_type = DataType::kFloat32;
  wanted.is_relative = false;
  check(wanted, 150);
}

// So do rows that are copied, which may be wide.
TEST_P(LoaderBatch, RowsAsTheyAre) {
  seed = 80'000;
  LoaderWanted wanted;
  wanted.timeline = Timeline::kRows;
  wanted.is_copied = true;
  wanted.is_relative = false;
  for (const DataType type : {DataType::kFloat32, DataType::kFloat64, DataType::kUInt8}) {
    wanted.value_type = type;
    check(wanted, 30);
  }
}

TEST_P(LoaderBatch, ImagesWithColorsFirst) {
  seed = 70'000;
  for (const DataType out_type : kValueTypes) {
    LoaderWanted wanted;
    wanted.is_image = true;
    wanted.out_type = out_type;
    wanted.streams = 1;
    check(wanted, 20);
  }
}

// They have a kernel of their own by row, beside rows that are copied.
TEST_P(LoaderBatch, ImagesByRow) {
  seed = 75'000;
  for (const DataType out_type : kValueTypes) {
    LoaderWanted wanted;
    wanted.timeline = Timeline::kRows;
    wanted.is_image = true;
    wanted.is_copied = true;
    wanted.is_relative = false;
    wanted.value_type = DataType::kFloat32;
    wanted.out_type = out_type;
    check(wanted, 20);
  }
}

TEST_P(LoaderBatch, RelativeToOthers) {
  seed = 90'000;
  for (const std::optional<Timeline> timeline :
       {std::optional<Timeline>(), std::optional(Timeline::kTime),
        std::optional(Timeline::kRows)}) {
    LoaderWanted wanted;
    wanted.is_relative = true;
    wanted.streams = 3;
    wanted.timeline = timeline;
    check(wanted, 60);
    wanted.method = Method::kAngle;
    check(wanted, 30);
  }
}

TEST_P(LoaderBatch, RelativeOfEveryPairOfValueTypes) {
  seed = 95'000;
  for (const DataType value_type : kValueTypes) {
    for (const DataType out_type : kValueTypes) {
      if (out_type == DataType::kUInt8) continue;
      LoaderWanted wanted;
      wanted.is_relative = true;
      wanted.streams = 2;
      wanted.value_type = value_type;
      wanted.out_type = out_type;
      check(wanted, 6);
    }
  }
}

TEST_P(LoaderBatch, ManyStreams) {
  seed = 50'000;
  for (const int streams : {7, 20, kMaxStreams}) {
    LoaderWanted wanted;
    wanted.streams = streams;
    wanted.method = Method::kLinear;  // a call takes so many runs in all
    check(wanted, 3);
  }
}

/// Several epochs of a problem in the order of its drawing.
TEST_P(LoaderBatch, DrawsTheOrderOfEveryEpoch) {
  for (seed = 60'000; seed < 60'080 && !HasFailure(); ++seed) {
    const LoaderProblem problem = random_loader_problem(seed);
    const BatchPlan plan(problem.streams(), problem.anchors.view(), problem.episodes.view(),
                         problem.drawing(), on_cpu());
    Progress progress;
    std::vector<std::int64_t> sizes;
    std::vector<std::vector<std::int64_t>> expected;
    std::vector<std::int64_t> epochs;
    while (sizes.size() < 12) {
      epochs.push_back(progress.epoch);
      expected.push_back(expected_samples(problem, progress.epoch, progress.position));
      sizes.push_back(static_cast<std::int64_t>(expected.back().size()));
      EXPECT_EQ(plan.batch_size_at(progress.position), sizes.back());
      progress = expected_progress(problem, progress);
    }
    std::vector<std::int64_t> state(kBatchStateSize);
    std::vector<BatchResult> results = engine().next(problem, state, sizes);
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(check_batch(problem, expected[i], results[i]), "")
          << "seed " << seed << ", batch " << i;
      if (!problem.wants_metadata || sizes[i] == 0) continue;
      EXPECT_EQ(results[i].epoch.get_int(0), epochs[i]) << "seed " << seed << ", batch " << i;
    }
    EXPECT_EQ(state, (std::vector<std::int64_t>{progress.epoch, progress.position, 0, 0}))
        << "seed " << seed << problem.text();
  }
}

INSTANTIATE_ENGINES_OF(LoaderBatch, loader_engines);

/// The anchors that each rank takes in one epoch, in turn.
std::vector<std::vector<std::int64_t>> epoch_of_ranks(LoaderProblem problem, std::int64_t ranks,
                                                      std::int64_t epoch) {
  problem.order.ranks = ranks;
  std::vector<std::vector<std::int64_t>> taken(static_cast<std::size_t>(ranks));
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    problem.order.rank = rank;
    for (Progress progress{epoch, 0}; progress.epoch == epoch;
         progress = expected_progress(problem, progress)) {
      for (const std::int64_t index :
           expected_samples(problem, progress.epoch, progress.position)) {
        taken[static_cast<std::size_t>(rank)].push_back(index);
      }
    }
  }
  return taken;
}

TEST(LoaderOrder, RanksShareOutAnEpoch) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    LoaderWanted wanted;
    wanted.is_mixture = false;
    LoaderProblem problem = random_loader_problem(seed, wanted);
    problem.order.drop_last = false;
    const std::int64_t samples = problem.sample_count();
    for (std::int64_t ranks = 1; ranks <= std::min<std::int64_t>(samples, 5); ++ranks) {
      std::vector<std::int64_t> all;
      for (const std::vector<std::int64_t>& rank : epoch_of_ranks(problem, ranks, 3)) {
        EXPECT_FALSE(rank.empty());
        all.insert(all.end(), rank.begin(), rank.end());
      }
      std::sort(all.begin(), all.end());
      EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "an anchor came twice";
      const std::int64_t left_out = samples - static_cast<std::int64_t>(all.size());
      EXPECT_LT(left_out, ranks);
    }
  }
}

TEST(LoaderOrder, PermutesAnyNumber) {
  std::vector<std::int64_t> counts;
  for (std::int64_t count = 1; count <= 70; ++count) counts.push_back(count);
  for (const std::int64_t power : {128, 1024, 4096, 65536}) {
    counts.insert(counts.end(), {power - 1, power, power + 1});
  }
  for (const std::int64_t count : counts) {
    std::vector<bool> seen(static_cast<std::size_t>(count));
    for (std::int64_t place = 0; place < count; ++place) {
      const std::int64_t anchor = permuted(17, 4, count, place);
      ASSERT_GE(anchor, 0);
      ASSERT_LT(anchor, count);
      ASSERT_FALSE(seen[static_cast<std::size_t>(anchor)]) << count << " numbers";
      seen[static_cast<std::size_t>(anchor)] = true;
    }
  }
}

// Worked with NumPy from the description in permutation.h.
TEST(LoaderOrder, IsTheSameEverywhere) {
  const auto first = [](std::uint64_t seed, std::int64_t epoch, std::int64_t count) {
    std::vector<std::int64_t> anchors;
    for (std::int64_t place = 0; place < 6; ++place) {
      anchors.push_back(permuted(seed, epoch, count, place));
    }
    return anchors;
  };
  using Numbers = std::vector<std::int64_t>;
  EXPECT_EQ(first(0, 0, 10), (Numbers{9, 4, 1, 8, 6, 3}));
  EXPECT_EQ(first(7, 3, 1000), (Numbers{261, 844, 767, 655, 335, 93}));
  EXPECT_EQ(first((std::uint64_t{1} << 63) + 5, 1, 100000),
            (Numbers{94346, 20932, 40678, 98338, 67584, 79911}));
  const std::int64_t many = (std::int64_t{1} << 40) + 12345;
  EXPECT_EQ(permuted(1, 2, many, 0), 569372321040);
  EXPECT_EQ(permuted(1, 2, many, std::int64_t{1} << 40), 614283173798);
  const std::int64_t most = std::int64_t{1} << 62;
  EXPECT_LT(permuted(1, 2, most, most - 1), most);
}

// Over many seeds, each anchor comes to each place about equally often: within six standard
// deviations.
TEST(LoaderOrder, SpreadsEvenly) {
  constexpr std::int64_t kSeeds = 20'000;
  for (const std::int64_t count : {2, 3, 7, 10, 16, 33}) {
    std::vector<std::int64_t> times(static_cast<std::size_t>(count * count));
    for (std::int64_t seed = 0; seed < kSeeds; ++seed) {
      for (std::int64_t place = 0; place < count; ++place) {
        ++times[static_cast<std::size_t>(
            place * count + permuted(static_cast<std::uint64_t>(seed), 0, count, place))];
      }
    }
    const double mean = static_cast<double>(kSeeds) / static_cast<double>(count);
    for (const std::int64_t came : times) {
      EXPECT_NEAR(static_cast<double>(came), mean, 6 * std::sqrt(mean)) << count << " anchors";
    }
  }
}

/// The draws of the first epochs of a mixture, in order. Part m has `anchors[m]` anchors.
std::vector<std::int64_t> draws_of(const std::vector<std::int64_t>& anchors,
                                   const std::vector<std::uint64_t>& thresholds, std::uint64_t seed,
                                   std::int64_t samples, std::int64_t epochs) {
  std::vector<std::int64_t> parts{0};
  for (const std::int64_t count : anchors) parts.push_back(parts.back() + count);
  const Tensor all(DataType::kInt64, {parts.back(), 2});
  const Tensor episodes(DataType::kInt64, {1, 4});
  BatchOrder order;
  order.seed = seed;
  order.batch_size = order.samples = samples;
  order.parts = array(parts.data(), {static_cast<std::int64_t>(parts.size())});
  order.thresholds = ConstTensorView(thresholds.data(), DataType::kInt64,
                                     {static_cast<std::int64_t>(thresholds.size())});
  const BatchPlan plan({}, all.view(), episodes.view(), order, on_cpu());
  std::vector<std::int64_t> drawn(static_cast<std::size_t>(samples * epochs));
  std::int64_t state[kBatchStateSize] = {};
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    BatchMetadata metadata;
    metadata.index = drawn.data() + epoch * samples;
    plan.next(state, samples, nullptr, metadata, on_cpu());
  }
  return drawn;
}

// Parts come as often as they weigh, and their anchors equally often: within six standard
// deviations.
TEST(LoaderOrder, MixturesDrawByWeight) {
  constexpr std::int64_t kSamples = 100'000;
  const std::vector<std::int64_t> anchors{5, 1, 0, 40};
  const std::uint64_t half = std::uint64_t{1} << 63;
  const std::vector<double> shares{0.25, 0.25, 0, 0.5};
  std::vector<std::int64_t> times(46);
  for (const std::int64_t index :
       draws_of(anchors, {half / 2, half, half, ~std::uint64_t{0}}, 11, kSamples / 4, 4)) {
    ++times[static_cast<std::size_t>(index)];
  }
  std::size_t index = 0;
  for (std::size_t m = 0; m < anchors.size(); ++m) {
    const double mean = shares[m] * kSamples / std::max(static_cast<double>(anchors[m]), 1.0);
    for (std::int64_t i = 0; i < anchors[m]; ++i, ++index) {
      EXPECT_NEAR(static_cast<double>(times[index]), mean, 6 * std::sqrt(mean)) << index;
    }
  }
}

TEST(LoaderOrder, MixturesAreTheSameEverywhere) {
  using Numbers = std::vector<std::int64_t>;
  EXPECT_EQ(draws_of({1000, 10, 7}, {std::uint64_t{1} << 62, std::uint64_t{3} << 62, 0}, 5, 8, 2),
            (Numbers{1006, 1001, 1002, 1000, 144, 1001, 1015, 1007, 322, 1016, 1003, 70, 1002, 1008,
                     1000, 1006}));
}

TEST(LoaderOrder, EpochsDiffer) {
  std::int64_t same = 0;
  for (std::int64_t place = 0; place < 1000; ++place) {
    same += permuted(5, 0, 1000, place) == permuted(5, 1, 1000, place) ? 1 : 0;
  }
  EXPECT_LT(same, 10);
}

}  // namespace
}  // namespace robocache::testing
