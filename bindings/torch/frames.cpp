// JPEG frames of the loader's batches as a flat C API, which python/robocache/loader/frames
// declares to ctypes.
//
// A function that can fail returns a Status; robocache_error() has the message. On CUDA the caller
// makes the device current and passes the stream.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "c_api.h"
#include "robocache/jpeg.h"
#include "tensors.h"

using robocache::DataType;
using robocache::JpegFrame;
using robocache::JpegFrameTable;
using robocache::JpegLayout;
using robocache::JpegStream;
using robocache::c_api::status_of;

// The client declares structures of the same layout to ctypes.
extern "C" {

/// A robocache::JpegSources: N files and their indices, in host memory.
struct RobocacheFrameSources {
  const std::uint8_t* const* files;
  const std::int64_t* sizes;
  const std::uint64_t* const* entries;
  const std::int64_t* entry_counts;
  const std::uint32_t* scan_bits;
  std::int64_t count;
};

struct RobocacheFrameLayout {
  std::int32_t width, height, sampling, every, largest_tables;
};

/// The sizes of the arrays of a robocache::JpegFrameTable.
struct RobocacheFrameSizes {
  RobocacheFrameLayout layout;
  std::int64_t scan_words, index_size, table_words;
  std::int64_t largest_scan, largest_index;  // of a frame
};

/// The arrays of a robocache::JpegStream, on the device or on the host.
struct RobocacheFrameArrays {
  std::int64_t first_number, count;
  const std::uint32_t* scans;
  std::int64_t scan_words;
  const std::uint64_t* indices;
  std::int64_t index_size;
  const std::uint32_t* tables;
  std::int64_t table_words;
  const void* frames;  // of robocache::JpegFrame
  const std::uint8_t* const* files;
  const std::int64_t* sizes;
};

struct RobocacheFramePixels {
  std::int32_t dtype;  // DataType's number
  std::int32_t channels_first, channels, is_identity, is_linear;
};

/// A robocache::JpegStage.
struct RobocacheFrameStage {
  std::uint32_t* scans;
  std::int64_t scan_words;
  std::uint64_t* indices;
  std::int64_t index_size;
  void* frames;
  std::int64_t* numbers;
  std::int64_t capacity;
};

/// A robocache::JpegOutput.
struct RobocacheFrameOutput {
  const std::int64_t* numbers;
  std::int64_t count;
  void* values;
  bool* is_pad;
  std::int32_t first_stream, stream_count;
};

/// Outputs that one call decodes: `output_count` of them, one group's after the other's.
struct RobocacheFrameGroup {
  RobocacheFrameLayout layout;
  RobocacheFramePixels pixels;
  std::int32_t output_count;
};

}  // extern "C"

namespace {

JpegLayout layout_of(const RobocacheFrameLayout& layout) {
  JpegLayout made;
  made.width = layout.width;
  made.height = layout.height;
  made.sampling = static_cast<robocache::JpegSampling>(layout.sampling);
  made.every = layout.every;
  made.largest_tables = layout.largest_tables;
  return made;
}

robocache::JpegSources sources_of(const RobocacheFrameSources& from) {
  robocache::JpegSources sources;
  sources.files = {from.files, from.sizes, from.count};
  sources.entries = from.entries;
  sources.entry_counts = from.entry_counts;
  sources.scan_bits = from.scan_bits;
  return sources;
}

}  // namespace

