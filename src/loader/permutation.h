// A permutation of [0, count), determined by a seed and an epoch, and evaluated one place at a
// time, on every backend.
//
// A number x is split in two halves of about equal range, left * 2^right_bits + right, and each
// round changes one half by a hash of the other: a Feistel network, which is invertible and so a
// permutation (Luby and Rackoff, "How to construct pseudorandom permutations", 1988; Black and
// Rogaway, "Ciphers with arbitrary finite domains", 2002, for halves of any size and for the cycle
// walking that follows). `lefts` is the smallest range that covers all numbers, so a few x, about
// one of sqrt(count), end outside [0, count): these repeat the rounds until they are inside, which
// is still a permutation. With a power of two in place of lefts, up to half of them would, and the
// slowest of a batch's samples would repeat several times.
#pragma once

#include <cstdint>

#include "core/random.h"
#include "core/target.h"

namespace robocache {

/// The parameters of a permutation that do not depend on the epoch.
struct Permutation {
  std::int64_t count;  // 1 to 2^62
  std::uint64_t seed_key;
  std::uint32_t lefts;       // at most 2^31
  std::uint32_t right_bits;  // at most 31
};

inline constexpr int kPermutationRounds = 8;

/// The finalizer of MurmurHash3. Source: Appleby, 2011.
ROBOCACHE_CONSTEXPR std::uint32_t mix32(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  return x ^ (x >> 16);
}

ROBOCACHE_CONSTEXPR Permutation make_permutation(std::uint64_t seed, std::int64_t count) {
  std::uint32_t bits = 0;  // bits of the largest number
  while ((static_cast<std::uint64_t>(count - 1) >> bits) != 0) ++bits;
  const std::uint32_t right_bits = bits / 2;
  const std::uint64_t rights = std::uint64_t{1} << right_bits;
  const auto lefts =
      static_cast<std::uint32_t>((static_cast<std::uint64_t>(count) + rights - 1) >> right_bits);
  return {count, mix64(seed + kGolden), lefts, right_bits};
}

/// The key of an epoch's order, with and without a mixture.
ROBOCACHE_CONSTEXPR std::uint64_t epoch_key(const Permutation& permutation, std::int64_t epoch) {
  return mix64(permutation.seed_key + static_cast<std::uint64_t>(epoch));
}

/// The number at `place`, in [0, count), of an epoch's permutation.
ROBOCACHE_CONSTEXPR std::int64_t permute(const Permutation& permutation, std::int64_t epoch,
                                         std::int64_t place) {
  const std::uint64_t key = epoch_key(permutation, epoch);
  const auto first_key = static_cast<std::uint32_t>(key);
  const std::uint32_t key_step = static_cast<std::uint32_t>(key >> 32) | 1u;
  const std::uint32_t lefts = permutation.lefts;
  const std::uint32_t right_mask = (std::uint32_t{1} << permutation.right_bits) - 1;
  auto x = static_cast<std::uint64_t>(place);
  do {
    auto left = static_cast<std::uint32_t>(x >> permutation.right_bits);
    std::uint32_t right = static_cast<std::uint32_t>(x) & right_mask;
    std::uint32_t round_key = first_key;
    for (int round = 0; round < kPermutationRounds; round += 2) {
      // A hash, scaled from [0, 2^32) to [0, lefts): below 2^31 each, so the sum fits.
      left += static_cast<std::uint32_t>(
          static_cast<std::uint64_t>(mix32(right + round_key)) * lefts >> 32);
      if (left >= lefts) left -= lefts;
      round_key += key_step;
      right ^= mix32(left + round_key) & right_mask;
      round_key += key_step;
    }
    x = static_cast<std::uint64_t>(left) << permutation.right_bits | right;
  } while (x >= static_cast<std::uint64_t>(permutation.count));
  return static_cast<std::int64_t>(x);
}

}  // namespace robocache
