// Vectors of kWidth elements, loaded and stored with one instruction, and elementwise operations.
#pragma once

#include <cuda_runtime.h>

#include "align/plan.h"
#include "core/number.h"

namespace robocache::cuda {

template <int kBytes>
struct Word;
template <>
struct Word<16> {
  using type = uint4;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<4> {
  using type = unsigned int;
};
template <>
struct Word<2> {
  using type = unsigned short;
};
template <>
struct Word<1> {
  using type = unsigned char;
};

template <typename T, int kWidth>
struct Vector {
  using Bits = typename Word<sizeof(T) * kWidth>::type;
  union {
    Bits bits;
    T elements[kWidth];
  };
  __device__ Vector() {}
};

template <typename T, int kWidth>
__device__ Vector<T, kWidth> load_vector(const T* from) {
  Vector<T, kWidth> vector;
  vector.bits = __ldg(reinterpret_cast<const typename Vector<T, kWidth>::Bits*>(from));
  return vector;
}

template <typename T, int kWidth>
__device__ void store_vector(T* to, const Vector<T, kWidth>& vector) {
  *reinterpret_cast<typename Vector<T, kWidth>::Bits*>(to) = vector.bits;
}

/// Stores a vector that is not read again soon, with the evict-first cache policy.
template <typename T, int kWidth>
__device__ void stream_vector(T* to, const Vector<T, kWidth>& vector) {
  __stcs(reinterpret_cast<typename Vector<T, kWidth>::Bits*>(to), vector.bits);
}

// Two neighboring elements of a 16-bit type are rounded by one instruction.
__device__ inline unsigned int round_pair(float low, float high, BFloat16) {
  return bit_cast<unsigned int>(__floats2bfloat162_rn(low, high));
}
__device__ inline unsigned int round_pair(float low, float high, Float16) {
  return bit_cast<unsigned int>(__floats2half2_rn(low, high));
}

template <typename Out, typename Compute, int kWidth>
__device__ Vector<Out, kWidth> round_vector(const Compute (&x)[kWidth]) {
  Vector<Out, kWidth> vector;
  if constexpr (sizeof(Out) == 2 && kWidth % 2 == 0) {
    unsigned int pairs[kWidth / 2];
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) {
      pairs[i] = round_pair(static_cast<float>(x[2 * i]), static_cast<float>(x[2 * i + 1]), Out{});
    }
    vector.bits = bit_cast<typename Vector<Out, kWidth>::Bits>(pairs);
  } else {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) vector.elements[e] = Round<Out>::from(x[e]);
  }
  return vector;
}

/// Combines x with the elements of a strided array from `channel` on; a null array changes nothing.
template <typename Compute, typename Index, int kWidth, typename Combine>
__device__ void combine_with(Compute (&x)[kWidth], const void* array, Index stride, Index channel,
                             const Combine& combine) {
  if (array == nullptr) return;
  const Compute* at = static_cast<const Compute*>(array) + offset(channel, stride);
#pragma unroll
  for (int e = 0; e < kWidth; ++e) {
    x[e] = combine(x[e], __ldg(at));
    at += stride;
  }
}

/// Computes (x - subtract) * multiply, each where present, for the channels from `channel` on.
template <typename Compute, typename Index, int kWidth>
__device__ void scale(const BasicStreamPlan<Index>& plan, Index channel, Compute (&x)[kWidth]) {
  // Hides the strides from the compiler, which would otherwise compute all addresses ahead of the
  // branch that leads here, and hold them in registers also where nothing is scaled.
  Index subtract_stride = plan.subtract_stride;
  Index multiply_stride = plan.multiply_stride;
  if constexpr (sizeof(Index) == 4) {
    asm volatile("" : "+r"(subtract_stride), "+r"(multiply_stride), "+r"(channel));
  }
  combine_with(x, plan.subtract, subtract_stride, channel,
               [](Compute value, Compute by) { return value - by; });
  combine_with(x, plan.multiply, multiply_stride, channel,
               [](Compute value, Compute by) { return value * by; });
}

/// The compute type of a value type and an output type.
template <typename Value, typename Out>
struct ComputeOf {
  using type = float;
};
template <typename Out>
struct ComputeOf<double, Out> {
  using type = double;
};
template <typename Value>
struct ComputeOf<Value, double> {
  using type = double;
};
template <>
struct ComputeOf<double, double> {
  using type = double;
};

}  // namespace robocache::cuda
