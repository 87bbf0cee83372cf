// The parts of robocache_jpeg_bench.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "robocache/jpeg.h"

namespace robocache::benchmark {

using Files = std::vector<std::vector<std::uint8_t>>;

int measure_cpu(const Files& files);
int measure_cuda(const Files& files, const std::vector<int>& batches, const std::string& nvjpeg);

}  // namespace robocache::benchmark
