// JSON from an untrusted file: parsing it, and reading its values by type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace robocache::store {

using Json = nlohmann::json;

/// Throws a StoreError, `name: expected X, got Y`.
[[noreturn]] void throw_store_error(const std::string& name, const std::string& expected,
                                    const std::string& got);

/// The JSON text of a value; bytes that are not UTF-8 are replaced.
std::string dumped(const Json& json);

/// A text for messages, truncated if it is long.
std::string shortened(std::string text);

/// A text as a JSON string for messages, truncated if it is long.
std::string quote(std::string_view text);

/// Parses an object. Throws StoreError for text that is not JSON, not an object, nested more than
/// 16 deep, or has duplicate names, of which the library would silently take the last.
Json parse_object(std::string_view text, const std::string& name);

/// A value and its name in messages: "/data/store/manifest.json: streams[3].dtype". The name is
/// composed on failure only; until then it is a list of steps.
///
/// Every function throws a StoreError with that name if the value is not of the expected kind.
class Value {
 public:
  /// The root of a file; the path and the JSON must outlive this and all values read from it.
  Value(const Json& json, const std::string& path) : json_(&json), path_(&path) {}

  std::string name() const;
  const Json* json() const { return json_; }
  bool is_null() const { return json_ == nullptr || json_->is_null(); }
  bool is_text() const { return json_ != nullptr && json_->is_string(); }

  /// This value, which may be null but not absent.
  const Value& nullable() const {
    if (json_ == nullptr) refuse("a value, or null");
    return *this;
  }

  /// A member of an object; it may be absent, and reading an absent value is an error. The key is a
  /// literal.
  Value member(const char* key) const;
  std::vector<Value> items() const;
  const Json::object_t& object() const;
  /// A member of `object()`; its key may be any text.
  Value entry(const Json::object_t::value_type& member) const;
  const std::string& text() const;
  std::optional<std::string> optional_text() const;
  std::vector<std::string> texts() const;
  /// An integer of 0 to `highest`.
  std::int64_t integer(std::int64_t highest) const;
  /// An integer of 64 bits, of either sign.
  std::int64_t signed_integer() const;
  double number() const;
  bool boolean() const;
  /// Parses 8 lower-case hexadecimal digits.
  std::uint32_t checksum() const;

  [[noreturn]] void refuse(const std::string& expected) const;

 private:
  /// A literal key, a key from the file, or an index.
  struct Step {
    const char* key = nullptr;
    const std::string* entry = nullptr;
    std::size_t index = 0;
  };
  // The deepest path is a policy spec's transforms[0].normalization.NAME.subtract[8 times].
  static constexpr std::size_t kMaxSteps = 13;

  Value step(const Json* json, const Step& step) const;

  const Json* json_;
  const std::string* path_;
  Step steps_[kMaxSteps];
  std::size_t step_count_ = 0;
};

/// The text of a checksum: "1a2b3c4d".
std::string checksum_text(std::uint32_t checksum);

/// Parses 8 lower-case hexadecimal digits; returns nullopt for other texts.
std::optional<std::uint32_t> parse_checksum(std::string_view digits);

}  // namespace robocache::store
