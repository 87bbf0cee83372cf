#include "window/fields.h"

#include <limits>
#include <optional>
#include <string_view>
#include <tuple>

#include "align/method_names.h"
#include "image/spec.h"
#include "jpeg/names.h"
#include "store/stream_values.h"
#include "window/windows.h"

namespace robocache {
namespace {

using store::Json;
using store::Value;

constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();

// ---- kinds: the JSON types of fields ------------------------------------------------------------
// Each reads and writes a member of one C++ type, and has its JSON schema.

struct StreamName {
  static constexpr char kSchema[] = R"({"type": "string", "minLength": 1})";
  static std::string read(const Value& value) { return store::stream_name(value); }
  static Json write(const std::string& name) { return name; }
};

struct Text {  // empty: null
  static constexpr char kSchema[] = R"({"type": ["string", "null"]})";
  static std::string read(const Value& value) {
    return value.nullable().optional_text().value_or("");
  }
  static Json write(const std::string& text) { return text.empty() ? Json() : Json(text); }
};

struct Type {
  static constexpr char kSchema[] = R"({"$ref": "#/$defs/dtype"})";
  static DataType read(const Value& value) { return store::element_type(value); }
  static Json write(DataType type) { return store::type_text(type); }
};

struct Shape {
  static constexpr char kSchema[] =
      R"({"type": "array", "maxItems": 7, "items": {"type": "integer", "minimum": 1}})";
  static std::vector<std::int64_t> read(const Value& value) {
    return store::row_shape(value).shape;
  }
  static Json write(const std::vector<std::int64_t>& shape) { return shape; }
};

struct Rate {  // 0: null
  static constexpr char kSchema[] = R"({"$ref": "#/$defs/rate"})";
  static double read(const Value& value) {
    return store::optional_rate(value.nullable()).value_or(0.0);
  }
  static Json write(double rate) { return rate == 0 ? Json() : Json(rate); }
};

struct ChannelNames {  // empty: null
  static constexpr char kSchema[] =
      R"({"type": ["array", "null"], "minItems": 1, "items": {"type": "string"}})";
  static std::vector<std::string> read(const Value& value) {
    if (value.is_null()) return {};
    std::vector<std::string> names = value.texts();
    if (names.empty()) value.refuse("null or 1 name or more");
    return names;
  }
  static Json write(const std::vector<std::string>& names) {
    return names.empty() ? Json() : Json(names);
  }
};

struct OptionalEncoding {
  static constexpr char kSchema[] = R"({"oneOf": [{"type": "null"}, {"type": "object",
    "additionalProperties": false, "required": ["format", "quality", "chroma"], "properties": {
      "format": {"const": "jpeg"},
      "quality": {"type": ["integer", "null"], "minimum": 1, "maximum": 100},
      "chroma": {"enum": ["4:0:0", "4:4:4", "4:2:2", "4:4:0", "4:2:0", null]}}}]})";
  static std::optional<ImageEncoding> read(const Value& value) {
    if (value.is_null()) return std::nullopt;
    check_members(value, {"format", "quality", "chroma"}, kPolicySpecVersion);
    const Value format = value.member("format");
    if (format.text() != "jpeg") format.refuse("\"jpeg\"");
    ImageEncoding encoding;
    const Value quality = value.member("quality");
    if (!quality.nullable().is_null()) {
      encoding.quality = static_cast<std::int32_t>(quality.integer(100));
      if (encoding.quality == 0) quality.refuse("1 to 100, or null");
    }
    const Value chroma = value.member("chroma");
    if (!chroma.nullable().is_null()) encoding.sampling = store::choice(chroma, kJpegSamplingNames);
    return encoding;
  }
  static Json write(const std::optional<ImageEncoding>& encoding) {
    if (!encoding) return {};
    return {{"format", "jpeg"},
            {"quality", encoding->quality == 0 ? Json() : Json(encoding->quality)},
            {"chroma", encoding->sampling ? Json(name_of(*encoding->sampling)) : Json()}};
  }
};

