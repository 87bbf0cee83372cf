#include "support/check.h"

#include <cmath>
#include <exception>
#include <sstream>
#include <vector>

#include "align/random_problem.h"
#include "align/reference.h"
#include "support/numbers.h"

namespace robocache::testing {
namespace {

constexpr unsigned char kGap = 0xA5;  // what the memory between an output's elements holds

std::string difference(const std::string& what, std::int64_t index, double low, double high,
                       double got) {
  std::ostringstream text;
  text.precision(17);
  text << what << " at " << index << ": expected " << low;
  if (!is_same_number(low, high)) text << " to " << high;
  text << ", got " << got;
  return text.str();
}

/// `got` may be absent.
std::string compare_ages(const Tensor& expected, const Tensor& got) {
  for (std::int64_t i = 0; i < got.size(); ++i) {
    if (got.type() == DataType::kInt64) {
      if (expected.get_int(i) == got.get_int(i)) continue;
      return "age at " + std::to_string(i) + ": expected " + std::to_string(expected.get_int(i)) +
             ", got " + std::to_string(got.get_int(i));
    }
    const double age = expected.get(i);
    if (!is_same_number(age, got.get(i))) return difference("age", i, age, age, got.get(i));
  }
  return "";
}

}  // namespace

std::string check_alignment(const Engine& engine, Problem& problem) {
  problem.values_out.fill_bytes(kGap);
  problem.valid_out.fill_bytes(kGap);
  problem.age_out.fill_bytes(kGap);
  try {
    engine.align(problem.views(), problem.target_times.view(), problem.options,
                 problem.values_out.view(), problem.valid_out.view(), problem.age_out.view());
  } catch (const std::exception& error) {
    return std::string("threw ") + error.what() + problem.text();
  }
  const Expected expected = expected_alignment(problem.views(), problem.target_times.view(),
                                               problem.options.outside, problem.values_out.type());
  for (std::int64_t i = 0; i < problem.values_out.size(); ++i) {
    const double got = problem.values_out.get(i);
    const double low = expected.low[i];
    const double high = expected.high[i];
    const bool fits =
        is_same_number(low, high) ? is_same_number(got, low) : low <= got && got <= high;
    if (!fits) return difference("values", i, low, high, got) + problem.text();
  }
  for (std::int64_t i = 0; i < problem.valid_out.size(); ++i) {
    const double valid = expected.valid[i] ? 1 : 0;
    const double got = problem.valid_out.get(i);
    if (got != valid) return difference("valid", i, valid, valid, got) + problem.text();
  }
  const std::string wrong_age = compare_ages(expected.age, problem.age_out);
  if (!wrong_age.empty()) return wrong_age + problem.text();
  if (!problem.values_out.has_only_gaps_of(kGap) || !problem.valid_out.has_only_gaps_of(kGap) ||
      !problem.age_out.has_only_gaps_of(kGap)) {
    return "wrote between the elements of an output" + problem.text();
  }
  return "";
}

std::string check_gradient(const Engine& engine, const Problem& problem, std::uint64_t seed) {
  Random random(seed);
  const StreamData& data = problem.streams[0];
  Tensor grad_output = random_tensor(problem.values_out.type(), problem.values_out.shape(), random);
  fill_at_random(grad_output, random, 1);
  Tensor grad_values(data.values.type(), data.values.shape());
  Stream stream = data.stream();
  // Values are read for slerp alone: elsewhere a null pointer must do.
  const bool reads_values = data.has_slerp();
  if (!reads_values) stream.values.data = nullptr;
  std::string text = problem.text() + "\n  grad_output " + grad_output.text();
  try {
    for (const unsigned char before : {kGap, static_cast<unsigned char>(~kGap)}) {
      const std::vector<unsigned char> last = grad_values.bytes();
      grad_values.fill_bytes(before);
      engine.align_backward(stream, problem.target_times.view(), problem.options,
                            grad_output.view(), grad_values.view());
      if (before != kGap && last != grad_values.bytes()) {
        return "a second run gave other bits, or left elements as they were" + text;
      }
    }
  } catch (const std::exception& error) {
    return std::string("threw ") + error.what() + text;
  }

  const std::vector<double> expected = expected_gradient(
      data.stream(), problem.target_times.view(), problem.options.outside, grad_output.view());
  const double unit =
      data.values.type() == DataType::kFloat16    ? 0x1p-10
      : data.values.type() == DataType::kBFloat16 ? 0x1p-7
      : data.values.type() == DataType::kFloat64 || grad_output.type() == DataType::kFloat64 ? 1e-8
                                                                                             : 1e-4;
  const std::vector<Run> runs = data.runs();
  const std::int64_t channels = data.values.shape().back();
  std::int64_t index = 0;
  while (index < grad_values.size()) {
    std::int64_t first = 0;
    for (const Run& run : runs) {
      for (std::int64_t c = first; c < first + run.channels; ++c, ++index) {
        const double got = grad_values.get(index);
        const double slack = is_slerp(run.method) ? unit * (1 + std::fabs(expected[index])) : 0;
        const bool fits =
            is_same_number(got, expected[index]) || std::fabs(got - expected[index]) < slack;
        if (!fits) {
          return difference("gradient", index, expected[index] - slack, expected[index] + slack,
                            got) +
                 text;
        }
      }
      first += run.channels;
    }
    if (channels == 0) break;
  }
  return "";
}

}  // namespace robocache::testing
