// The golden cases of alignment.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "align/engine_test.h"
#include "align/problem.h"
#include "support/check.h"
#include "support/golden.h"
#include "support/numbers.h"

namespace robocache::testing {
namespace {

/// Null is absent.
std::optional<Duration> duration_of(const Json& json, DataType time_type) {
  if (json.is_null()) return std::nullopt;
  return time_type == DataType::kInt64 ? Duration::nanoseconds(json.get<std::int64_t>())
                                       : Duration::seconds(number_of(json));
}

/// The type of a pair of types that C++ callers convert to themselves: of times, or of the values
/// and the output.
DataType wider(DataType a, DataType b, DataType narrow) {
  return a == DataType::kFloat64 || b == DataType::kFloat64 ? DataType::kFloat64 : narrow;
}

Outside outside_of(const Json& json) {
  const std::map<std::string, Outside> outsides = {{"hold", Outside::kHold},
                                                   {"zero", Outside::kZero},
                                                   {"nan", Outside::kNan},
                                                   {"extrapolate", Outside::kExtrapolate}};
  return lookup(outsides, json.at("outside"));
}

void set_layout(StreamData& data, const Json& layout) {
  const std::map<std::string, Method> methods = {{"linear", Method::kLinear},
                                                 {"previous", Method::kPrevious},
                                                 {"nearest", Method::kNearest},
                                                 {"slerp_xyzw", Method::kSlerpXyzw},
                                                 {"slerp_wxyz", Method::kSlerpWxyz},
                                                 {"angle", Method::kAngle},
                                                 {"mean", Method::kMean},
                                                 {"sum", Method::kSum}};
  for (const Json& run : layout) {
    data.layout.push_back({lookup(methods, run.at(0)), run.at(1).get<std::int64_t>()});
  }
  if (data.layout.size() == 1) {  // one method for all channels, be there none
    data.method = data.layout[0].method;
    data.layout.clear();
  }
}

/// Sets the options of a stream, which both kinds of cases have; its values and times are set.
void set_options(StreamData& data, const Json& json, DataType out_type) {
  const DataType compute = wider(data.values.type(), out_type, DataType::kFloat32);
  data.subtract = tensor_of(json.at("subtract"), compute);
  data.multiply = tensor_of(json.at("multiply"), compute);
  set_layout(data, json.at("layout"));
  data.max_gap = duration_of(json.at("max_gap"), data.times.type());
  data.tolerance = duration_of(json.at("tolerance"), data.times.type());
}

/// A case of cases.json.
Problem resampling_problem(const Json& json) {
  Problem problem;
  StreamData data;
  data.values = tensor_of(json.at("values"));
  const DataType source = type_of(json, "source_times");
  const DataType time_type = wider(source, type_of(json, "target_times"), source);
  data.times = tensor_of(json.at("source_times"), time_type);
  problem.target_times = tensor_of(json.at("target_times"), time_type);
  data.lengths = tensor_of(json.at("source_lengths"));
  data.valid = tensor_of(json.at("source_valid"));
  const DataType out_type = type_of(json, "expected");
  set_options(data, json, out_type);
  problem.options.outside = outside_of(json);
  problem.streams.push_back(data);

  problem.values_out = Tensor(out_type, json.at("expected").at("shape"));
  auto mask_shape = json.at("valid").at("shape").get<std::vector<std::int64_t>>();
  mask_shape.push_back(1);  // one stream
  problem.valid_out = Tensor(DataType::kBool, mask_shape);
  return problem;
}

/// A case of fuse.json.
Problem fusion_problem(const Json& json) {
  Problem problem;
  DataType time_type = type_of(json, "target_times");
  for (const Json& stream : json.at("streams")) {
    time_type = wider(time_type, type_of(stream, "times"), time_type);
  }
  problem.target_times = tensor_of(json.at("target_times"), time_type);
  problem.options.outside = outside_of(json);
  const DataType out_type = type_of(json, "expected");
  for (const Json& stream : json.at("streams")) {
    StreamData& data = problem.streams.emplace_back();
    data.values = tensor_of(stream.at("values"));
    data.times = tensor_of(stream.at("times"), time_type);
    data.lengths = tensor_of(stream.at("lengths"));
    data.valid = tensor_of(stream.at("valid"));
    set_options(data, stream, out_type);
    data.mean_window = duration_of(stream.at("mean_window"), time_type);
    data.clock_offset = duration_of(stream.at("clock_offset"), time_type);
  }
  problem.values_out = Tensor(out_type, json.at("expected").at("shape"));
  problem.valid_out = Tensor(DataType::kBool, json.at("valid").at("shape"));
  problem.age_out = Tensor(time_type, json.at("valid").at("shape"));
  return problem;
}

class Golden : public EngineTest {
 protected:
  static void check(const Json& json, Problem problem) {
    const Tensor expected = tensor_of(json.at("expected"));
    const Tensor valid = tensor_of(json.at("valid"));
    engine().align(problem.views(), problem.target_times.view(), problem.options,
                   problem.values_out.view(), problem.valid_out.view(), problem.age_out.view());
    const double atol = json.at("atol");
    for (std::int64_t i = 0; i < expected.size(); ++i) {
      const double got = problem.values_out.get(i);
      EXPECT_TRUE(is_same_number(got, expected.get(i)) || std::fabs(got - expected.get(i)) <= atol)
          << "element " << i << ": expected " << expected.get(i) << ", got " << got;
    }
    for (std::int64_t i = 0; i < valid.size(); ++i) {
      EXPECT_EQ(problem.valid_out.get(i), valid.get(i)) << "mask " << i;
    }
    if (json.contains("age") && !json.at("age").is_null()) check_age(json.at("age"), problem);
    // The reference is held to the same cases.
    EXPECT_EQ(check_alignment(engine(), problem), "");
  }

 private:
  static void check_age(const Json& json, const Problem& problem) {
    const Tensor age = tensor_of(json);
    ASSERT_EQ(age.type(), problem.age_out.type());
    for (std::int64_t i = 0; i < age.size(); ++i) {
      if (age.type() == DataType::kInt64) {
        EXPECT_EQ(problem.age_out.get_int(i), age.get_int(i)) << "age " << i;
      } else {
        EXPECT_EQ(problem.age_out.get(i), age.get(i)) << "age " << i;
      }
    }
  }
};

TEST_P(Golden, EveryCase) {
  const Json cases = cases_of("cases.json");
  ASSERT_FALSE(cases.empty());
  for (const Json& json : cases) {
    SCOPED_TRACE(json.at("name").get<std::string>() + ": " + json.at("reason").get<std::string>());
    check(json, resampling_problem(json));
  }
}

TEST_P(Golden, EveryCaseOfFusion) {
  const Json cases = cases_of("fuse.json");
  ASSERT_FALSE(cases.empty());
  for (const Json& json : cases) {
    SCOPED_TRACE(json.at("name").get<std::string>() + ": " + json.at("reason").get<std::string>());
    check(json, fusion_problem(json));
  }
}

INSTANTIATE_ENGINES(Golden);

}  // namespace
}  // namespace robocache::testing
