#include "align/problem.h"

#include <algorithm>
#include <sstream>

namespace robocache::testing {

Stream StreamData::stream() const {
  Stream stream;
  stream.values = values.view();
  stream.times = times.view();
  stream.lengths = lengths.view();
  stream.begins = begins.view();
  stream.valid = valid.view();
  stream.subtract = subtract.view();
  stream.multiply = multiply.view();
  stream.method = method;
  stream.layout = layout;
  stream.max_gap = max_gap;
  stream.tolerance = tolerance;
  if (has(Method::kMean)) stream.mean_window = mean_window;  // tests change methods
  stream.clock_offset = clock_offset;
  return stream;
}

std::vector<Run> StreamData::runs() const {
  if (!layout.empty()) return layout;
  return {{method, values.shape().back()}};
}

bool StreamData::has(Method method) const {
  const std::vector<Run> all = runs();
  return std::any_of(all.begin(), all.end(), [=](const Run& run) { return run.method == method; });
}

bool StreamData::has_slerp() const { return has(Method::kSlerpXyzw) || has(Method::kSlerpWxyz); }

std::vector<Stream> Problem::views() const {
  std::vector<Stream> views;
  views.reserve(streams.size());
  for (const StreamData& data : streams) views.push_back(data.stream());
  return views;
}

namespace {

std::string duration_text(const std::optional<Duration>& duration) {
  if (!duration) return "none";
  return duration->is_nanoseconds() ? std::to_string(duration->nanoseconds()) + " ns"
                                    : std::to_string(duration->seconds()) + " s";
}

}  // namespace

std::string Problem::text() const {
  std::ostringstream text;
  for (const StreamData& data : streams) {
    text << "\n  values " << data.values.text() << ", times " << data.times.text() << ", lengths "
         << data.lengths.text() << ", begins " << data.begins.text() << ", valid "
         << data.valid.text() << ", subtract " << data.subtract.text() << ", multiply "
         << data.multiply.text() << ", max_gap " << duration_text(data.max_gap) << ", tolerance "
         << duration_text(data.tolerance) << ", mean_window " << duration_text(data.mean_window)
         << ", clock_offset " << duration_text(data.clock_offset) << ", runs";
    for (const Run& run : data.runs()) {
      text << " " << static_cast<int>(run.method) << "x" << run.channels;
    }
  }
  text << "\n  targets " << target_times.text() << ", outside " << static_cast<int>(options.outside)
       << ", values_out " << values_out.text() << ", valid_out " << valid_out.text() << ", age_out "
       << age_out.text();
  return text.str();
}

}  // namespace robocache::testing
