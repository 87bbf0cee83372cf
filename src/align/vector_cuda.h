// Vectors of kWidth elements, moved in one instruction, and what is done to each of their elements.
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

/// Output is written once and not read here: it should not push the source rows out of the cache.
template <typename T, int kWidth>
__device__ void store_vector(T* to, const Vector<T, kWidth>& vector) {
  __stcs(reinterpret_cast<typename Vector<T, kWidth>::Bits*>(to), vector.bits);
}

template <typename Out, typename Compute, int kWidth>
__device__ Vector<Out, kWidth> round_vector(const Compute (&x)[kWidth]) {
  Vector<Out, kWidth> vector;
#pragma unroll
  for (int e = 0; e < kWidth; ++e) vector.elements[e] = Round<Out>::from(x[e]);
  return vector;
}

/// (x - subtract) * multiply, each where given, of the channels from `channel` on.
template <typename Compute, typename Index, int kWidth>
__device__ void scale(const BasicStreamPlan<Index>& plan, Index channel, Compute (&x)[kWidth]) {
  if (plan.subtract != nullptr) {
    const Compute* subtract =
        static_cast<const Compute*>(plan.subtract) + offset(channel, plan.subtract_stride);
#pragma unroll
    for (int e = 0; e < kWidth; ++e) x[e] = x[e] - __ldg(subtract + e * plan.subtract_stride);
  }
  if (plan.multiply != nullptr) {
    const Compute* multiply =
        static_cast<const Compute*>(plan.multiply) + offset(channel, plan.multiply_stride);
#pragma unroll
    for (int e = 0; e < kWidth; ++e) x[e] = x[e] * __ldg(multiply + e * plan.multiply_stride);
  }
}

/// The type that values and output are combined in.
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
