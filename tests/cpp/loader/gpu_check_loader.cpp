// Batches of the loader, and input that CUDA does not look at.
#include <cstdint>
#include <exception>
#include <limits>
#include <string>
#include <vector>

#include "loader/engine.h"
#include "loader/reference.h"
#include "support/gpu_check.h"
#include "support/random.h"

namespace robocache::testing {

/// Batches of the loader against its reference: streams of float32 alone and of any type, few and
/// many, copied, relative and neither, by indices and by a state that moves on.
void check_loader() {
  const LoaderEngine& cuda = loader_engine("cuda");
  for (std::uint64_t seed = 87'000; seed < 87'076; ++seed) {
    const std::string what = "loader, seed " + std::to_string(seed);
    LoaderWanted wanted;
    if (seed % 3 == 0) wanted.value_type = wanted.out_type = DataType::kFloat32;
    if (seed % 6 == 0) wanted.method = Method::kLinear;
    if (seed % 10 == 0) wanted.streams = 9;
    wanted.is_image = seed % 7 == 0;
    wanted.is_relative = seed % 5 == 2;
    if (seed % 4 == 1) {
      wanted.is_copied = true;
      wanted.timeline = Timeline::kRows;
      wanted.is_image = false;
    }
    if (seed >= 87'060) {  // images by row beside rows that are copied
      wanted = {};
      wanted.value_type = DataType::kFloat32;
      wanted.timeline = Timeline::kRows;
      wanted.is_relative = false;
      wanted.is_image = wanted.is_copied = true;
    }
    const LoaderProblem problem = random_loader_problem(seed, wanted);
    Random random(seed);
    const std::vector<std::int64_t> indices = random_indices(problem, random.below(40), random);
    try {
      BatchResult gathered = cuda.gather(problem, indices);
      check(what, check_batch(problem, indices, gathered));
      const std::vector<std::int64_t> drawn = expected_samples(problem, 0, 0);
      std::vector<std::int64_t> state(kBatchStateSize);
      std::vector<BatchResult> next =
          cuda.next(problem, state, {static_cast<std::int64_t>(drawn.size())});
      check(what, check_batch(problem, drawn, next[0]));
      const Progress after = expected_progress(problem, {});
      const bool is_after = state == std::vector<std::int64_t>{after.epoch, after.position, 0, 0};
      check(what, is_after ? "" : "the state is not what it is to be" + problem.text());
    } catch (const std::exception& error) {
      fail(what, error.what() + problem.text());
    }
  }
}

/// Indices, anchors, offsets, times and reference columns in no order and out of range, which CUDA
/// does not look at.
void check_bad_loader_input() {
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
  for (std::uint64_t seed = 88'000; seed < 88'030; ++seed) {
    LoaderWanted wanted;
    wanted.has_begins = false;  // these say where to read
    wanted.is_relative = seed % 2 == 0;
    LoaderProblem problem = random_loader_problem(seed, wanted);
    Random random(seed);
    const auto spoil = [&random](Tensor& tensor) {
      for (std::int64_t i = 0; i < tensor.size(); ++i) {
        if (random.one_in(2)) {
          tensor.set_int(i, random.pick<std::int64_t>({kLowest, -1, 0, 1, 20, 9999, kHighest}));
        }
      }
    };
    for (WindowData& window : problem.windows) {
      for (Tensor* tensor :
           {&window.times, &window.received, &window.row_offsets, &window.window_offsets}) {
        spoil(*tensor);
      }
      Tensor& columns = window.reference_columns;
      for (std::int64_t c = 0; c < columns.size(); ++c) {
        columns.set(c, random.pick<double>({-9, -1, 0, 1, 3, 99999}));
      }
    }
    if (seed % 2 == 0) spoil(problem.anchors);
    if (seed % 3 == 0) {
      spoil(problem.parts);
      spoil(problem.thresholds);
    }
    Tensor indices(DataType::kInt64, {20});
    Tensor state(DataType::kInt64, {kBatchStateSize});
    spoil(indices);
    for (const std::int64_t i : {0, 1}) {
      state.set_int(i, random.pick<std::int64_t>({kLowest, -1, 5, kHighest}));
    }
    const auto numbers = [](const Tensor& tensor) {
      std::vector<std::int64_t> numbers;
      for (std::int64_t i = 0; i < tensor.size(); ++i) numbers.push_back(tensor.get_int(i));
      return numbers;
    };
    try {
      loader_engine("cuda").gather(problem, numbers(indices));
      std::vector<std::int64_t> drawing = numbers(state);
      loader_engine("cuda").next(problem, drawing, {7, 0, 3});
    } catch (const std::exception& error) {
      fail("bad loader input, seed " + std::to_string(seed), error.what() + problem.text());
    }
  }
}

}  // namespace robocache::testing