struct OptionalImage {
  static constexpr char kSchema[] = R"({"oneOf": [{"type": "null"}, {"type": "object",
    "additionalProperties": false, "required": ["size", "mode", "filter", "crop", "center"],
    "properties": {
      "size": {"type": ["array", "null"], "minItems": 2, "maxItems": 2,
        "items": {"type": "integer", "minimum": 1, "maximum": 4096}},
      "mode": {"enum": ["stretch", "pad", "crop"]},
      "filter": {"enum": ["bilinear", "nearest", "masked"]},
      "crop": {"type": ["array", "null"], "minItems": 4, "maxItems": 4,
        "items": {"type": "integer", "minimum": 0}},
      "center": {"type": "number", "exclusiveMinimum": 0, "maximum": 1}}}]})";
  static std::optional<ImageSpec> read(const Value& value) {
    if (value.is_null()) return std::nullopt;
    check_members(value, {"size", "mode", "filter", "crop", "center"}, kPolicySpecVersion);
    ImageSpec image;
    const std::vector<std::int32_t> size = pixels(value.member("size"), 2, 1, kMaxImageSide);
    if (!size.empty()) {
      image.height = size[0];
      image.width = size[1];
    }
    image.mode = store::choice(value.member("mode"), kResizeModeNames);
    image.filter = store::choice(value.member("filter"), kResizeFilterNames);
    const std::vector<std::int32_t> crop = pixels(value.member("crop"), 4, 0, kMaxRowElements);
    if (!crop.empty()) {
      image.crop_top = crop[0];
      image.crop_left = crop[1];
      image.crop_height = crop[2];
      image.crop_width = crop[3];
    }
    image.center = value.member("center").number();
    return image;
  }
  static Json write(const std::optional<ImageSpec>& image) {
    if (!image) return {};
    const ImageSpec& of = *image;
    const bool has_size = of.height != 0 || of.width != 0;
    const bool has_crop = of.crop_height != 0 || of.crop_width != 0;
    return {
        {"size", has_size ? Json::array({of.height, of.width}) : Json()},
        {"mode", std::string(name_in(kResizeModeNames, of.mode))},
        {"filter", std::string(name_in(kResizeFilterNames, of.filter))},
        {"crop", has_crop ? Json::array({of.crop_top, of.crop_left, of.crop_height, of.crop_width})
                          : Json()},
        {"center", of.center}};
  }

 private:
  /// `count` numbers of `least` to `most`, or null: none.
  static std::vector<std::int32_t> pixels(const Value& value, std::size_t count, std::int64_t least,
                                          std::int64_t most) {
    if (value.nullable().is_null()) return {};
    std::vector<std::int32_t> numbers;
    for (const Value& item : value.items()) {
      const std::int64_t number = item.signed_integer();
      if (number < least || number > most) {
        item.refuse(std::to_string(least) + " to " + std::to_string(most));
      }
      numbers.push_back(static_cast<std::int32_t>(number));
    }
    if (numbers.size() != count) value.refuse("null or " + std::to_string(count) + " numbers");
    return numbers;
  }
};

struct TimelineName {
  static constexpr char kSchema[] = R"({"enum": ["time", "rows"]})";
  static Timeline read(const Value& value) { return store::choice(value, store::kTimelineNames); }
  static Json write(Timeline timeline) {
    return std::string(name_in(store::kTimelineNames, timeline));
  }
};

struct Integers {
  static constexpr char kSchema[] =
      R"({"type": "array", "minItems": 1, "items": {"type": "integer"}})";
  static std::vector<std::int64_t> read(const Value& value) {
    std::vector<std::int64_t> numbers;
    for (const Value& item : value.items()) numbers.push_back(item.signed_integer());
    return numbers;
  }
  static Json write(const std::vector<std::int64_t>& numbers) { return numbers; }
};

struct Boolean {
  static constexpr char kSchema[] = R"({"type": "boolean"})";
  static bool read(const Value& value) { return value.boolean(); }
  static Json write(bool flag) { return flag; }
};

struct OutsideName {
  static constexpr char kSchema[] = R"({"enum": ["hold", "zero", "nan", "extrapolate"]})";
  static Outside read(const Value& value) { return store::choice(value, kOutsideNames); }
  static Json write(Outside outside) { return std::string(name_in(kOutsideNames, outside)); }
};