extern "C" {

/// The sizes of the structures above, and of those of the library, in bytes.
ROBOCACHE_C_API const char* robocache_frames_layout() {
  static const std::string layout =
      robocache::c_api::sizes_json({{"FrameRecord", sizeof(JpegFrame)},
                                    {"FrameSources", sizeof(RobocacheFrameSources)},
                                    {"FrameLayout", sizeof(RobocacheFrameLayout)},
                                    {"FrameSizes", sizeof(RobocacheFrameSizes)},
                                    {"FrameArrays", sizeof(RobocacheFrameArrays)},
                                    {"FramePixels", sizeof(RobocacheFramePixels)},
                                    {"FrameStage", sizeof(RobocacheFrameStage)},
                                    {"FrameOutput", sizeof(RobocacheFrameOutput)},
                                    {"FrameGroup", sizeof(RobocacheFrameGroup)}});
  return layout.c_str();
}

/// The size of a JpegStream in bytes.
ROBOCACHE_C_API std::int64_t robocache_frame_stream_bytes() {
  return static_cast<std::int64_t>(sizeof(JpegStream));
}

/// Parses the headers of files. `layout` has their width, height and `every`.
ROBOCACHE_C_API int robocache_frame_table_open(const RobocacheFrameSources* sources,
                                               const RobocacheFrameLayout* layout,
                                               RobocacheFrameSizes* sizes, void** table) {
  return status_of([&] {
    auto* const made = new JpegFrameTable(sources_of(*sources), layout_of(*layout),
                                          robocache::torch_binding::on_torch_threads());
    *table = made;
    const JpegLayout& found = made->layout();
    *sizes = {{found.width, found.height, static_cast<std::int32_t>(found.sampling), found.every,
               found.largest_tables},
              made->scan_words(),
              made->index_size(),
              static_cast<std::int64_t>(made->tables().size()),
              0,
              0};
    for (std::size_t i = 0; i < made->frames().size(); ++i) {
      const JpegFrame& frame = made->frames()[i];
      if (frame.width == 0) continue;
      sizes->largest_scan =
          std::max(sizes->largest_scan, robocache::jpeg_scan_words(frame.scan_bits));
      sizes->largest_index = std::max(sizes->largest_index, sources->entry_counts[i]);
    }
  });
}

/// Copies the records and tables of a frame table, and closes it.
ROBOCACHE_C_API void robocache_frame_table_take(void* table, void* frames, std::uint32_t* tables) {
  const auto* const made = static_cast<JpegFrameTable*>(table);
  const auto copy = [](void* to, const auto& from) {
    if (!from.empty()) std::memcpy(to, from.data(), from.size() * sizeof(from[0]));
  };
  copy(frames, made->frames());
  copy(tables, made->tables());
  delete made;
}

/// Extracts the scans of files; `frames` has the records of these files.
ROBOCACHE_C_API int robocache_extract_scans(const RobocacheFrameSources* sources,
                                            const void* frames, std::uint32_t* words) {
  return status_of([&] {
    extract_jpeg_scans({sources->files, sources->sizes, sources->count},
                       static_cast<const JpegFrame*>(frames), words,
                       robocache::torch_binding::on_torch_threads());
  });
}

/// Copies the frames of a batch from files to a stage.
ROBOCACHE_C_API int robocache_stage_frames(const RobocacheFrameSources* sources, const void* frames,
                                           const std::int64_t* numbers, std::int64_t count,
                                           const RobocacheFrameStage* stage) {
  return status_of([&] {
    stage_jpeg_frames(sources_of(*sources), static_cast<const JpegFrame*>(frames), numbers, count,
                      {stage->scans, stage->scan_words, stage->indices, stage->index_size,
                       static_cast<JpegFrame*>(stage->frames), stage->numbers, stage->capacity},
                      robocache::torch_binding::on_torch_threads());
  });
}

/// Writes a JpegStream, whose conversion has the elements `table` [channels][256] of bytes, to
/// `stream`, and sets the last two members of `pixels`.
ROBOCACHE_C_API int robocache_frame_stream(const RobocacheFrameArrays* arrays,
                                           const double* subtract, const double* multiply,
                                           const std::uint64_t* table, RobocacheFramePixels* pixels,
                                           void* stream) {
  return status_of([&] {
    JpegStream made;
    made.first_number = arrays->first_number;
    made.frames = {arrays->scans,
                   arrays->scan_words,
                   arrays->indices,
                   arrays->index_size,
                   arrays->tables,
                   arrays->table_words,
                   static_cast<const JpegFrame*>(arrays->frames),
                   arrays->count};
    made.files = {arrays->files, arrays->sizes, arrays->count};
    made.conversion = robocache::make_jpeg_conversion(
        static_cast<DataType>(pixels->dtype), pixels->channels_first != 0, pixels->channels,
        subtract, multiply, reinterpret_cast<const std::uint64_t (*)[256]>(table));
    pixels->is_identity = made.conversion.pixels.is_identity ? 1 : 0;
    pixels->is_linear = made.conversion.pixels.is_linear ? 1 : 0;
    std::memcpy(stream, &made, sizeof(made));
  });
}

/// The size of the workspace for `count` frames.
ROBOCACHE_C_API int robocache_frames_workspace(const RobocacheFrameLayout* layout,
                                               std::int64_t count, std::int32_t is_cuda,
                                               std::int64_t* bytes) {
  return status_of([&] {
    *bytes = static_cast<std::int64_t>(robocache::decode_jpeg_frames_workspace_bytes(
        layout_of(*layout), count,
        is_cuda != 0 ? robocache::DeviceType::kCuda : robocache::DeviceType::kCpu));
  });
}

/// Decodes the outputs of all groups, one group after the other.
ROBOCACHE_C_API int robocache_decode_frames(const void* streams, const RobocacheFrameGroup* groups,
                                            std::int32_t group_count,
                                            const RobocacheFrameOutput* outputs,
                                            std::int64_t* damaged, void* workspace,
                                            std::int64_t workspace_bytes, std::int32_t is_cuda,
                                            void* cuda_stream) {
  return status_of([&] {
    const robocache::ExecutionContext context =
        is_cuda != 0 ? robocache::on_cuda(static_cast<CUstream_st*>(cuda_stream))
                     : robocache::torch_binding::on_torch_threads();
    for (std::int32_t g = 0; g < group_count; ++g) {
      const RobocacheFrameGroup& group = groups[g];
      std::vector<robocache::JpegOutput> wanted;
      for (std::int32_t i = 0; i < group.output_count; ++i, ++outputs) {
        wanted.push_back({outputs->numbers, outputs->count, outputs->values, outputs->is_pad,
                          nullptr, outputs->first_stream, outputs->stream_count});
      }
      const RobocacheFramePixels& pixels = group.pixels;
      decode_jpeg_frames(static_cast<const JpegStream*>(streams), wanted, layout_of(group.layout),
                         {static_cast<DataType>(pixels.dtype), pixels.channels_first != 0,
                          pixels.channels, pixels.is_identity != 0, pixels.is_linear != 0},
                         damaged, {workspace, static_cast<std::size_t>(workspace_bytes)}, context);
    }
  });
}
}
