// Prints the contents of an episode store: show_store STORE [EPISODE STREAM]
// With an episode and a stream, prints the times of its rows as CSV.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>

#include "robocache/error.h"
#include "robocache/store.h"

namespace {

void show(const robocache::EpisodeStore& store) {
  std::printf("%s: %lld episodes\n", store.path().c_str(),
              static_cast<long long>(store.episodes()));
  for (std::size_t i = 0; i < store.streams().size(); ++i) {
    const robocache::StreamInfo& stream = store.streams()[i];
    std::string shape;
    for (const std::int64_t size : stream.shape) shape += " x " + std::to_string(size);
    std::printf("  %s: %lld rows%s of %s\n", stream.name.c_str(),
                static_cast<long long>(store.rows(static_cast<std::int64_t>(i))), shape.c_str(),
                robocache::name_of(stream.dtype));
  }
}

void show_times(const robocache::EpisodeStore& store, std::int64_t episode,
                const std::string& name) {
  const auto stream = store.find_stream(name);
  if (!stream) throw std::runtime_error(name + ": expected a stream of the store");
  const robocache::StreamRows rows = store.rows(episode, *stream);
  const auto* times = static_cast<const std::int64_t*>(rows.times.data);
  std::printf("row,time_ns\n");
  for (std::int64_t i = 0; i < rows.times.shape[0]; ++i) {
    std::printf("%lld,%lld\n", static_cast<long long>(i), static_cast<long long>(times[i]));
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2 && count != 4) {
    std::fprintf(stderr, "usage: show_store STORE [EPISODE STREAM]\n");
    return 2;
  }
  try {
    const robocache::EpisodeStore store(arguments[1]);
    if (count == 2) {
      show(store);
    } else {
      show_times(store, std::strtoll(arguments[2], nullptr, 10), arguments[3]);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