struct Nanoseconds {
  static constexpr char kSchema[] = R"({"$ref": "#/$defs/nanoseconds"})";
  static std::int64_t read(const Value& value) { return value.integer(kHighest); }
  static Json write(std::int64_t nanoseconds) { return nanoseconds; }
};

struct OptionalNanoseconds {
  static constexpr char kSchema[] =
      R"({"oneOf": [{"$ref": "#/$defs/nanoseconds"}, {"type": "null"}]})";
  static std::optional<std::int64_t> read(const Value& value) {
    if (value.nullable().is_null()) return std::nullopt;
    return value.integer(kHighest);
  }
  static Json write(const std::optional<std::int64_t>& nanoseconds) {
    return nanoseconds ? Json(*nanoseconds) : Json();
  }
};

struct Numbers {
  static constexpr char kSchema[] =
      R"({"type": "array", "minItems": 1, "items": {"type": "number"}})";
  static std::vector<double> read(const Value& value) {
    std::vector<double> numbers;
    for (const Value& item : value.items()) numbers.push_back(item.number());
    if (numbers.empty()) value.refuse("1 number or more");
    return numbers;
  }
  static Json write(const std::vector<double>& numbers) { return numbers; }
};

struct Columns {
  static constexpr char kSchema[] =
      R"({"type": "array", "items": {"type": "integer", "minimum": -1}})";
  static std::vector<std::int32_t> read(const Value& value) {
    std::vector<std::int32_t> columns;
    for (const Value& item : value.items()) {
      const std::int64_t column = item.signed_integer();
      if (column < -1 || column > std::numeric_limits<std::int32_t>::max()) {
        item.refuse("a column, or -1 for none");
      }
      columns.push_back(static_cast<std::int32_t>(column));
    }
    return columns;
  }
  static Json write(const std::vector<std::int32_t>& columns) { return columns; }
};

constexpr char kMethodSchema[] =
    R"({"oneOf": [{"$ref": "#/$defs/method"}, {"type": "array", "minItems": 1, "items":
    {"type": "array", "minItems": 2, "maxItems": 2,
    "prefixItems": [{"$ref": "#/$defs/method"}, {"type": "integer", "minimum": 1}]}}]})";

// The shape precedes the method in the table, so that it has been read.
void read_method(const Value& value, WindowSpec* window) {
  std::tie(window->method, window->layout) = store::read_method(value, elements_of(*window), true);
}

Json write_method(const WindowSpec& window) {
  if (window.layout.empty()) return std::string(name_in(kMethodNames, window.method));
  Json runs = Json::array();
  for (const Run& run : window.layout) {
    runs.push_back({std::string(name_in(kMethodNames, run.method)), run.channels});
  }
  return runs;
}

template <auto kMember, typename Kind>
constexpr WindowField field(FieldPath path, FieldPath version_1, const char* description) {
  return {path,
          version_1,
          [](const Value& value, WindowSpec* window) { window->*kMember = Kind::read(value); },
          [](const WindowSpec& window) { return Kind::write(window.*kMember); },
          Kind::kSchema,
          description};
}

/// A field that has the same name in version 1.
template <auto kMember, typename Kind>
constexpr WindowField field(const char* name, const char* description) {
  return field<kMember, Kind>({nullptr, name}, {nullptr, name}, description);
}

/// A field that version 1 lacks and version 2 may lack.
template <auto kMember, typename Kind>
constexpr WindowField optional_field(const char* name, const char* description) {
  WindowField made = field<kMember, Kind>({nullptr, name}, {nullptr, nullptr}, description);
  made.is_optional = true;
  return made;
}

// ---- the table ----------------------------------------------------------------------------------

