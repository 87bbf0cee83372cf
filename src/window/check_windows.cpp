#include "window/check_windows.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "align/method_names.h"
#include "align/plan.h"
#include "core/argument.h"
#include "core/check.h"
#include "image/spec.h"
#include "store/json.h"
#include "window/fields.h"
#include "window/windows.h"

namespace robocache {
namespace {

/// The method of each element of a row.
std::vector<Method> methods_of(const WindowSpec& window) {
  std::vector<Method> methods;
  for (const Run& run : runs_of(window)) {
    methods.insert(methods.end(), static_cast<std::size_t>(run.channels), run.method);
  }
  return methods;
}

/// Validates windows one after another; messages name the field and print its JSON.
class Checker {
 public:
  Checker(const std::vector<const WindowSpec*>& windows, const WindowNames& names, WindowUse use)
      : windows_(windows), names_(names), use_(use) {}

  void check() {
    check_count();
    check_names();
    for (number_ = 0; number_ < windows_.size(); ++number_) {
      check_row();
      check_encoding();
      check_offsets();
      check_methods();
      check_durations();
      check_output();
      check_scale();
      if (use_ == WindowUse::kPolicy) check_policy();
    }
    for (number_ = 0; number_ < windows_.size(); ++number_) check_reference();
  }

 private:
  const WindowSpec& window() const { return *windows_[number_]; }

  /// `hint`: " (a way out)", or empty.
  [[noreturn]] void refuse(const std::string& field, const std::string& expected,
                           const std::string& hint = "") const {
    throw_value_error(names_.field(windows_, number_, field), expected,
                      field_text(window(), field) + hint);
  }
  [[noreturn]] void refuse_type(const std::string& field, const std::string& expected,
                                const std::string& hint = "") const {
    throw_type_error(names_.field(windows_, number_, field), expected,
                     field_text(window(), field) + hint);
  }

  void check_count() const {
    std::size_t relative = 0;
    for (const WindowSpec* each : windows_) relative += each->relative_to.empty() ? 0 : 1;
    if (windows_.size() + relative <= std::size_t{kMaxStreams}) return;
    const std::string most = "at most " + std::to_string(kMaxStreams) + " windows";
    if (relative == 0) {
      throw_value_error(names_.prefix + "streams", most, std::to_string(windows_.size()));
    }
    throw_value_error(
        names_.prefix + "streams", most + ", relative ones counted twice",
        std::to_string(windows_.size()) + " and " + std::to_string(relative) + " relative ones");
  }

  void check_names() const {
    std::set<std::string> known;
    for (std::size_t i = 0; i < windows_.size(); ++i) {
      const std::string& name = windows_[i]->name;
      const std::string called = names_.prefix + "streams[" + std::to_string(i) + "].name";
      if (name.empty()) throw_value_error(called, "a name", store::quote(name));
      if (!known.insert(name).second) {
        throw_value_error(called, "each name once", store::quote(name));
      }
    }
  }

  void check_row() const {
    if (window().dtype >= DataType::kComplex64) {
      throw_type_error(names_.field(windows_, number_, "dtype"),
                       "a type that an episode store holds", name_of(window().dtype));
    }
    double elements = 1;
    for (const std::int64_t size : window().shape) {
      if (size < 1) refuse("shape", "sizes of 1 or more");
      elements *= static_cast<double>(size);
    }
    if (elements > static_cast<double>(kMaxRowElements)) {
      refuse("shape", "a row of at most 2^26 elements");
    }
    for (const auto& [field, rate] :
         {std::pair{"rate", window().rate}, std::pair{"nominal_rate", window().nominal_rate}}) {
      if (!(rate >= 0) || std::isinf(rate)) refuse(field, "0 or more Hz");
    }
    const auto names = static_cast<std::int64_t>(window().channels.size());
    if (names == 0 || names == elements_of(window())) return;
    refuse("channels", "null or " + std::to_string(elements_of(window())) + " names");
  }

