// Resamples a CSV file on the CPU: a time column in seconds, then one column per channel.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "robocache/align.h"
#include "robocache/execution.h"
#include "robocache/tensor_view.h"

namespace {

constexpr std::string_view kUsage =
    R"(usage: resample_csv INPUT.csv OUTPUT.csv --rate HZ [--method NAME] [--max-gap SECONDS]

Resamples INPUT.csv, whose first line names its columns and whose first column is the time in
seconds, ascending, to a constant rate from its first time to its last. OUTPUT.csv has the same
columns and one more, valid: 0 if the rows around a time are farther apart than --max-gap.

  --rate HZ          rows per second in the output
  --method NAME      linear (default), previous or nearest
  --max-gap SECONDS  largest distance between rows (previous, nearest: to the row) (unlimited)
  --help             print this
)";

struct Arguments {
  std::string input;
  std::string output;
  double rate = 0.0;
  robocache::Method method = robocache::Method::kLinear;
  double max_gap = INFINITY;
};

struct Table {
  std::vector<std::string> names;  // of all columns, the time's first
  std::vector<double> times;       // [S]
  std::vector<double> values;      // [S,D], row-major

  std::size_t channels() const { return names.size() - 1; }
};

/// The number that `text` is, all of it, or nothing but an error that says where it stood.
double parse_number(const std::string& text, const std::string& where) {
  double number = 0.0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end) {
    throw std::runtime_error(where + ": expected a number, got '" + text + "'");
  }
  return number;
}

robocache::Method parse_method(const std::string& name) {
  if (name == "linear") return robocache::Method::kLinear;
  if (name == "previous") return robocache::Method::kPrevious;
  if (name == "nearest") return robocache::Method::kNearest;
  throw std::runtime_error("--method: expected linear, previous or nearest, got '" + name + "'");
}

Arguments parse_arguments(const std::vector<std::string>& words) {
  Arguments arguments;
  std::vector<std::string> files;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.rfind("--", 0) != 0) {
      files.push_back(word);
      continue;
    }
    if (word != "--rate" && word != "--method" && word != "--max-gap") {
      throw std::runtime_error("there is no option " + word + "; --help lists them");
    }
    if (++i == words.size()) throw std::runtime_error(word + ": expected a value after it");
    if (word == "--rate") arguments.rate = parse_number(words[i], word);
    if (word == "--method") arguments.method = parse_method(words[i]);
    if (word == "--max-gap") arguments.max_gap = parse_number(words[i], word);
  }
  if (files.size() != 2) {
    throw std::runtime_error("expected an input and an output file; --help says more");
  }
  if (!(arguments.rate > 0.0) || std::isinf(arguments.rate)) {
    throw std::runtime_error("--rate: expected a number above 0 (it must be given)");
  }
  arguments.input = std::move(files[0]);
  arguments.output = std::move(files[1]);
  return arguments;
}

/// `text` without surrounding spaces and the \r of Windows line ends.
std::string trim(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin));
}

std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> cells;
  for (std::size_t comma = line.find(','); comma != std::string_view::npos;
       comma = line.find(',')) {
    cells.push_back(trim(line.substr(0, comma)));
    line.remove_prefix(comma + 1);
  }
  cells.push_back(trim(line));
  return cells;
}

void check_files(const std::string& input, const std::string& output) {
  std::error_code ignored;  // opening the file reports the error
  for (const std::string& path : {input, output}) {
    if (std::filesystem::is_directory(path, ignored)) {
      throw std::runtime_error(path + ": expected a file, got a directory");
    }
  }
  if (std::filesystem::equivalent(input, output, ignored)) {
    throw std::runtime_error(output + ": expected another file than the input, got the same");
  }
}