constexpr WindowField kFields[] = {
    field<&WindowSpec::name, StreamName>("name", "The stream's name, and its key in a batch."),
    field<&WindowSpec::dtype, Type>("dtype",
                                    "The type of a row's elements, as safetensors names it."),
    field<&WindowSpec::shape, Shape>("shape", "Of a row: [] for a number, [H,W,C] for an image."),
    field<&WindowSpec::rate, Rate>(
        "rate", "The most rows in a second that the recordings have; null: unknown."),
    optional_field<&WindowSpec::channels, ChannelNames>(
        "channels", "A name for each element of a row, as the store has them; null: none."),
    optional_field<&WindowSpec::units, Text>("units", "The units of the values; null: unknown."),
    optional_field<&WindowSpec::nominal_rate, Rate>(
        "nominal_rate", "The rate in Hz that the store states; null: none."),
    optional_field<&WindowSpec::encoding, OptionalEncoding>(
        "encoding",
        "How the images were encoded in training: the quality of libjpeg (null: another, or "
        "several) and the chroma sampling (null: several); null: they were raw."),
    field<&WindowSpec::timeline, TimelineName>("timeline", "Whether offsets are ns or rows."),
    field<&WindowSpec::offsets, Integers>({nullptr, "offsets"}, {nullptr, "steps"},
                                          "From the anchor: ns, or rows."),
    field<&WindowSpec::has_axis, Boolean>("has_axis", "Whether a batch has an axis of offsets."),
    field<&WindowSpec::causal, Boolean>(
        "causal", "Whether rows that had not arrived by the anchor did not exist."),
    {{nullptr, "method"},
     {nullptr, "method"},
     read_method,
     write_method,
     kMethodSchema,
     "How rows combine; or runs of elements with one method each."},
    field<&WindowSpec::outside, OutsideName>("outside", "The value beyond the first and last row."),
    field<&WindowSpec::max_gap_ns, OptionalNanoseconds>(
        "max_gap_ns", "Values from rows farther apart are padded; null: no limit."),
    field<&WindowSpec::tolerance_ns, Nanoseconds>("tolerance_ns",
                                                  "A row this close to a target is copied."),
    field<&WindowSpec::mean_window_ns, OptionalNanoseconds>("mean_window_ns",
                                                            "The width of method mean."),
    field<&WindowSpec::latency_ns, Nanoseconds>(
        "latency_ns", "A row arrives this long after its time, at least."),
    field<&WindowSpec::normalize, Text>({nullptr, "normalize"}, {"normalization", "mode"},
                                        "The mode that the normalization came from; for people."),
    field<&WindowSpec::subtract, Numbers>(
        {"normalization", "subtract"}, {"normalization", "subtract"},
        "y = (x - subtract) * multiply: a number for each element, for each of the last axis, or "
        "for all."),
    field<&WindowSpec::multiply, Numbers>({"normalization", "multiply"},
                                          {"normalization", "multiply"}, "As subtract."),
    field<&WindowSpec::out_dtype, Type>("out_dtype", "The type that is written."),
    field<&WindowSpec::channels_first, Boolean>({nullptr, "channels_first"},
                                                {nullptr, "colours_first"},
                                                "Whether [H,W,C] is written [C,H,W]."),
    optional_field<&WindowSpec::image, OptionalImage>(
        "image",
        "The geometry of images: the output's [height,width] (null: the crop's), how it is filled, "
        "the filter, the crop [top,left,height,width] (null: the whole image), and the share at "
        "the output's center that is enlarged to fill it; null: frames as they are."),
    field<&WindowSpec::relative_to, StreamName>(
        {"relative_to", "stream"}, {"relative", "to"},
        "The stream whose value at the anchor was subtracted before normalization."),
    field<&WindowSpec::reference_columns, Columns>({"relative_to", "columns"},
                                                   {"relative", "columns"},
                                                   "Its column for each element; -1: none."),
    field<&WindowSpec::reference_is_causal, Boolean>(
        {"relative_to", "causal"}, {nullptr, nullptr},
        "Whether that value was computed from rows that had arrived by the anchor."),
};

/// Whether a group of fields is null in JSON.
bool is_absent(const WindowSpec& window, std::string_view group) {
  if (group == "normalization") return window.subtract.empty() && window.multiply.empty();
  return window.relative_to.empty();
}

