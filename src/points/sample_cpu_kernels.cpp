// The CPU kernels of farthest-point sampling. The build compiles this file once per instruction
// set, each time into the namespace that ROBOCACHE_CPU_TARGET names; core/target.h lists the
// restrictions on such code.
#include "points/sample_cpu_kernels.h"

#include "core/dispatch.h"
#include "core/number.h"

namespace robocache::ROBOCACHE_TARGET {
namespace {

template <typename Real>
struct BitsOf {
  using type = std::int32_t;
};
template <>
struct BitsOf<double> {
  using type = std::int64_t;
};

/// The arrays of a cloud with their type.
template <typename Number>
struct Arrays {
  using Real = Number;
  using Bits = typename BitsOf<Real>::type;

  Real *x, *y, *z;
  Bits *distances, *farthest;

  explicit Arrays(const SampleCloud& cloud)
      : x(static_cast<Real*>(cloud.x[0])),
        y(static_cast<Real*>(cloud.x[1])),
        z(static_cast<Real*>(cloud.x[2])),
        distances(static_cast<Bits*>(cloud.distances)),
        farthest(static_cast<Bits*>(cloud.farthest)) {}
};

template <typename Body>
inline void with_arrays(const SampleCloud& cloud, const Body& body) {
  if (cloud.is_double) return body(Arrays<double>(cloud));
  body(Arrays<float>(cloud));
}

/// Calls `body(block, first, last)` for the points [first, last) of each block.
template <typename Body>
inline void for_each_block(const SampleCloud& cloud, std::int64_t begin, std::int64_t end,
                           const Body& body) {
  for (std::int64_t block = begin; block < end; ++block) {
    const std::int64_t first = block * SampleCloud::kBlock;
    const std::int64_t rest = cloud.count - first;
    body(block, first, first + (rest < SampleCloud::kBlock ? rest : SampleCloud::kBlock));
  }
}

void load(const RowPlan& rows, std::int64_t first, const SampleCloud& cloud, std::int64_t begin,
          std::int64_t end) {
  if (begin == end) return;  // an array without points has no place of the first
  const RowPlan own = rows;  // a copy, which no store can change
  const std::int64_t start = own.start(first);
  with_arrays(cloud, [&](auto arrays) {
    using Real = typename decltype(arrays)::Real;
    using Bits = typename decltype(arrays)::Bits;
    const Bits infinity = bit_cast<Bits>(static_cast<Real>(__builtin_inf()));
    with_floating_type(own.type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* const points = static_cast<const T*>(own.data) + start;
      for_each_block(cloud, begin, end, [&](std::int64_t block, std::int64_t i, std::int64_t last) {
        Bits most = -1;
        for (; i < last; ++i) {
          const T* const p = points + i * own.row_stride;
          const auto x = static_cast<Real>(widen(p[0]));
          const auto y = static_cast<Real>(widen(p[own.column_stride]));
          const auto z = static_cast<Real>(widen(p[2 * own.column_stride]));
          const bool is_finite = x - x == 0 && y - y == 0 && z - z == 0;
          arrays.x[i] = is_finite ? x : 0;
          arrays.y[i] = is_finite ? y : 0;
          arrays.z[i] = is_finite ? z : 0;
          arrays.distances[i] = is_finite ? infinity : -1;
          most = is_finite ? infinity : most;
        }
        arrays.farthest[block] = most;
      });
    });
  });
}

void update(const SampleCloud& cloud, std::int64_t sample, std::int64_t begin, std::int64_t end) {
  with_arrays(cloud, [&](auto arrays) {
    using Real = typename decltype(arrays)::Real;
    using Bits = typename decltype(arrays)::Bits;
    const Real x = arrays.x[sample];
    const Real y = arrays.y[sample];
    const Real z = arrays.z[sample];
    for_each_block(cloud, begin, end, [&](std::int64_t block, std::int64_t i, std::int64_t last) {
      Bits most = -1;
      for (; i < last; ++i) {
        const Real dx = arrays.x[i] - x;
        const Real dy = arrays.y[i] - y;
        const Real dz = arrays.z[i] - z;
        const Bits to_sample = bit_cast<Bits>(dx * dx + dy * dy + dz * dz);
        const Bits before = arrays.distances[i];
        const Bits now = to_sample < before ? to_sample : before;
        arrays.distances[i] = now;
        most = now > most ? now : most;
      }
      arrays.farthest[block] = most;
    });
  });
}

std::int64_t find_farthest(const SampleCloud& cloud) {
  std::int64_t found = -1;
  with_arrays(cloud, [&](auto arrays) {
    using Bits = typename decltype(arrays)::Bits;
    Bits most = -1;
    std::int64_t block_of_most = 0;
    for (std::int64_t block = 0; block < cloud.blocks(); ++block) {
      if (arrays.farthest[block] > most) {
        most = arrays.farthest[block];
        block_of_most = block;
      }
    }
    if (most < 0) return;
    found = block_of_most * SampleCloud::kBlock;
    while (arrays.distances[found] != most) ++found;
  });
  return found;
}

}  // namespace

const SampleCpuKernels& sample_cpu_kernels() {
  static constexpr SampleCpuKernels kKernels{load, update, find_farthest};
  return kKernels;
}

}  // namespace robocache::ROBOCACHE_TARGET
