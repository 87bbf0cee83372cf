// The parts of a fuzzer of one parser, and its driver.
//
// LLVMFuzzerTestOneInput is libFuzzer's interface, so that clang's fuzzer runs these files too:
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined
//     -Iinclude -Isrc -Itests/cpp -Ibuild/asan-ubsan/include
//     tests/fuzz/fuzz_shard.cpp tests/cpp/store/builder.cpp src/store/*.cpp
//     src/core/error.cpp src/core/tensor_view.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Gives an input to the parser. Whatever the input is, it returns 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace robocache::testing {

/// An input in parts, which are altered each by itself: a header, and the data after it.
using Parts = std::vector<std::string>;

/// Good inputs, to begin with.
std::vector<Parts> fuzz_seeds();

/// Words that the parser knows: they are put into inputs.
std::vector<std::string> fuzz_words();

/// The bytes that the parser is given of these parts.
std::string fuzz_join(const Parts& parts);

/// The parser's outcome for its last input, without details of that input: inputs with an outcome
/// not seen before are altered further.
std::string fuzz_outcome();

/// A message without its numbers and quotations.
inline std::string outcome_of(const std::string& message) {
  std::string outcome;
  bool is_quoted = false;
  for (const char letter : message) {
    if (letter == '"') is_quoted = !is_quoted;
    if (!is_quoted && !(letter >= '0' && letter <= '9')) outcome += letter;
  }
  return outcome;
}

}  // namespace robocache::testing
