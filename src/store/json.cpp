#include "store/json.h"

#include <cstddef>
#include <set>
#include <utility>

#include "robocache/error.h"

namespace robocache::store {
namespace {

// What is printed of a value that is not as it should be.
constexpr std::size_t kQuoted = 80;
// The deepest that a manifest goes is 5.
constexpr int kDeepest = 16;

std::string shortened(std::string text) {
  if (text.size() <= kQuoted) return text;
  std::size_t end = kQuoted;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u)
    --end;  // whole letters
  return text.substr(0, end) + "...";
}

/// The value in JSON; bytes that are not UTF-8 are replaced.
std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Refuses nesting and names that come twice, while a text is parsed.
class Guard {
 public:
  explicit Guard(const std::string& name) : name_(name) {}

  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    if (depth > kDeepest) {
      throw_store_error(name_, "JSON at most " + std::to_string(kDeepest) + " levels deep", "more");
    }
    if (event == Json::parse_event_t::object_start) {
      keys_.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys_.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) {
        throw_store_error(name_, "each name once in an object", quote(key) + " twice");
      }
    }
    return true;
  }

 private:
  const std::string& name_;
  std::vector<std::set<std::string>> keys_;  // of each object that is open
};

}  // namespace

void throw_store_error(const std::string& name, const std::string& expected,
                       const std::string& got) {
  throw StoreError(name + ": expected " + expected + ", got " + got);
}

std::string quote(std::string_view text) { return shortened(dumped(std::string(text))); }

Json parse_object(std::string_view text, const std::string& name) {
  Json json;
  try {
    json = Json::parse(text.begin(), text.end(), Guard(name));
  } catch (const Json::parse_error& error) {
    throw_store_error(name, "JSON", "something else at byte " + std::to_string(error.byte));
  } catch (const Json::exception&) {
    throw_store_error(name, "JSON", "a number out of range");
  }
  if (!json.is_object()) throw_store_error(name, "a JSON object", shortened(dumped(json)));
  return json;
}

void Value::refuse(const std::string& expected) const {
  throw_store_error(name_, expected, json_ == nullptr ? "none" : shortened(dumped(*json_)));
}

const Json::object_t& Value::object() const {
  if (json_ == nullptr || !json_->is_object()) refuse("an object");
  return json_->get_ref<const Json::object_t&>();
}

Value Value::member(const char* key) const {
  const Json::object_t& members = object();
  const auto found = members.find(key);
  // A path begins after the file's name: "manifest.json: streams".
  const bool is_file = name_.empty() || name_.back() == ' ';
  return {found == members.end() ? nullptr : &found->second, name_ + (is_file ? "" : ".") + key};
}

std::vector<Value> Value::items() const {
  if (json_ == nullptr || !json_->is_array()) refuse("a list");
  std::vector<Value> values;
  values.reserve(json_->size());
  for (const Json& item : *json_) {
    values.emplace_back(&item, name_ + "[" + std::to_string(values.size()) + "]");
  }
  return values;
}

const std::string& Value::text() const {
  if (json_ == nullptr || !json_->is_string()) refuse("a text");
  return json_->get_ref<const std::string&>();
}

std::optional<std::string> Value::optional_text() const {
  if (is_null()) return std::nullopt;
  if (!json_->is_string()) refuse("a text or null");
  return text();
}

std::vector<std::string> Value::texts() const {
  std::vector<std::string> all;
  for (const Value& item : items()) all.push_back(item.text());
  return all;
}

std::int64_t Value::integer(std::int64_t highest) const {
  // A number that is too large for any integer is a floating one here, and so refused.
  if (json_ == nullptr || !json_->is_number_unsigned() ||
      json_->get<std::uint64_t>() > static_cast<std::uint64_t>(highest)) {
    refuse("a whole number from 0 to " + std::to_string(highest));
  }
  return json_->get<std::int64_t>();
}

double Value::number() const {
  if (json_ == nullptr || !json_->is_number()) refuse("a number");
  return json_->get<double>();
}

std::uint32_t Value::checksum() const {
  const auto checksum =
      json_ != nullptr && json_->is_string() ? parse_checksum(text()) : std::nullopt;
  if (!checksum) refuse("8 hexadecimal digits");
  return *checksum;
}

std::string checksum_text(std::uint32_t checksum) {
  std::string text;
  for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[checksum >> shift & 0xFu];
  return text;
}

std::optional<std::uint32_t> parse_checksum(std::string_view digits) {
  if (digits.size() != 8) return std::nullopt;
  std::uint32_t checksum = 0;
  for (const char digit : digits) {
    const bool is_decimal = digit >= '0' && digit <= '9';
    if (!is_decimal && !(digit >= 'a' && digit <= 'f')) return std::nullopt;
    checksum =
        checksum << 4 | static_cast<std::uint32_t>(is_decimal ? digit - '0' : digit - 'a' + 10);
  }
  return checksum;
}

}  // namespace robocache::store
