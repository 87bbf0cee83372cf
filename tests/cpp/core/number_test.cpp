// Conversions between the value types, seen through `align` at targets that hit a row each: every
// 16-bit number widened, and every boundary between two of them rounded to, on every engine.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "align/engine_test.h"
#include "align/problem.h"
#include "support/numbers.h"
#include "support/random.h"

namespace robocache::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

float next_below(float x) { return std::nextafter(x, -std::numeric_limits<float>::infinity()); }
float next_above(float x) { return std::nextafter(x, std::numeric_limits<float>::infinity()); }

class Numbers : public EngineTest {
 protected:
  /// The elements, each converted; they are filled up to whole rows of 64 channels.
  static Tensor converted(const Tensor& values, DataType out_type) {
    const std::int64_t rows = values.shape()[0];
    Problem problem;
    StreamData data;
    data.method = Method::kPrevious;
    data.values = values;
    data.times = Tensor(DataType::kInt64, {rows});
    for (std::int64_t row = 0; row < rows; ++row) data.times.set_int(row, row);
    problem.target_times = data.times;
    problem.streams.push_back(data);
    problem.values_out = Tensor(out_type, values.shape());
    engine().align(problem.views(), problem.target_times.view(), problem.options,
                   problem.values_out.view(), {});
    return problem.values_out;
  }

  /// All 2^16 patterns of a 16-bit type, or the 2^8 of uint8.
  static Tensor all_of(DataType type) {
    const std::int64_t count = type == DataType::kUInt8 ? 1 << 8 : 1 << 16;
    Tensor all(type, {count / 64, 64});
    void* const elements = all.view().data;
    for (std::int64_t bits = 0; bits < count; ++bits) {
      if (type == DataType::kUInt8) {
        static_cast<std::uint8_t*>(elements)[bits] = static_cast<std::uint8_t>(bits);
      } else {
        static_cast<std::uint16_t*>(elements)[bits] = static_cast<std::uint16_t>(bits);
      }
    }
    return all;
  }

  static Tensor rows_of(DataType type, std::vector<double> numbers) {
    while (numbers.size() % 64 != 0) numbers.push_back(0);
    Tensor tensor(type, {static_cast<std::int64_t>(numbers.size() / 64), 64});
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      tensor.set(static_cast<std::int64_t>(i), numbers[i]);
    }
    return tensor;
  }

  static void expect_rounded(const Tensor& values, DataType out_type) {
    const Tensor out = converted(values, out_type);
    for (std::int64_t i = 0; i < values.size() && !HasFailure(); ++i) {
      const double x = values.get(i);
      EXPECT_TRUE(is_same_number(out.get(i), rounded(x, out_type)))
          << std::hexfloat << x << " as " << name_of(out_type) << ": expected "
          << rounded(x, out_type) << ", got " << out.get(i);
    }
  }
};

TEST_P(Numbers, WideningIsExact) {
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16, DataType::kUInt8}) {
    const Tensor all = all_of(type);
    for (const DataType out_type : {DataType::kFloat32, DataType::kFloat64}) {
      const Tensor out = converted(all, out_type);
      for (std::int64_t i = 0; i < all.size() && !HasFailure(); ++i) {
        EXPECT_TRUE(is_same_number(out.get(i), all.get(i)))
            << name_of(type) << " " << i << ": got " << out.get(i);
      }
    }
    // And back: every number is its own nearest.
    const Tensor back = converted(converted(all, DataType::kFloat32), type);
    for (std::int64_t i = 0; i < all.size() && !HasFailure(); ++i) {
      EXPECT_TRUE(is_same_number(back.get(i), all.get(i))) << name_of(type) << " " << i;
    }
  }
}

/// Around every number of a 16-bit type, and around every middle between two: the number itself and
/// the next float32 on either side.
std::vector<double> neighborhoods(double (*value_of)(std::uint16_t)) {
  std::vector<double> numbers = {kInfinity, -kInfinity, kNan, 3.4e38, -3.4e38, 1e-45, -1e-45};
  const auto add = [&](double x) {
    const float center = static_cast<float>(x);
    for (const float number : {next_below(center), center, next_above(center)}) {
      numbers.push_back(number);
      numbers.push_back(-number);
    }
  };
  for (std::uint16_t bits = 0; std::isfinite(value_of(bits)); ++bits) {
    const double number = value_of(bits);
    const std::uint16_t next_bits = static_cast<std::uint16_t>(bits + 1);
    // Above the last number rounding goes by the one that would come next.
    const double next = std::isfinite(value_of(next_bits))
                            ? value_of(next_bits)
                            : number + (number - value_of(static_cast<std::uint16_t>(bits - 1)));
    add(number);
    add((number + next) / 2);
  }
  return numbers;
}