/// The members that a version allows in the window's object (`group` null) or in a group's object.
std::vector<std::string> names_in(const char* group, int version) {
  std::vector<std::string> names;
  for (const WindowField& field : kFields) {
    const FieldPath& path = field.path_in(version);
    if (path.name == nullptr) continue;
    const std::string_view of = path.group == nullptr ? "" : path.group;
    if (of == (group == nullptr ? "" : group)) names.emplace_back(path.name);
    if (group == nullptr && path.group != nullptr) names.emplace_back(path.group);
  }
  return names;
}

}  // namespace

const WindowField* find_field(const std::string& path) {
  for (const WindowField& field : kFields) {
    if (field.path.text() == path) return &field;
  }
  return nullptr;
}

WindowSpec read_window(const Value& value, int version) {
  check_members(value, names_in(nullptr, version), version);
  WindowSpec window;
  const char* checked = nullptr;  // the last group whose members have been checked
  for (const WindowField& field : kFields) {
    const FieldPath& path = field.path_in(version);
    if (path.name == nullptr) continue;
    if (path.group == nullptr) {
      const Value member = value.member(path.name);
      if (!field.is_optional || member.json() != nullptr) field.read(member, &window);
      continue;
    }
    const Value group = value.member(path.group);
    if (group.nullable().is_null()) continue;
    if (checked == nullptr || std::string_view(checked) != path.group) {
      check_members(group, names_in(path.group, version), version);
      checked = path.group;
    }
    field.read(group.member(path.name), &window);
  }
  return window;
}

Json write_window(const WindowSpec& window) {
  Json json = Json::object();
  for (const WindowField& field : kFields) {
    const FieldPath& path = field.path;
    if (path.group == nullptr) {
      json[path.name] = field.write(window);
    } else if (is_absent(window, path.group)) {
      json[path.group] = nullptr;
    } else {
      json[path.group][path.name] = field.write(window);
    }
  }
  return json;
}

std::string field_text(const WindowSpec& window, const std::string& path) {
  const WindowField& field = *find_field(path);
  if (field.path.group != nullptr && is_absent(window, field.path.group)) return "null";
  return store::shortened(store::dumped(field.write(window)));
}

void check_members(const Value& value, const std::vector<std::string>& known, int version) {
  for (const auto& member : value.object()) {
    bool is_known = false;
    for (const std::string& name : known) is_known = is_known || member.first == name;
    if (is_known) continue;
    value.entry(member).refuse("no such field in version " + std::to_string(version));
  }
}

std::vector<WindowSpec> parse_windows(std::string_view text, const std::string& name) {
  try {
    const Json json = store::parse_object(text, name);
    const Value root(json, name);
    check_members(root, {"windows"}, kPolicySpecVersion);
    std::vector<WindowSpec> windows;
    for (const Value& item : root.member("windows").items()) {
      windows.push_back(read_window(item, kPolicySpecVersion));
    }
    return windows;
  } catch (const StoreError& error) {  // the parser throws StoreError, but this is not a store
    throw ValueError(error.what());
  }
}

std::string windows_json(const std::vector<WindowSpec>& windows) {
  Json list = Json::array();
  for (const WindowSpec& window : windows) list.push_back(write_window(window));
  return store::dumped(Json{{"windows", std::move(list)}});
}

std::string window_schema() {
  const auto object = [] {
    return Json{{"type", "object"},
                {"additionalProperties", false},
                {"required", Json::array()},
                {"properties", Json::object()}};
  };
  Json schema = object();
  for (const WindowField& field : kFields) {
    Json property = Json::parse(field.schema);
    property["description"] = field.description;
    if (field.path.group == nullptr) {
      if (!field.is_optional) schema["required"].push_back(field.path.name);
      schema["properties"][field.path.name] = std::move(property);
      continue;
    }
    Json& group = schema["properties"][field.path.group];
    if (group.is_null()) {
      schema["required"].push_back(field.path.group);
      group["oneOf"] = Json::array({Json{{"type", "null"}}, object()});
    }
    group["oneOf"][1]["required"].push_back(field.path.name);
    group["oneOf"][1]["properties"][field.path.name] = std::move(property);
  }
  return schema.dump();
}

}  // namespace robocache
