#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "jpeg.h"

namespace robocache::benchmark {
namespace {

void expect_success(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

template <typename T>
T* upload(const std::vector<T>& values) {
  void* memory = nullptr;
  expect_success(cudaMalloc(&memory, values.size() * sizeof(T)));
  expect_success(
      cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return static_cast<T*>(memory);
}

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  expect_success(cudaMalloc(&memory, bytes));
  return memory;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Frames in device memory, each at an address of its own.
struct Pool {
  JpegLayout layout;
  JpegFrames frames;
  double scan_bytes = 0, index_bytes = 0;  // per frame
  std::int64_t count = 0;
};

Pool make_pool(const Files& files, std::int64_t count) {
  std::vector<std::uint32_t> scans, tables;
  std::vector<std::uint64_t> indices;
  std::vector<JpegFrame> records;
  Pool pool;
  pool.count = count;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& file = files[static_cast<std::size_t>(i) % files.size()];
    JpegHeader header;
    JpegIndex index;
    JpegStatus status = parse_jpeg(file.data(), file.size(), header);
    if (status == JpegStatus::kOk) status = index_jpeg(file.data(), file.size(), header, 1, index);
    if (status != JpegStatus::kOk) throw std::runtime_error(describe(status));
    pool.layout = {header.width, header.height, header.sampling, 1};
    if (tables.empty()) make_jpeg_tables(header, tables);  // all frames have one encoder's
    JpegFrame record;
    record.scan = scans.size();
    record.index = indices.size();
    record.scan_bits = index.scan_bits;
    record.width = static_cast<std::uint16_t>(header.width);
    record.height = static_cast<std::uint16_t>(header.height);
    record.sampling = header.sampling;
    scans.resize(scans.size() + static_cast<std::size_t>(jpeg_scan_words(index.scan_bits)));
    extract_jpeg_scan(file.data(), file.size(), header, index.scan_bits,
                      scans.data() + record.scan);
    indices.insert(indices.end(), index.entries.begin(), index.entries.end());
    records.push_back(record);
  }
  pool.scan_bytes = 4.0 * static_cast<double>(scans.size()) / static_cast<double>(count);
  pool.index_bytes = 8.0 * static_cast<double>(indices.size()) / static_cast<double>(count);
  pool.frames.scans = upload(scans);
  pool.frames.scan_words = static_cast<std::int64_t>(scans.size());
  pool.frames.indices = upload(indices);
  pool.frames.index_size = static_cast<std::int64_t>(indices.size());
  pool.frames.tables = upload(tables);
  pool.frames.table_words = static_cast<std::int64_t>(tables.size());
  pool.layout.largest_tables = static_cast<std::int32_t>(tables.size());
  pool.frames.frames = upload(records);
  pool.frames.count = count;
  return pool;
}

/// Bytes per second of a copy in device memory, read and written.
double measure_bandwidth(cudaStream_t stream) {
  constexpr std::size_t kBytes = std::size_t{2} << 30;
  void* const from = allocate(kBytes);
  void* const to = allocate(kBytes);
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  expect_success(cudaEventCreate(&begin));
  expect_success(cudaEventCreate(&end));
  std::vector<double> seconds;
  for (int i = 0; i < 7; ++i) {
    float milliseconds = 0;
    expect_success(cudaEventRecord(begin, stream));
    expect_success(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice, stream));
    expect_success(cudaEventRecord(end, stream));
    expect_success(cudaEventSynchronize(end));
    expect_success(cudaEventElapsedTime(&milliseconds, begin, end));
    seconds.push_back(milliseconds / 1e3);
  }
  expect_success(cudaFree(from));
  expect_success(cudaFree(to));
  return 2.0 * kBytes / median(seconds);
}

/// Microseconds per batch: one graph holds the calls for all batches of the pool.
double measure_batches(const Pool& pool, int batch, const JpegConversion& conversion,
                       cudaStream_t stream) {
  const std::int64_t image_bytes = std::int64_t{pool.layout.width} * pool.layout.height *
                                   conversion.pixels.channels * size_of(conversion.pixels.dtype);
  const std::int64_t batches = pool.count / batch;
  auto* const out =
      static_cast<char*>(allocate(static_cast<std::size_t>(pool.count * image_bytes)));
  std::vector<JpegStream> streams(1);
  streams[0].frames = pool.frames;
  streams[0].conversion = conversion;
  JpegStream* const on_device = upload(streams);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(pool.count));
  std::iota(numbers.begin(), numbers.end(), 1);
  std::int64_t* const numbers_on_device = upload(numbers);
  std::int64_t* const damaged = upload(std::vector<std::int64_t>{0});
  Workspace workspace;
  workspace.bytes = decode_jpeg_frames_workspace_bytes(pool.layout, batch, DeviceType::kCuda);
  workspace.data = allocate(workspace.bytes);
  const auto decode = [&](std::int64_t i) {
    JpegOutput output;
    output.numbers = numbers_on_device + i * batch;
    output.count = batch;
    output.values = out + i * batch * image_bytes;
    decode_jpeg_frames(on_device, {output}, pool.layout, conversion.pixels, damaged, workspace,
                       on_cuda(stream));
  };
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  expect_success(cudaEventCreate(&begin));
  expect_success(cudaEventCreate(&end));
  expect_success(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (std::int64_t i = 0; i < batches; ++i) decode(i);
  expect_success(cudaStreamEndCapture(stream, &graph));
  expect_success(cudaGraphInstantiate(&replay, graph, 0));
  for (int i = 0; i < 3; ++i) expect_success(cudaGraphLaunch(replay, stream));
  std::vector<double> microseconds;
  for (int i = 0; i < 9; ++i) {
    float milliseconds = 0;
    expect_success(cudaEventRecord(begin, stream));
    expect_success(cudaGraphLaunch(replay, stream));
    expect_success(cudaEventRecord(end, stream));
    expect_success(cudaEventSynchronize(end));
    expect_success(cudaEventElapsedTime(&milliseconds, begin, end));
    microseconds.push_back(milliseconds * 1e3 / static_cast<double>(batches));
  }
  std::int64_t count = 0;
  expect_success(cudaMemcpy(&count, damaged, sizeof(count), cudaMemcpyDeviceToHost));
  if (count > 0) throw std::runtime_error("a frame was not decoded");
  expect_success(cudaGraphExecDestroy(replay));
  expect_success(cudaGraphDestroy(graph));
  expect_success(cudaFree(out));
  expect_success(cudaFree(damaged));
  expect_success(cudaFree(on_device));
  expect_success(cudaFree(numbers_on_device));
  expect_success(cudaFree(workspace.data));
  return median(microseconds);
}

// The part of nvjpeg.h that is needed.
constexpr int kRgbInterleaved = 5;
struct NvImage {
  unsigned char* channel[4];
  std::size_t pitch[4];
};
struct NvJpeg {
  int (*create)(int, void*, void*, unsigned, void**);
  int (*create_state)(void*, void**);
  int (*initialize)(void*, void*, int, int, int);
  int (*decode)(void*, void*, const unsigned char* const*, const std::size_t*, NvImage*,
                cudaStream_t);
};

/// Frames per second of nvjpegDecodeBatched; 0 if the backend does not work here.
double measure_backend(const NvJpeg& api, int backend, const Files& files, int batch, int width,
                       int height, cudaStream_t stream) {
  void* handle = nullptr;
  void* state = nullptr;
  if (api.create(backend, nullptr, nullptr, 0, &handle) != 0) return 0;
  if (api.create_state(handle, &state) != 0) return 0;
  if (api.initialize(handle, state, batch, 16, kRgbInterleaved) != 0) return 0;
  const std::size_t bytes = static_cast<std::size_t>(width) * height * 3;
  auto* const out = static_cast<unsigned char*>(allocate(bytes * batch));
  std::vector<const unsigned char*> data;
  std::vector<std::size_t> sizes;
  std::vector<NvImage> images;
  for (int i = 0; i < batch; ++i) {
    const auto& file = files[static_cast<std::size_t>(i) % files.size()];
    data.push_back(file.data());
    sizes.push_back(file.size());
    NvImage image{};
    image.channel[0] = out + bytes * i;
    image.pitch[0] = static_cast<std::size_t>(width) * 3;
    images.push_back(image);
  }
  double best = 0;
  for (int i = 0; i < 8; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    if (api.decode(handle, state, data.data(), sizes.data(), images.data(), stream) != 0) return 0;
    expect_success(cudaStreamSynchronize(stream));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (i >= 2) best = std::max(best, batch / elapsed.count());
  }
  expect_success(cudaFree(out));
  return best;
}

void measure_nvjpeg(const std::string& path, const Files& files, const JpegLayout& layout,
                    int batch, cudaStream_t stream) {
  void* const library = dlopen(path.c_str(), RTLD_NOW);
  if (library == nullptr) {
    std::printf("nvJPEG: %s\n", dlerror());
    return;
  }
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
  };
  NvJpeg api{};
  find(api.create, "nvjpegCreateEx");
  find(api.create_state, "nvjpegJpegStateCreate");
  find(api.initialize, "nvjpegDecodeBatchedInitialize");
  find(api.decode, "nvjpegDecodeBatched");
  // NVJPEG_BACKEND_GPU_HYBRID and NVJPEG_BACKEND_HARDWARE.
  for (const auto& [backend, name] : {std::pair{2, "GPU hybrid"}, {3, "hardware"}}) {
    std::printf("  nvJPEG %s, batch %d: %.0f frames/s\n", name, batch,
                measure_backend(api, backend, files, batch, layout.width, layout.height, stream));
  }
}

}  // namespace

