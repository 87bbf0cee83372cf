// Alters good inputs at random, gives them to the parser, and stops where that ends other than by a
// StoreError. AddressSanitizer sees accesses out of bounds.
//
//   robocache_fuzz_X --runs N [--seed S]          so many inputs; the same for the same seed
//   robocache_fuzz_X --seconds N [--seed S]       for so long
//   robocache_fuzz_X FILE                         this input: a failure leaves fuzz-failure.bin
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fuzz.h"
#include "support/random.h"

// A function of the sanitizers' runtime; null in programs without sanitizers.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace robocache::testing {

namespace {

std::string last_input;

void keep_input() {
  std::ofstream("fuzz-failure.bin", std::ios::binary) << last_input;
  std::fprintf(stderr, "the input is in fuzz-failure.bin\n");
}

/// Makes new inputs of those that it knows.
class Mutator {
 public:
  Mutator(std::uint64_t seed, std::vector<Parts> seeds)
      : random_(seed), corpus_(std::move(seeds)), words_(fuzz_words()) {
    for (const char* number : {"0", "1", "-1", "8", "255", "4294967296", "9223372036854775807",
                               "9223372036854775808", "18446744073709551615", "1e308", "0.5",
                               "null", "true", "\"\"", "[]", "{}", "[[", "\\u0000", "\xff"}) {
      words_.emplace_back(number);
    }
  }

  Parts next() {
    Parts parts = pick(corpus_);
    // Most inputs are changed a little: what is changed much is refused at the first check.
    for (std::int64_t i = 0; i == 0 || (i < 12 && !random_.one_in(3)); ++i) {
      alter(&pick(parts));
    }
    return parts;
  }

  void keep(Parts parts) { corpus_.push_back(std::move(parts)); }

 private:
  template <typename T>
  T& pick(std::vector<T>& all) {
    return all[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(all.size())))];
  }
  std::size_t place_in(const std::string& text) {
    return static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(text.size()) + 1));
  }

  /// Runs of digits that a text has, as (begin, length).
  static std::vector<std::pair<std::size_t, std::size_t>> numbers_of(const std::string& text) {
    std::vector<std::pair<std::size_t, std::size_t>> found;
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t end = std::min(text.find_first_not_of("0123456789", i), text.size());
      if (end > i) found.emplace_back(i, end - i);
      i = std::max(end, i + 1);
    }
    return found;
  }

  void alter(std::string* text) {
    const std::size_t at = place_in(*text);
    const std::size_t length =
        static_cast<std::size_t>(1 + random_.below(random_.one_in(4) ? 64 : 8));
    switch (random_.below(10)) {
      case 0:
        if (at < text->size()) (*text)[at] ^= static_cast<char>(1 << random_.below(8));
        return;
      case 1:
        if (at < text->size()) (*text)[at] = static_cast<char>(random_.below(256));
        return;
      case 2:
        text->erase(at, length);
        return;
      case 3:
        text->resize(at);
        return;
      case 4:  // a piece again, somewhere else
        text->insert(place_in(*text), text->substr(at, length));
        return;
      case 5:
        text->insert(at, pick(words_));
        return;
      case 6: {  // a piece of another input
        const std::string& other = pick(pick(corpus_));
        const std::string piece = other.substr(place_in(other), length);
        text->replace(at, std::min(length, text->size() - at), piece);
        return;
      }
      case 7: {  // 8 bytes, as a number
        constexpr std::size_t kSize = sizeof(std::uint64_t);
        if (text->size() < kSize) return;
        const std::uint64_t near = static_cast<std::uint64_t>(random_.below(5)) - 2;
        const std::uint64_t number =
            near +
            random_.pick<std::uint64_t>({0, 8, 1ull << 31, 1ull << 32, 1ull << 62, 1ull << 63});
        const std::size_t where = at / kSize * kSize;
        if (where + kSize <= text->size()) {
          text->replace(where, kSize, reinterpret_cast<const char*>(&number), kSize);
        }
        return;
      }
      default: {  // a number of JSON, by another or by one near it
        const auto numbers = numbers_of(*text);
        if (numbers.empty()) return;
        const auto [begin, count] = numbers[static_cast<std::size_t>(
            random_.below(static_cast<std::int64_t>(numbers.size())))];
        std::string number = pick(words_);
        if (!random_.one_in(3) && count < 18) {
          number = std::to_string(std::stoll(text->substr(begin, count)) + random_.below(17) - 8);
        }
        text->replace(begin, count, number);
      }
    }
  }

  Random random_;
  std::vector<Parts> corpus_;
  std::vector<std::string> words_;
};

void run(const Parts& parts) {
  last_input = fuzz_join(parts);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(last_input.data()),
                         last_input.size());
}

void fuzz(std::uint64_t seed, std::uint64_t runs, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Mutator mutator(seed, fuzz_seeds());
  std::set<std::string> outcomes;
  for (const Parts& good : fuzz_seeds()) {
    run(good);
    if (!fuzz_outcome().empty()) throw std::runtime_error("a good input: " + fuzz_outcome());
  }
  outcomes.insert("");
  std::uint64_t count = 0;
  for (; runs > 0 ? count < runs : count % 64 != 0 || elapsed() < seconds; ++count) {
    Parts parts = mutator.next();
    run(parts);
    if (outcomes.insert(fuzz_outcome()).second) mutator.keep(std::move(parts));
  }
  std::printf("%llu inputs in %.0f s (seed %llu), %zu different outcomes, none of them wrong\n",
              static_cast<unsigned long long>(count), elapsed(),
              static_cast<unsigned long long>(seed), outcomes.size());
}

int main(int count, char** arguments) {
  std::uint64_t seed = 1;
  std::uint64_t runs = 0;
  double seconds = 10;
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(keep_input);
  try {
    if (count == 2) {
      std::ifstream file(arguments[1], std::ios::binary);
      run({std::string(std::istreambuf_iterator<char>(file), {})});
      std::printf("%s\n", fuzz_outcome().c_str());
      return 0;
    }
    for (int i = 1; i + 1 < count; i += 2) {
      const std::string option = arguments[i];
      if (option == "--seed") seed = std::strtoull(arguments[i + 1], nullptr, 10);
      if (option == "--runs") runs = std::strtoull(arguments[i + 1], nullptr, 10);
      if (option == "--seconds") seconds = std::strtod(arguments[i + 1], nullptr);
    }
    fuzz(seed, runs, seconds);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "FAILED: %s\n", error.what());
    keep_input();
    return 1;
  }
}

}  // namespace
}  // namespace robocache::testing

int main(int count, char** arguments) { return robocache::testing::main(count, arguments); }
