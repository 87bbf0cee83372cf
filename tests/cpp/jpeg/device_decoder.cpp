#include "jpeg/device_decoder.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "robocache/build_info.h"
#if defined(ROBOCACHE_HAS_CUDA)
#include "support/device.h"
#endif

namespace robocache::testing {

bool append_frame(Batch& batch, const Bytes& bytes) {
  JpegHeader header;
  if (parse_jpeg(bytes.data(), bytes.size(), header) != JpegStatus::kOk) return false;
  JpegIndex index;
  const JpegStatus status =
      index_jpeg(bytes.data(), bytes.size(), header, batch.layout.every, index);
  if (status != JpegStatus::kOk && status != JpegStatus::kDamaged) return false;
  JpegFrame frame;
  frame.scan = batch.scans.size();
  frame.index = batch.indices.size();
  frame.tables = static_cast<std::uint32_t>(batch.tables.size());
  frame.scan_bits = index.scan_bits;
  frame.width = static_cast<std::uint16_t>(header.width);
  frame.height = static_cast<std::uint16_t>(header.height);
  frame.restart_interval = header.restart_interval;
  frame.every = static_cast<std::uint16_t>(batch.layout.every);
  frame.sampling = header.sampling;
  std::vector<std::uint32_t> tables;
  make_jpeg_tables(header, tables);
  const auto words = static_cast<std::size_t>(jpeg_scan_words(index.scan_bits));
  batch.scans.resize(batch.scans.size() + words);
  extract_jpeg_scan(bytes.data(), bytes.size(), header, index.scan_bits,
                    batch.scans.data() + frame.scan);
  batch.indices.insert(batch.indices.end(), index.entries.begin(), index.entries.end());
  batch.tables.insert(batch.tables.end(), tables.begin(), tables.end());
  batch.frames.push_back(frame);
  batch.layout.largest_tables =
      std::max(batch.layout.largest_tables, static_cast<std::int32_t>(tables.size()));
  return true;
}

Bytes image_of(const DeviceDecoded& decoded, std::size_t i) {
  const std::size_t size = decoded.out.size() / decoded.status.size();
  const auto begin = decoded.out.begin() + static_cast<std::ptrdiff_t>(i * size);
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

JpegConversion bytes_of(int channels) {
  return make_jpeg_conversion(DataType::kUInt8, false, channels, nullptr, nullptr);
}

DeviceDecoded decode_on_device(const Batch& batch, const JpegConversion& conversion,
                               bool captured) {
#if defined(ROBOCACHE_HAS_CUDA)
  const auto upload = [](const auto& values) {
    const std::size_t bytes = values.size() * sizeof(values[0]);
    DeviceMemory memory = device_memory(bytes);
    expect_success(cudaMemcpy(memory.get(), values.data(), bytes, cudaMemcpyHostToDevice));
    return memory;
  };
  const DeviceMemory scans = upload(batch.scans);
  const DeviceMemory indices = upload(batch.indices);
  const DeviceMemory tables = upload(batch.tables);
  const DeviceMemory records = upload(batch.frames);
  std::vector<std::int64_t> numbers = batch.numbers;
  if (numbers.empty()) {
    numbers.resize(batch.frames.size());
    std::iota(numbers.begin(), numbers.end(), 1);
  }
  const DeviceMemory numbers_memory = upload(numbers);
  std::vector<JpegStream> streams(1);
  JpegFrames& frames = streams[0].frames;
  frames.scans = static_cast<const std::uint32_t*>(scans.get());
  frames.scan_words = static_cast<std::int64_t>(batch.scans.size());
  frames.indices = static_cast<const std::uint64_t*>(indices.get());
  frames.index_size = static_cast<std::int64_t>(batch.indices.size());
  frames.tables = static_cast<const std::uint32_t*>(tables.get());
  frames.table_words = static_cast<std::int64_t>(batch.tables.size());
  frames.frames = static_cast<const JpegFrame*>(records.get());
  frames.count = static_cast<std::int64_t>(batch.frames.size());
  streams[0].conversion = conversion;
  const DeviceMemory streams_memory = upload(streams);
  const auto count = static_cast<std::int64_t>(numbers.size());
  const JpegLayout& layout = batch.layout;
  const JpegPixels& pixels = conversion.pixels;
  const std::int64_t image_bytes = static_cast<std::int64_t>(layout.width) * layout.height *
                                   pixels.channels * size_of(pixels.dtype);
  DeviceDecoded made;
  made.out.assign(static_cast<std::size_t>(count * image_bytes), 0x5A);
  made.status.assign(static_cast<std::size_t>(count), 0x5A);
  const DeviceMemory out = upload(made.out);
  const DeviceMemory status = upload(made.status);
  const std::vector<std::int64_t> none = {0};
  const DeviceMemory damaged = upload(none);
  // In two outputs, where there are as many.
  std::vector<JpegOutput> outputs(count > 1 ? 2 : 1);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::int64_t end = i + 1 == outputs.size() ? count : count / 2;
    outputs[i].numbers = static_cast<const std::int64_t*>(numbers_memory.get()) + begin;
    outputs[i].count = end - begin;
    outputs[i].values = static_cast<char*>(out.get()) + begin * image_bytes;
    outputs[i].status = static_cast<std::uint8_t*>(status.get()) + begin;
    begin = end;
  }
  const DeviceScratch scratch(decode_jpeg_frames_workspace_bytes(layout, count, DeviceType::kCuda));
  const CudaStream stream;
  expect_success(cudaDeviceSynchronize());
  const auto decode = [&] {
    decode_jpeg_frames(static_cast<const JpegStream*>(streams_memory.get()), outputs, layout,
                       pixels, static_cast<std::int64_t*>(damaged.get()), scratch,
                       on_cuda(stream.get()));
  };
  if (captured) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    expect_success(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
    decode();
    expect_success(cudaStreamEndCapture(stream.get(), &graph));
    expect_success(cudaGraphInstantiate(&replay, graph, 0));
    for (int i = 0; i < 3; ++i) expect_success(cudaGraphLaunch(replay, stream.get()));
    stream.wait();
    expect_success(cudaGraphExecDestroy(replay));
    expect_success(cudaGraphDestroy(graph));
  } else {
    decode();
    stream.wait();
  }
  expect_success(cudaMemcpy(made.out.data(), out.get(), made.out.size(), cudaMemcpyDeviceToHost));
  expect_success(
      cudaMemcpy(made.status.data(), status.get(), made.status.size(), cudaMemcpyDeviceToHost));
  expect_success(
      cudaMemcpy(&made.damaged, damaged.get(), sizeof(made.damaged), cudaMemcpyDeviceToHost));
  return made;
#else
  (void)batch;
  (void)conversion;
  (void)captured;
  throw std::logic_error(cuda_problem(0));
#endif
}

}  // namespace robocache::testing
