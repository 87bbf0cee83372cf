// The public headers as a caller meets them: what must compile, what must not, and what the build
// says of itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "robocache/align.h"
#include "robocache/build_info.h"
#include "robocache/error.h"
#include "robocache/tensor_view.h"
#include "robocache/version.h"

namespace robocache {
namespace {

// A view that may be written serves where one is read, and never the other way round.
static_assert(std::is_convertible_v<TensorView, ConstTensorView>);
static_assert(!std::is_convertible_v<ConstTensorView, TensorView>);
static_assert(!std::is_constructible_v<TensorView, ConstTensorView>);
static_assert(!std::is_assignable_v<TensorView&, ConstTensorView>);
static_assert(!std::is_constructible_v<TensorView, const float*, DataType,
                                       std::initializer_list<std::int64_t>>);
static_assert(std::is_constructible_v<ConstTensorView, const float*, DataType,
                                      std::initializer_list<std::int64_t>>);

template <typename ValuesOut, typename ValidOut, typename AgeOut>
constexpr bool kAlignTakes =
    std::is_invocable_v<decltype(&align), const Stream*, std::size_t, ConstTensorView, AlignOptions,
                        ValuesOut, ValidOut, AgeOut, ExecutionContext>;
static_assert(kAlignTakes<TensorView, TensorView, TensorView>);
static_assert(!kAlignTakes<ConstTensorView, TensorView, TensorView>);
static_assert(!kAlignTakes<TensorView, ConstTensorView, TensorView>);
static_assert(!kAlignTakes<TensorView, TensorView, ConstTensorView>);

template <typename GradValues>
constexpr bool kBackwardTakes =
    std::is_invocable_v<decltype(&align_backward), Stream, ConstTensorView, AlignOptions,
                        ConstTensorView, GradValues, Workspace, ExecutionContext>;
static_assert(kBackwardTakes<TensorView>);
static_assert(!kBackwardTakes<ConstTensorView>);

// A number alone does not say whether it is nanoseconds or seconds.
static_assert(!std::is_constructible_v<Duration, std::int64_t>);
static_assert(!std::is_constructible_v<Duration, double>);
static_assert(!std::is_default_constructible_v<Duration>);
static_assert(Duration::nanoseconds(5).is_nanoseconds() &&
              Duration::nanoseconds(5).nanoseconds() == 5);
static_assert(!Duration::seconds(0.5).is_nanoseconds() && Duration::seconds(0.5).seconds() == 0.5);

// Both come to Python as ValueError and TypeError; a failing device is another matter.
static_assert(std::is_base_of_v<std::invalid_argument, ValueError>);
static_assert(std::is_base_of_v<std::invalid_argument, TypeError>);
static_assert(!std::is_base_of_v<std::invalid_argument, DeviceError>);
static_assert(std::is_base_of_v<std::runtime_error, DeviceError>);

TEST(TensorView, IsRowMajor) {
  float elements[24];
  const TensorView view(elements, DataType::kFloat32, {2, 3, 4});
  EXPECT_EQ(view.rank, 3);
  EXPECT_EQ(view.strides[0], 12);
  EXPECT_EQ(view.strides[1], 4);
  EXPECT_EQ(view.strides[2], 1);
  const ConstTensorView read = view;
  EXPECT_EQ(read.data, elements);
  EXPECT_EQ(read.rank, 3);
  EXPECT_EQ(read.shape[1], 3);
  EXPECT_EQ(read.strides[1], 4);
}

TEST(TensorView, IsThereWithoutElementsButNotWithoutRank) {
  EXPECT_FALSE(ConstTensorView().present());
  EXPECT_TRUE(ConstTensorView(nullptr, DataType::kInt64, {0}).present());
  const std::int64_t number = 3;
  EXPECT_TRUE(ConstTensorView(&number, DataType::kInt64, {}).present());
}

TEST(TensorView, TakesTheTypeOfItsElements) {
  const double values[6] = {};
  std::int32_t counts[2];
  const ConstTensorView read = array(values, {3, 2});
  EXPECT_EQ(read.data, values);
  EXPECT_EQ(read.dtype, DataType::kFloat64);
  EXPECT_EQ(read.strides[0], 2);
  const TensorView written = array(counts, {2}, DeviceType::kCuda);
  EXPECT_EQ(written.dtype, DataType::kInt32);
  EXPECT_EQ(written.device, DeviceType::kCuda);
  static_assert(std::is_same_v<decltype(array(values, {6})), ConstTensorView>);
  static_assert(kDataTypeOf<bool> == DataType::kBool && kDataTypeOf<char> == DataType::kOther);
}

TEST(DataType, HasANameAndASize) {
  EXPECT_STREQ(name_of(DataType::kBFloat16), "bfloat16");
  EXPECT_STREQ(name_of(DataType::kInt16), "int16");
  EXPECT_STREQ(name_of(DataType::kOther), "another type");
  static_assert(size_of(DataType::kFloat16) == 2 && size_of(DataType::kBFloat16) == 2);
  static_assert(size_of(DataType::kFloat32) == 4 && size_of(DataType::kInt32) == 4);
  static_assert(size_of(DataType::kFloat64) == 8 && size_of(DataType::kInt64) == 8);
  static_assert(size_of(DataType::kUInt8) == 1 && size_of(DataType::kBool) == 1);
}

TEST(BuildInfo, IsWhatWasBuilt) {
  const nlohmann::json info = nlohmann::json::parse(build_info());
  EXPECT_EQ(info.at("version"), ROBOCACHE_VERSION);
  EXPECT_FALSE(info.at("compiler").get<std::string>().empty());
  const auto targets = info.at("cpu_targets").get<std::vector<std::string>>();
  EXPECT_EQ(targets.front(), "baseline");
  EXPECT_EQ(std::count(targets.begin(), targets.end(), info.at("cpu_target").get<std::string>()),
            1);
#if defined(ROBOCACHE_HAS_CUDA)
  EXPECT_TRUE(info.at("cuda").get<bool>());
#else
  EXPECT_FALSE(info.at("cuda").get<bool>());
  EXPECT_NE(cuda_problem(0).find("build without CUDA"), std::string::npos);
#endif
}

TEST(BuildInfo, ADeviceThatIsNotThereIsAProblem) { EXPECT_NE(cuda_problem(12345), ""); }

}  // namespace
}  // namespace robocache