  void check_encoding() const {
    const WindowSpec& of = window();
    if (!of.encoding) return;
    if (!may_be_jpeg(of) || of.shape[0] > kMaxJpegSide || of.shape[1] > kMaxJpegSide) {
      refuse("encoding",
             "null for rows that are no images [H,W,C] of U8, C of 1 or 3, H and W at most 4096");
    }
    if (of.encoding->quality < 0 || of.encoding->quality > 100) {
      refuse("encoding", "a quality of 1 to 100, or null");
    }
    if (!of.encoding->sampling) return;
    const bool is_gray = *of.encoding->sampling == JpegSampling::kGray;
    if (is_gray != (of.shape[2] == 1)) {
      refuse("encoding", "chroma \"4:0:0\" with 1 channel, and another one with 3");
    }
  }

  void check_offsets() const {
    const std::vector<std::int64_t>& offsets = window().offsets;
    if (offsets.empty()) refuse("offsets", "1 offset or more");
    if (!window().has_axis && offsets.size() > 1) {
      refuse("has_axis", "true with several offsets");
    }
    for (const std::int64_t offset : offsets) {
      if (!is_by_row(window()) || (offset >= -kMaxRowOffset && offset <= kMaxRowOffset)) continue;
      refuse("offsets", "rows below 2^31");
    }
    if (has_method(window(), Method::kSum) && !std::is_sorted(offsets.begin(), offsets.end())) {
      refuse("offsets", "ascending offsets with method \"sum\"");
    }
  }

  void check_methods() const {
    std::int64_t sum = 0;
    for (const Run& run : runs_of(window())) {
      if (!is_named(kMethodNames, run.method)) refuse("method", "a method");
      if (run.channels < 1) refuse("method", "runs of 1 element or more");
      if (is_slerp(run.method) && run.channels != 4) {
        refuse("method",
               "runs of 4 elements for " + std::string(name_in(kMethodNames, run.method)));
      }
      sum += std::min(run.channels, kMaxRowElements + 1 - sum);  // the exact sum may overflow
      if (is_by_row(window())) continue;
      if (!is_computed(window()) && !copies_rows(run.method)) {
        refuse("method", "\"previous\" or \"nearest\" for rows that are copied");
      }
    }
    if (sum == elements_of(window())) return;
    refuse("method",
           "runs that sum to the row's " + std::to_string(elements_of(window())) + " elements");
  }

  void check_durations() const {
    const auto check_sign = [&](const char* field, std::int64_t nanoseconds) {
      if (nanoseconds < 0) refuse(field, "0 or more");
    };
    check_sign("max_gap_ns", window().max_gap_ns.value_or(0));
    check_sign("tolerance_ns", window().tolerance_ns);
    check_sign("mean_window_ns", window().mean_window_ns.value_or(0));
    check_sign("latency_ns", window().latency_ns);
    if (is_by_row(window())) {
      if (window().max_gap_ns) refuse("max_gap_ns", "null with timeline \"rows\"");
      if (window().tolerance_ns != 0) refuse("tolerance_ns", "0 with timeline \"rows\"");
      if (window().outside != Outside::kHold) {
        refuse("outside", "\"hold\" with timeline \"rows\"");
      }
    }
    const bool is_mean = has_method(window(), Method::kMean);
    if (is_mean && !window().mean_window_ns) {
      refuse("mean_window_ns", "nanoseconds with method \"mean\"");
    }
    if (!is_mean && window().mean_window_ns) {
      refuse("mean_window_ns", "null without method \"mean\"");
    }
  }

  void check_image(const ImageSpec& image) const {
    const WindowSpec& of = window();
    const bool has_type = of.dtype == DataType::kUInt8 || of.dtype == DataType::kUInt16 ||
                          of.dtype == DataType::kFloat16 || of.dtype == DataType::kFloat32;
    const bool is_image = has_type && (of.shape.size() == 2 || of.shape.size() == 3) &&
                          image_channels(of) <= kMaxColors;
    if (!is_image) {
      refuse("image",
             "null for rows that are no images [H,W] or [H,W,C] of U8, U16, F16 or F32, C at "
             "most 4");
    }
    check_image_spec(names_.field(windows_, number_, "image"), image, {of.shape[0], of.shape[1]});
    const bool has_out_type = of.out_dtype == of.dtype || of.out_dtype == DataType::kUInt8 ||
                              of.out_dtype == DataType::kFloat16 ||
                              of.out_dtype == DataType::kBFloat16 ||
                              of.out_dtype == DataType::kFloat32;
    if (!has_out_type) {
      refuse_type("out_dtype", "U8, F16, BF16, F32 or the type of the rows with image");
    }
    if (of.outside == Outside::kNan) {
      refuse("outside", "\"hold\", \"zero\" or \"extrapolate\" with image");
    }
    if (!is_by_row(of) && (!of.layout.empty() || !copies_rows(of.method))) {
      refuse("method", "\"previous\" or \"nearest\" with image, whose frames are not mixed");
    }
  }

