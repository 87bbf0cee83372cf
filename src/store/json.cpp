#include "store/json.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "robocache/error.h"

namespace robocache::store {
namespace {

// Bytes of an unexpected value that messages print.
constexpr std::size_t kQuoted = 80;
// The limit of nesting; a manifest has 6 levels.
constexpr std::size_t kDeepest = 16;
// Bytes that messages print of a text that is not JSON.
constexpr std::size_t kFound = 16;

/// Describes where a text stops being JSON. `position`: of the first wrong byte, from 1; past the
/// end where the text ends within a value.
std::string found_at(std::string_view text, std::size_t position) {
  const std::string bytes = std::to_string(text.size()) + (text.size() == 1 ? " byte" : " bytes");
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return (text.empty() ? "nothing (" : "white space alone (") + bytes + ")";
  }
  if (position > text.size()) return "one that ends early, after " + bytes;
  const std::size_t first = position > 0 ? position - 1 : 0;
  return quote(text.substr(first, kFound)) + " at byte " + std::to_string(first + 1);
}

/// Builds values from the events of the library's parser, whose SAX interface it implements: unlike
/// the library's builder, it rejects duplicate names and limits the depth.
class Builder {
 public:
  Builder(Json* root, std::string_view text, const std::string& name)
      : root_(root), text_(text), name_(name) {}

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string& /*text*/) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t& /*value*/) { return false; }  // JSON has none
  bool start_object(std::size_t /*size*/) { return open(Json::object()); }
  bool start_array(std::size_t /*size*/) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& key) {
    auto& members = open_.back()->get_ref<Json::object_t&>();
    const auto [member, is_new] = members.emplace(std::move(key), nullptr);
    if (!is_new) {
      throw_store_error(name_, "each name once in an object", quote(member->first) + " twice");
    }
    member_ = &member->second;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const Json::exception& error) {
    if (dynamic_cast<const Json::out_of_range*>(&error) != nullptr) {
      throw_store_error(name_, "JSON", "a number out of range");
    }
    throw_store_error(name_, "JSON", found_at(text_, position));
  }

 private:
  template <typename T>
  bool add(T&& value) {
    *place() = std::forward<T>(value);
    return true;
  }

  bool open(Json container) {
    if (open_.size() >= kDeepest) {
      throw_store_error(name_, "JSON at most " + std::to_string(kDeepest) + " levels deep", "more");
    }
    Json* where = place();
    *where = std::move(container);
    open_.push_back(where);
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  /// The place of the next value. Open containers keep their addresses: a list grows only after the
  /// values within it are closed.
  Json* place() {
    if (open_.empty()) return root_;
    if (open_.back()->is_object()) return member_;
    auto& items = open_.back()->get_ref<Json::array_t&>();
    return &items.emplace_back();
  }

  Json* root_;
  std::string_view text_;
  const std::string& name_;
  std::vector<Json*> open_;  // the objects and lists around the current value, outermost first
  Json* member_ = nullptr;   // the open object's member that was named last
};

}  // namespace

std::string shortened(std::string text) {
  if (text.size() <= kQuoted) return text;
  std::size_t end = kQuoted;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u)
    --end;  // whole letters
  return text.substr(0, end) + "...";
}

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void throw_store_error(const std::string& name, const std::string& expected,
                       const std::string& got) {
  throw StoreError(name + ": expected " + expected + ", got " + got);
}

std::string quote(std::string_view text) { return shortened(dumped(std::string(text))); }

Json parse_object(std::string_view text, const std::string& name) {
  Json json;
  Builder builder(&json, text, name);
  Json::sax_parse(text.begin(), text.end(), &builder);
  if (!json.is_object()) throw_store_error(name, "a JSON object", shortened(dumped(json)));
  return json;
}

std::string Value::name() const {
  std::string name = *path_ + ": ";
  for (std::size_t i = 0; i < step_count_; ++i) {
    const Step& step = steps_[i];
    if (step.key == nullptr && step.entry == nullptr) {
      name += "[" + std::to_string(step.index) + "]";
    } else {
      name +=
          (i > 0 ? "." : "") + (step.key != nullptr ? std::string(step.key) : quote(*step.entry));
    }
  }
  return name;
}

void Value::refuse(const std::string& expected) const {
  throw_store_error(name(), expected, json_ == nullptr ? "none" : shortened(dumped(*json_)));
}

Value Value::step(const Json* json, const Step& step) const {
  Value value = *this;
  value.json_ = json;
  if (step_count_ < kMaxSteps) value.steps_[value.step_count_++] = step;
  return value;
}

const Json::object_t& Value::object() const {
  if (json_ == nullptr || !json_->is_object()) refuse("an object");
  return json_->get_ref<const Json::object_t&>();
}

Value Value::member(const char* key) const {
  const Json::object_t& members = object();
  const auto found = members.find(key);
  return step(found == members.end() ? nullptr : &found->second, {key, nullptr, 0});
}

Value Value::entry(const Json::object_t::value_type& member) const {
  return step(&member.second, {nullptr, &member.first, 0});
}

std::vector<Value> Value::items() const {
  if (json_ == nullptr || !json_->is_array()) refuse("a list");
  std::vector<Value> values;
  values.reserve(json_->size());
  for (const Json& item : *json_) values.push_back(step(&item, {nullptr, nullptr, values.size()}));
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
  // The library parses a number too large for any integer as floating-point: it is refused here.
  if (json_ == nullptr || !json_->is_number_unsigned() ||
      json_->get<std::uint64_t>() > static_cast<std::uint64_t>(highest)) {
    refuse("a whole number from 0 to " + std::to_string(highest));
  }
  return json_->get<std::int64_t>();
}

std::int64_t Value::signed_integer() const {
  // Only a positive number can be too large here: the library parses a number below int64 as
  // floating-point.
  if (json_ == nullptr || !json_->is_number_integer() ||
      (json_->is_number_unsigned() && json_->get<std::uint64_t>() > std::uint64_t{INT64_MAX})) {
    refuse("a whole number of 64 bits");
  }
  return json_->get<std::int64_t>();
}

double Value::number() const {
  if (json_ == nullptr || !json_->is_number()) refuse("a number");
  return json_->get<double>();
}

bool Value::boolean() const {
  if (json_ == nullptr || !json_->is_boolean()) refuse("true or false");
  return json_->get<bool>();
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
    const std::size_t value = std::string_view("0123456789abcdef").find(digit);
    if (value == std::string_view::npos) return std::nullopt;
    checksum = checksum << 4 | static_cast<std::uint32_t>(value);
  }
  return checksum;
}

}  // namespace robocache::store
