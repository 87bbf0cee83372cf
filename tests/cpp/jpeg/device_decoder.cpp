#include "jpeg/device_decoder.h"

#include <cstring>
#include <stdexcept>

#include "robocache/build_info.h"
#if defined(ROBOCACHE_HAS_CUDA)
#include "support/device.h"
#endif

namespace robocache::testing {

std::string jpeg_device_problem() { return cuda_problem(0); }

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
  batch.largest_tables = std::max(batch.largest_tables, static_cast<std::int32_t>(tables.size()));
  return true;
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
  const DeviceMemory rows = upload(batch.rows);
  JpegFrames frames;
  frames.scans = static_cast<const std::uint32_t*>(scans.get());
  frames.scan_words = static_cast<std::int64_t>(batch.scans.size());
  frames.indices = static_cast<const std::uint64_t*>(indices.get());
  frames.index_size = static_cast<std::int64_t>(batch.indices.size());
  frames.tables = static_cast<const std::uint32_t*>(tables.get());
  frames.table_words = static_cast<std::int64_t>(batch.tables.size());
  frames.frames = static_cast<const JpegFrame*>(records.get());
  frames.frame_count = static_cast<std::int64_t>(batch.frames.size());
  frames.rows = batch.rows.empty() ? nullptr : static_cast<const std::int64_t*>(rows.get());
  frames.largest_tables = batch.largest_tables;
  const auto count =
      static_cast<std::int64_t>(batch.rows.empty() ? batch.frames.size() : batch.rows.size());
  const std::int64_t channels = conversion.channels;
  const JpegLayout& layout = batch.layout;
  DeviceDecoded made;
  made.out.assign(static_cast<std::size_t>(count * layout.width * layout.height * channels *
                                           size_of(conversion.dtype)),
                  0x5A);
  made.status.assign(static_cast<std::size_t>(count), 0x5A);
  const DeviceMemory out = upload(made.out);
  const DeviceMemory status = upload(made.status);
  const TensorView out_view =
      conversion.channels_first
          ? TensorView(out.get(), conversion.dtype, {count, channels, layout.height, layout.width},
                       DeviceType::kCuda)
          : TensorView(out.get(), conversion.dtype, {count, layout.height, layout.width, channels},
                       DeviceType::kCuda);
  const TensorView status_view(status.get(), DataType::kUInt8, {count}, DeviceType::kCuda);
  const DeviceScratch scratch(decode_jpeg_frames_workspace_bytes(layout, count));
  const CudaStream stream;
  expect_success(cudaDeviceSynchronize());
  const auto decode = [&] {
    decode_jpeg_frames(frames, layout, conversion, out_view, status_view, scratch,
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
  return made;
#else
  (void)conversion;
  (void)captured;
  throw std::logic_error(jpeg_device_problem());
#endif
}

}  // namespace robocache::testing