  void check_output() const {
    const WindowSpec& of = window();
    if (of.image) return check_image(*of.image);
    if (!is_computed(of) && of.out_dtype != of.dtype) {
      refuse_type("out_dtype", field_text(of, "dtype") + ", since such rows are copied");
    }
    if (is_computed(of) && !is_value_type(of.out_dtype)) {
      refuse_type("out_dtype", "U8, F16, BF16, F32 or F64");
    }
    if (of.outside == Outside::kNan && !is_floating_type(of.out_dtype)) {
      refuse("outside", "\"hold\", \"zero\" or \"extrapolate\" for integers");
    }
    if (!of.channels_first) return;
    if (!is_image(of) || of.shape[2] > kMaxColors) {
      refuse("channels_first", "false for rows that are no images [H,W,C] of U8, C at most 4");
    }
    const std::vector<Run> runs = runs_of(of);
    const bool combines =
        runs.size() == 1 && (runs[0].method == Method::kLinear || copies_rows(runs[0].method));
    if (!is_by_row(of) && !combines) {
      refuse("method", "\"linear\", \"previous\" or \"nearest\" with channels_first");
    }
  }

  void check_scale() const {
    const WindowSpec& of = window();
    const bool is_image = of.image.has_value();
    const std::int64_t channels = of.shape.empty() ? 1 : of.shape.back();
    const std::int64_t last = is_image ? image_channels(of) : channels;
    const std::int64_t elements = of.channels_first || is_image ? last : elements_of(of);
    for (const auto& [field, numbers] : {std::pair{"normalization.subtract", &of.subtract},
                                         std::pair{"normalization.multiply", &of.multiply}}) {
      if (numbers->empty()) continue;
      if (!is_computed(of) && !is_image) refuse(field, "none for rows that are copied");
      if (!std::all_of(numbers->begin(), numbers->end(),
                       [](double number) { return std::isfinite(number); })) {
        refuse(field, "finite numbers");
      }
      const auto count = static_cast<std::int64_t>(numbers->size());
      if (count == 1 || count == last || count == elements) continue;
      if (elements == 1) refuse(field, "1 number");
      const std::string some = last == elements || last == 1 ? "1" : "1, " + std::to_string(last);
      refuse(field, some + " or " + std::to_string(elements) + " numbers");
    }
  }

  /// Checks that a robot can compute the window live, or invert it.
  void check_policy() const {
    const WindowSpec& of = window();
    if (of.causal && is_by_row(of)) refuse("causal", "false with timeline \"rows\"");
    if (of.causal && !is_live(of)) refuse("causal", "false with offsets past the anchor");
    if (!of.causal && !is_by_row(of) && is_live(of)) {
      refuse("causal",
             "true without offsets past the anchor (no robot has the rows that others saw)");
    }
    if (!of.channels_first || of.image) return;
    if (!is_floating_type(of.out_dtype)) refuse("out_dtype", "floats with channels_first");
    if (of.subtract.empty() && of.multiply.empty()) {
      throw_value_error(names_.field(windows_, number_, "normalization"),
                        "a normalization with channels_first", "null");
    }
  }