int measure_cuda(const Files& files, const std::vector<int>& batches, const std::string& nvjpeg) {
  cudaStream_t stream = nullptr;
  expect_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaDeviceProp properties{};
  expect_success(cudaGetDeviceProperties(&properties, 0));
  const double bandwidth = measure_bandwidth(stream);
  const Pool pool = make_pool(files, files[0].size() > 30'000 ? 1024 : 2048);
  std::printf("%s, copy %.2f TB/s; %dx%d, %zu files, scan %.0f and index %.0f bytes per frame\n",
              properties.name, bandwidth / 1e12, pool.layout.width, pool.layout.height,
              files.size(), pool.scan_bytes, pool.index_bytes);
  const double mean[3] = {0.485 * 255, 0.456 * 255, 0.406 * 255};
  const double factor[3] = {1 / (0.229 * 255), 1 / (0.224 * 255), 1 / (0.225 * 255)};
  const JpegConversion bytes = make_jpeg_conversion(DataType::kUInt8, false, 3, nullptr, nullptr);
  const JpegConversion normalized =
      make_jpeg_conversion(DataType::kBFloat16, true, 3, mean, factor);
  for (const int batch : batches) {
    const double moved =
        pool.scan_bytes + pool.index_bytes + 3.0 * pool.layout.width * pool.layout.height;
    const double floor = 1e6 * batch * moved / bandwidth;
    const double rgb = measure_batches(pool, batch, bytes, stream);
    const double half = measure_batches(pool, batch, normalized, stream);
    std::printf(
        "  batch %4d: RGB bytes %6.1f us (%.2f M frames/s; floor %.1f us, %.0f %%), "
        "bf16 [C,H,W] %6.1f us (%.2f)\n",
        batch, rgb, batch / rgb, floor, 100 * floor / rgb, half, half / rgb);
    std::fflush(stdout);
  }
  if (!nvjpeg.empty()) measure_nvjpeg(nvjpeg, files, pool.layout, batches.back(), stream);
  return 0;
}

}  // namespace robocache::benchmark
