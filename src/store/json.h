// JSON from a file that may be anybody's: parsing it, and taking values out of it by type.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace robocache::store {

using Json = nlohmann::json;

/// `name: expected X, got Y`, as a StoreError.
[[noreturn]] void throw_store_error(const std::string& name, const std::string& expected,
                                    const std::string& got);

/// A text as messages quote it: in JSON's way, and cut where it is long.
std::string quote(std::string_view text);

/// Parses an object. Throws StoreError for what is not JSON, not an object, nested more than 16 deep, or has
/// two members of one name: the library would silently take the last.
Json parse_object(std::string_view text, const std::string& name);

/// A value and what messages call it: "/data/store/manifest.json: streams[3].dtype".
///
/// Every function throws a StoreError that says so where the value is not what was asked for.
class Value {
 public:
  /// `json` is null for what is absent; it outlives this.
  Value(const Json* json, std::string name) : json_(json), name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  const Json* json() const { return json_; }
  bool is_null() const { return json_ == nullptr || json_->is_null(); }
  bool is_text() const { return json_ != nullptr && json_->is_string(); }

  /// A member of an object, which may be absent; taking something out of that is an error.
  Value member(const char* key) const;
  std::vector<Value> items() const;
  const Json::object_t& object() const;
  const std::string& text() const;
  std::optional<std::string> optional_text() const;
  std::vector<std::string> texts() const;
  /// From 0 to `highest`.
  std::int64_t integer(std::int64_t highest) const;
  double number() const;
  /// 8 lower-case hexadecimal digits.
  std::uint32_t checksum() const;

  [[noreturn]] void refuse(const std::string& expected) const;

 private:
  const Json* json_;
  std::string name_;
};

/// "1a2b3c4d", as checksums are written.
std::string checksum_text(std::uint32_t checksum);

/// The number of 8 lower-case hexadecimal digits; nothing for other texts.
std::optional<std::uint32_t> parse_checksum(std::string_view digits);

}  // namespace robocache::store