TEST_P(Numbers, RoundingToHalfAtEveryBoundary) {
  const std::vector<double> numbers = neighborhoods(value_of_half);
  expect_rounded(rows_of(DataType::kFloat32, numbers), DataType::kFloat16);
  expect_rounded(rows_of(DataType::kFloat64, numbers), DataType::kFloat16);
}

TEST_P(Numbers, RoundingToBFloat16AtEveryBoundary) {
  const std::vector<double> numbers = neighborhoods(value_of_bfloat16);
  expect_rounded(rows_of(DataType::kFloat32, numbers), DataType::kBFloat16);
  expect_rounded(rows_of(DataType::kFloat64, numbers), DataType::kBFloat16);
}

// Float64 numbers that float32 has not: one rounding to float32, and one more to a half type.
TEST_P(Numbers, RoundingFromFloat64) {
  Random random(72'000);
  std::vector<double> numbers = {1e300,           -1e300,  1e-300,
                                 65519.999999999, 65520.0, 0x1.002p0 + 1e-14};
  for (int i = 0; i < 20'000; ++i) {
    numbers.push_back(std::ldexp(random.between(-1, 1), static_cast<int>(random.below(60)) - 40));
  }
  const Tensor values = rows_of(DataType::kFloat64, numbers);
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    expect_rounded(values, type);
  }
}

TEST_P(Numbers, Uint8RoundsToEvenAndSaturates) {
  std::vector<double> numbers = {kInfinity, -kInfinity, kNan,   -kNan,  1e30,  -1e30,
                                 -0.0,      1e-45,      -1e-45, 0x1p23, 0x1p24};
  for (int quarter = -12; quarter < 4 * 260; ++quarter) {
    const float x = static_cast<float>(quarter) / 4;
    for (const float number : {next_below(x), x, next_above(x)}) {
      numbers.push_back(number);
    }
  }
  for (const DataType type : {DataType::kFloat32, DataType::kFloat64}) {
    expect_rounded(rows_of(type, numbers), DataType::kUInt8);
  }
  expect_rounded(all_of(DataType::kFloat16), DataType::kUInt8);
  expect_rounded(all_of(DataType::kBFloat16), DataType::kUInt8);
}

#if defined(__SSE__)
/// While it lives, this thread takes denormal operands for zero and flushes denormal results, as
/// torch.set_flush_denormal(True) has it.
class FlushedDenormals {
 public:
  FlushedDenormals() { _mm_setcsr(before_ | 0x8040); }
  ~FlushedDenormals() { _mm_setcsr(before_); }
  FlushedDenormals(const FlushedDenormals&) = delete;
  FlushedDenormals& operator=(const FlushedDenormals&) = delete;

 private:
  unsigned before_ = _mm_getcsr();
};

// The smallest numbers of float16 are no denormals of float32.
TEST_P(Numbers, HalfSubnormalsOutliveFlushedDenormals) {
  const Tensor all = all_of(DataType::kFloat16);
  Tensor wide, wider, back;
  {
    const FlushedDenormals flushed;
    wide = converted(all, DataType::kFloat32);
    wider = converted(all, DataType::kFloat64);
    back = converted(wide, DataType::kFloat16);
  }
  for (std::int64_t i = 0; i < all.size() && !HasFailure(); ++i) {
    for (const Tensor* out : {&wide, &wider, &back}) {
      EXPECT_TRUE(is_same_number(out->get(i), all.get(i)))
          << name_of(out->type()) << " of " << i << ": got " << out->get(i);
    }
  }
}
#endif

INSTANTIATE_ENGINES(Numbers);

#if defined(__FLT16_MANT_DIG__)
// The tables that all of the above is held to, held to the compiler.
TEST(NumberTables, AgreeWithTheCompilersHalf) {
  for (int bits = 0; bits < 1 << 16; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    _Float16 half;
    std::memcpy(&half, &pattern, sizeof(half));
    ASSERT_TRUE(is_same_number(value_of_half(pattern), static_cast<double>(half))) << bits;
  }
  for (const double x : neighborhoods(value_of_half)) {
    if (std::isnan(x)) continue;
    const auto half = static_cast<_Float16>(static_cast<float>(x));
    std::uint16_t bits;
    std::memcpy(&bits, &half, sizeof(bits));
    ASSERT_EQ(nearest_half(x), bits) << std::hexfloat << x;
  }
}
#endif

}  // namespace
}  // namespace robocache::testing