Table read_table(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": can't be opened");

  Table table;
  std::string line;
  std::getline(file, line);
  table.names = split(line);
  if (table.channels() < 1) {
    throw std::runtime_error(path + ": expected a time column and at least one more");
  }

  for (int number = 2; std::getline(file, line); ++number) {
    if (trim(line).empty()) continue;
    const std::string where = path + ":" + std::to_string(number);
    const std::vector<std::string> cells = split(line);
    if (cells.size() != table.names.size()) {
      throw std::runtime_error(where + ": expected " + std::to_string(table.names.size()) +
                               " columns, got " + std::to_string(cells.size()));
    }
    const double time = parse_number(cells[0], where);
    if (!std::isfinite(time)) {
      throw std::runtime_error(where + ": " + table.names[0] + ": expected a finite time, got '" +
                               cells[0] + "'");
    }
    table.times.push_back(time);
    for (std::size_t c = 1; c < cells.size(); ++c) {
      table.values.push_back(parse_number(cells[c], where));
    }
  }
  if (table.times.empty()) throw std::runtime_error(path + ": expected rows under the names");
  return table;
}

/// The shortest text that is parsed to the same number.
std::string text_of(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), number).ptr};
}

/// Times from the first to the last, at multiples of the period, so that rounding errors do not
/// accumulate.
std::vector<double> make_timeline(double first, double last, double rate) {
  constexpr double kMostRows = 1e8;
  const double periods = (last - first) * rate;
  if (!(periods < kMostRows)) {
    throw std::runtime_error("--rate: expected less than 1e8 rows of output, got " +
                             text_of(periods));
  }
  std::vector<double> times;
  for (std::int64_t i = 0; static_cast<double>(i) <= periods; ++i) {
    times.push_back(first + static_cast<double>(i) / rate);
  }
  return times;
}

void write_table(const std::string& path, const std::vector<std::string>& names,
                 const std::vector<double>& times, const std::vector<double>& values,
                 const bool* valid) {
  std::ofstream file(path);
  for (const std::string& name : names) file << name << ',';
  file << "valid\n";
  const std::size_t channels = names.size() - 1;
  for (std::size_t t = 0; t < times.size(); ++t) {
    file << text_of(times[t]) << ',';
    for (std::size_t c = 0; c < channels; ++c) file << text_of(values[t * channels + c]) << ',';
    file << valid[t] << '\n';
  }
  file.close();
  if (!file) throw std::runtime_error(path + ": can't be written");
}

void resample(const Arguments& arguments) {
  using robocache::array;
  check_files(arguments.input, arguments.output);
  const Table table = read_table(arguments.input);
  const auto rows = static_cast<std::int64_t>(table.times.size());
  const auto channels = static_cast<std::int64_t>(table.channels());

  const auto [first, last] = std::minmax_element(table.times.begin(), table.times.end());
  const std::vector<double> timeline = make_timeline(*first, *last, arguments.rate);
  const auto targets = static_cast<std::int64_t>(timeline.size());

  robocache::Stream stream;
  stream.values = array(table.values.data(), {rows, channels});
  stream.times = array(table.times.data(), {rows});
  stream.method = arguments.method;
  if (!std::isinf(arguments.max_gap)) {
    stream.max_gap = robocache::Duration::seconds(arguments.max_gap);
  }

  std::vector<double> values(timeline.size() * table.channels());
  const auto valid = std::make_unique<bool[]>(timeline.size());
  robocache::align(&stream, 1, array(timeline.data(), {targets}), robocache::AlignOptions{},
                   array(values.data(), {targets, channels}), array(valid.get(), {targets, 1}),
                   robocache::TensorView{}, robocache::on_cpu());

  write_table(arguments.output, table.names, timeline, values, valid.get());
  std::cout << arguments.output << ": " << targets << " rows from " << rows << '\n';
}

}  // namespace

int main(int count, char** words) {
  try {
    const std::vector<std::string> arguments(words + 1, words + count);
    if (std::find(arguments.begin(), arguments.end(), "--help") != arguments.end()) {
      std::cout << kUsage;
      return 0;
    }
    resample(parse_arguments(arguments));
    return 0;
  } catch (const std::bad_alloc&) {
    std::cerr << "resample_csv: out of memory; a lower --rate or a shorter input needs less\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "resample_csv: " << error.what() << '\n';
    return 1;
  }
}