  void check_reference() const {
    const WindowSpec& of = window();
    if (of.relative_to.empty()) {
      if (of.reference_columns.empty()) return;
      throw_value_error(names_.field(windows_, number_, "relative_to.columns"),
                        "none without a stream to be relative to",
                        std::to_string(of.reference_columns.size()));
    }
    constexpr char kStream[] = "relative_to.stream", kColumns[] = "relative_to.columns";
    constexpr char kMaskHint[] = " (rc.Relative(mask=) leaves elements as they are)";
    const std::size_t number = reference_of(windows_, of);
    if (number == windows_.size()) refuse(kStream, "the name of a stream");
    const WindowSpec& to = *windows_[number];
    if (!to.relative_to.empty()) refuse(kStream, "a stream that is not relative itself");
    if (!is_computed(of)) {
      refuse_type(kStream, "none for rows of " + field_text(of, "dtype"),
                  std::string(" (rows of ") + kValueTypes + " can be relative)");
    }
    if (!is_computed(to)) refuse_type(kStream, std::string("a stream of ") + kValueTypes);
    if (of.image) refuse("image", "null for a relative stream");
    if (to.image) refuse(kStream, "a stream without image");
    if (of.channels_first) refuse("channels_first", "false for a relative stream");
    if (to.channels_first) refuse(kStream, "a stream without channels_first");
    const std::int64_t channels = elements_of(to);
    if (channels > kMaxReferenceChannels) {
      refuse(kStream, "a stream of at most " + std::to_string(kMaxReferenceChannels) +
                          " elements in a row, not " + std::to_string(channels));
    }
    if (!is_floating_type(of.out_dtype)) {
      refuse_type("out_dtype", "F16, BF16, F32 or F64 for a relative stream",
                  " (rc.Window(dtype=) changes it)");
    }
    if (use_ == WindowUse::kPolicy && !of.reference_is_causal && !is_by_row(to)) {
      refuse("relative_to.causal", "true (no robot has the rows that others saw)");
    }
    const std::int64_t elements = elements_of(of);
    if (static_cast<std::int64_t>(of.reference_columns.size()) != elements) {
      refuse(kColumns, std::to_string(elements) + ", one for each element");
    }
    const std::vector<Method> own = methods_of(of), theirs = methods_of(to);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::int32_t column = of.reference_columns[i];
      if (column < -1 || column >= channels) {
        refuse(
            kColumns,
            "-1 to " + std::to_string(channels - 1) + ", the elements of " + store::quote(to.name),
            kMaskHint);
      }
      if (column < 0) continue;
      if (is_slerp(own[i])) refuse(kColumns, "-1 for a quaternion's elements", kMaskHint);
      const Method method = theirs[static_cast<std::size_t>(column)];
      const bool has_value = !is_slerp(method) && method != Method::kSum;
      if (!is_by_row(to) && !has_value) {
        refuse(kColumns,
               "elements of " + store::quote(to.name) + " that are no quaternion's and no sums",
               kMaskHint);
      }
    }
  }

  const std::vector<const WindowSpec*>& windows_;
  const WindowNames& names_;
  WindowUse use_;
  std::size_t number_ = 0;
};

}  // namespace

std::string WindowNames::field(const std::vector<const WindowSpec*>& windows, std::size_t window,
                               const std::string& path) const {
  if (prefix.empty()) {
    const std::size_t dot = path.find('.');
    const std::string of = path.substr(0, dot) + "['" + windows[window]->name + "']";
    return dot == std::string::npos ? of : of + path.substr(dot);
  }
  const WindowField* const known = find_field(path);
  const bool has_name = known != nullptr && known->path_in(version).name != nullptr;
  return prefix + "streams[" + std::to_string(window) + "]." +
         (has_name ? known->path_in(version).text() : path);
}

void check_windows(const std::vector<const WindowSpec*>& windows, const WindowNames& names,
                   WindowUse use) {
  Checker(windows, names, use).check();
}

void check_group(const std::vector<const WindowSpec*>& windows, const std::string& name) {
  const auto quoted = [](const WindowSpec& window) { return "'" + window.name + "'"; };
  for (const WindowSpec* each : windows) {
    const WindowSpec& window = *each;
    const WindowSpec& first = *windows[0];
    if (window.shape.size() > 1) {
      throw_value_error(name, "rows that are vectors",
                        quoted(window) + " of shape " + field_text(window, "shape"));
    }
    if (window.out_dtype != first.out_dtype) {
      throw_value_error(name, std::string(name_of(first.out_dtype)) + " like " + quoted(first),
                        std::string(name_of(window.out_dtype)) + " of " + quoted(window) +
                            " (rc.Window(dtype=) changes it)");
    }
    if (window.offsets != first.offsets || window.timeline != first.timeline ||
        window.has_axis != first.has_axis) {
      throw_value_error(name, "the offsets of " + quoted(first), "others of " + quoted(window));
    }
  }
}

std::size_t reference_of(const std::vector<const WindowSpec*>& windows, const WindowSpec& window) {
  const auto found = std::find_if(windows.begin(), windows.end(), [&](const WindowSpec* each) {
    return each->name == window.relative_to;
  });
  return static_cast<std::size_t>(found - windows.begin());
}

}  // namespace robocache
