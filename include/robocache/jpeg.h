// JPEG frames of cameras: parsing, an index for parallel decoding, decoding on CPU and CUDA to the
// same bytes, and encoding.
//
// The CPU decodes with libjpeg-turbo and its default settings: the accurate integer DCT (islow) and
// smooth ("fancy") upsampling of chroma. CUDA decodes with kernels of this library to the same
// bytes. Their threads start in the middle of a frame, at entries of an index that `index_jpeg`
// computes once per frame and a store keeps:
//
//     JpegHeader header;
//     JpegIndex index;
//     if (parse_jpeg(bytes, size, header) == JpegStatus::kOk &&
//         index_jpeg(bytes, size, header, 1, index) == JpegStatus::kOk) ...
//
// Functions of single frames return a status and throw nothing but std::bad_alloc, so that callers
// can process frames in parallel and count the damaged ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "robocache/execution.h"
#include "robocache/export.h"
#include "robocache/tensor_view.h"

namespace robocache {

/// The largest width and height of a frame that can be indexed.
inline constexpr std::int32_t kMaxJpegSide = 4096;
/// The most MCUs per entry of an index (JpegIndex).
inline constexpr std::int32_t kMaxJpegEvery = 65535;

/// The outcome for one frame. `describe` returns its text.
enum class JpegStatus : std::uint8_t {
  kOk,
  kDamaged,  // decoded; libjpeg-turbo repaired the data, as of a truncated frame
  // Frames that have no image.
  kNotJpeg,
  kTruncatedHeader,
  kInvalidHeader,
  kUndecodable,  // libjpeg-turbo reports an error
  // Valid frames that the CPU decodes, and that must be encoded again for an index.
  kProgressive,
  kArithmetic,
  kLossless,
  kDepth,          // not 8 bits per sample
  kComponents,     // neither 1 nor 3 components: CMYK
  kColorSpace,     // 3 components that are not YCbCr
  kSampling,       // not 4:4:4, 4:2:2, 4:4:0 or 4:2:0
  kMultipleScans,  // baseline, with more than one scan
  kTooLarge,       // wider or higher than kMaxJpegSide
  // Damage that an index cannot represent.
  kHuffmanTables,  // many codes are not assigned
  kMarkers,        // restart markers or fill bytes that are out of place
  kValues,         // DC values outside the range of 8-bit frames
  // Disagreement of a frame and its index, or of a frame and the batch.
  kIndexMismatch,
  kLayoutMismatch,
  kBadFrame,  // a frame's record points outside the batch's arrays
};

/// The status as a phrase that follows "expected baseline JPEG, got ": "a progressive JPEG". What
/// messages call baseline JPEG is what `index_jpeg` accepts: Huffman-coded sequential JPEG with one
/// scan, 8 bits, gray or YCbCr in a JpegSampling, and sides of at most kMaxJpegSide.
ROBOCACHE_API const char* describe(JpegStatus status);

/// Whether libjpeg-turbo can decode a frame with this status.
constexpr bool has_image(JpegStatus status) {
  return status < JpegStatus::kNotJpeg ||
         (status >= JpegStatus::kProgressive && status < JpegStatus::kIndexMismatch);
}

/// Chroma sampling. MCUs (minimum coded units) are 8x8, 8x8, 16x8, 8x16 and 16x16 pixels.
enum class JpegSampling : std::uint8_t { kGray, k444, k422, k440, k420 };

/// The name of a sampling: "4:2:0"; "4:0:0" of gray frames.
ROBOCACHE_API const char* name_of(JpegSampling sampling);

/// The size of a component's quantization table and of a Huffman table as files have them.
inline constexpr int kJpegBlockSize = 64;

struct JpegQuantization {
  std::uint16_t steps[kJpegBlockSize] = {};  // in natural (row-major) order
};

struct JpegHuffman {
  std::uint8_t counts[16] = {};    // the number of codes of length 1 to 16
  std::uint8_t symbols[256] = {};  // in the order of the codes
};

/// The contents of a baseline JPEG's header. Unless `parse_jpeg` returns kOk, members after the
/// reason are not set.
struct JpegHeader {
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::int32_t components = 0;   // 1 or 3
  std::int32_t orientation = 1;  // of EXIF: 1 to 8; 1 is upright
  JpegSampling sampling = JpegSampling::kGray;
  std::uint16_t restart_interval = 0;  // MCUs between restart markers; 0: none
  std::size_t scan_begin = 0;          // the first byte of entropy-coded data
  JpegQuantization quantization[3];    // of each component
  JpegHuffman dc[3], ac[3];            // of each component
};

/// Parses a header up to the first scan. The bytes may be anything.
ROBOCACHE_API JpegStatus parse_jpeg(const void* bytes, std::size_t size, JpegHeader& header);

/// The quality, 1 to 100, for which libjpeg computes the quantization tables of a frame, as it does
/// for Pillow, OpenCV and ROS; 0 if there is none, as for frames of FFmpeg and of many cameras.
ROBOCACHE_API std::int32_t find_jpeg_quality(const JpegHeader& header);

/// The index of a frame: where threads can start to decode, and with which DC predictions.
///
/// Positions are bits of the frame's *plain scan*: its entropy-coded data without stuffing (the
/// zero byte after each 0xFF) and without restart markers, so that neither needs to be detected
/// where it is decoded. An entry is 8 bytes, at every `every`-th MCU; 32 entries follow a common
/// base:
///
///     bits   0..17   position minus base        31..41   DC prediction of luma
///           18..30   start of chroma            42..52   of Cb
///                    minus position             53..63   of Cr
///
/// Where `every` is above 1, and in gray frames, bits 0 to 30 are the position minus the base.
///
/// Entries at every MCU are 13 % of a frame of 224x224 at quality 90 (1,624 of 12,499 bytes), 23 %
/// at 640x480; those of every other MCU half of that, and so on. With an entry at every MCU, two
/// threads decode an MCU: one its luma, the other its chroma. The plain scan need not be stored:
/// extracting it is a copy.
///
/// An entry of ones marks an MCU after the end of a truncated scan, which is gray.
struct JpegIndex {
  std::vector<std::uint64_t> entries;  // a base, 32 entries, a base, ...
  std::uint32_t scan_bits = 0;         // the size of the plain scan
  std::int32_t every = 1;
};

/// The number of 8-byte elements of an index, bases included.
ROBOCACHE_API std::int64_t jpeg_index_size(std::int32_t width, std::int32_t height,
                                           JpegSampling sampling, std::int32_t every);

/// Computes the index of a frame by one pass over its scan. Returns kOk; kDamaged for a truncated
/// frame, whose index gives the image that libjpeg-turbo gives, with gray in place of missing MCUs;
/// or the reason why the frame cannot be indexed. `every`: MCUs per entry, 1 to kMaxJpegEvery.
ROBOCACHE_API JpegStatus index_jpeg(const void* bytes, std::size_t size, const JpegHeader& header,
                                    std::int32_t every, JpegIndex& index);

/// Encoded frames in host memory, as the CPU decodes them.
struct JpegFiles {
  const std::uint8_t* const* files = nullptr;
  const std::int64_t* sizes = nullptr;  // bytes; 0: there is no image
  std::int64_t count = 0;
};

/// The index of a file, as `index_jpegs` computes it.
struct JpegIndexRow {
  std::uint64_t* entries = nullptr;  // [size]; unspecified unless the status is kOk or kDamaged
  std::int64_t size = 0;             // `jpeg_index_size`
  std::uint32_t scan_bits = 0;
  JpegStatus status = JpegStatus::kOk;  // of `parse_jpeg`, then of `index_jpeg`
};

/// Computes the indices of files on this thread, two at a time, which takes two thirds of the time
/// of `index_jpeg` for each. The caller sets the entries and sizes of `rows`, [files.count]. A file
/// whose index has another size is kIndexMismatch.
ROBOCACHE_API void index_jpegs(const JpegFiles& files, std::int32_t every, JpegIndexRow* rows);

/// Verifies that `entries` and `scan_bits` are those that `index_jpeg` computes for these bytes.
/// Returns the status of `index_jpeg`, or kIndexMismatch.
ROBOCACHE_API JpegStatus verify_jpeg_index(const void* bytes, std::size_t size, std::int32_t every,
                                           const std::uint64_t* entries, std::int64_t entry_count,
                                           std::uint32_t scan_bits);

/// The number of 32-bit words that `extract_jpeg_scan` writes for a plain scan of so many bits: the
/// bits and at least 64 zeros, in whole units of 16 bytes.
constexpr std::int64_t jpeg_scan_words(std::uint32_t scan_bits) {
  return (static_cast<std::int64_t>(scan_bits) / 32 + 3 + 3) / 4 * 4;
}

/// Writes the plain scan of an indexed frame as 32-bit words, the first bit highest: at most
/// `scan_bits` bits, and zeros up to the end of jpeg_scan_words. Returns the number of bits of the
/// scan that it has written, fewer than `scan_bits` where the scan ends before; or -1, without
/// writing anything, if the scan would begin after the end of the bytes.
ROBOCACHE_API std::int64_t extract_jpeg_scan(const void* bytes, std::size_t size,
                                             const JpegHeader& header, std::uint32_t scan_bits,
                                             std::uint32_t* words);

/// The quantization and Huffman tables of frames as kernels read them, about 15 KB. Frames with
/// equal tables share them. A multiple of 4 words.
ROBOCACHE_API JpegStatus make_jpeg_tables(const JpegHeader& header,
                                          std::vector<std::uint32_t>& words);

/// The most words that `make_jpeg_tables` returns.
inline constexpr std::int32_t kMaxJpegTableWords = 8192;

/// A rectangle of a frame. Zero width or height: the whole frame.
struct JpegCrop {
  std::int32_t x = 0, y = 0, width = 0, height = 0;
};

/// Decodes frames with libjpeg-turbo. One thread at a time uses a decoder; it keeps its memory
/// between frames.
class ROBOCACHE_API JpegDecoder {
 public:
  JpegDecoder();  // throws std::bad_alloc
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  /// Reads the size of a frame of any kind that libjpeg-turbo decodes.
  JpegStatus read_size(const void* bytes, std::size_t size, std::int32_t& width,
                       std::int32_t& height) noexcept;

  /// Decodes a frame, or a rectangle of it, into rows of `channels` bytes per pixel: 3 for RGB, 1
  /// for luma. The bytes are those of the whole image, cropped; rows below the rectangle are not
  /// decoded, and of those above it only the entropy code is.
  ///
  /// `width` and `height` are the expected size of the whole frame. `row_stride` is in bytes.
  /// Unless the result is kOk or kDamaged, `out` is filled with zeros.
  JpegStatus decode(const void* bytes, std::size_t size, std::int32_t width, std::int32_t height,
                    std::int32_t channels, const JpegCrop& crop, std::uint8_t* out,
                    std::ptrdiff_t row_stride) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Options of JpegEncoder.
struct JpegEncoding {
  std::int32_t quality = 95;                   // 1 to 100
  JpegSampling sampling = JpegSampling::k420;  // of RGB pixels; kGray: luma alone
  std::int32_t restart_interval = 0;           // in MCUs
  bool optimize_huffman = false;               // tables for each frame: smaller, slower
};

/// A frame of video: luma [height, width], and Cb and Cr at half resolution, rounded up. Strides
/// are in bytes.
struct VideoPlanes {
  const std::uint8_t* luma = nullptr;
  const std::uint8_t* cb = nullptr;
  const std::uint8_t* cr = nullptr;
  std::ptrdiff_t luma_stride = 0;
  std::ptrdiff_t chroma_stride = 0;
  std::int32_t width = 0;
  std::int32_t height = 0;
  bool is_full_range = false;  // luma 0 to 255, as JPEG has it; else luma 16 to 235, chroma to 240
};

/// Encodes frames with libjpeg-turbo. One thread at a time uses an encoder.
class ROBOCACHE_API JpegEncoder {
 public:
  explicit JpegEncoder(const JpegEncoding& options = {});  // throws ValueError
  ~JpegEncoder();
  JpegEncoder(const JpegEncoder&) = delete;
  JpegEncoder& operator=(const JpegEncoder&) = delete;

  /// Encodes rows of `channels` bytes per pixel, 3 or 1, as a baseline JPEG. Returns kOk,
  /// kTooLarge, or kUndecodable if memory runs out.
  JpegStatus encode(const std::uint8_t* pixels, std::int32_t width, std::int32_t height,
                    std::int32_t channels, std::ptrdiff_t row_stride,
                    std::vector<std::uint8_t>& bytes) noexcept;

  /// Encodes a frame of video with 4:2:0 sampling, whatever the options say, without a conversion
  /// to RGB. The frame's matrix must be that of BT.601, as JPEG's is. Returns as `encode`.
  JpegStatus encode_planes(const VideoPlanes& planes, std::vector<std::uint8_t>& bytes) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes a JPEG that is progressive, arithmetic-coded or of several scans as a baseline JPEG, with
/// the same coefficients and therefore the same pixels. Metadata, such as EXIF, are left out.
/// Returns kOk, kDamaged for a frame that libjpeg-turbo would repair, kNotJpeg, kTooLarge, kDepth
/// or kUndecodable. `rewritten` is empty unless the result is kOk.
ROBOCACHE_API JpegStatus rewrite_jpeg(const void* bytes, std::size_t size,
                                      std::vector<std::uint8_t>& rewritten);

/// The version of libjpeg-turbo that this library was built with: "2.1.5".
ROBOCACHE_API const char* jpeg_library_version();

/// The properties that all frames of a call of decode_jpeg_frames share.
struct JpegLayout {
  std::int32_t width = 0;
  std::int32_t height = 0;
  // The others matter on CUDA only.
  JpegSampling sampling = JpegSampling::k420;
  std::int32_t every = 1;                            // MCUs per entry of the index
  std::int32_t largest_tables = kMaxJpegTableWords;  // words of the largest tables in use
};

/// A frame as CUDA decodes it. Positions count elements of the arrays of JpegFrames.
struct JpegFrame {
  std::uint64_t scan = 0;       // its first word in `scans`, a multiple of 4
  std::uint64_t index = 0;      // its first element in `indices`
  std::uint32_t tables = 0;     // its first word in `tables`, a multiple of 4
  std::uint32_t scan_bits = 0;  // of JpegIndex
  std::uint16_t width = 0;      // must be those of the layout; 0: there is no image
  std::uint16_t height = 0;
  std::uint16_t restart_interval = 0;
  std::uint16_t every = 1;
  JpegSampling sampling = JpegSampling::kGray;
  std::uint8_t reserved[7] = {};
};
static_assert(sizeof(JpegFrame) == 40, "part of the interface of kernels and clients");

/// Encoded frames in memory that the GPU reads: its own, or pinned host memory. Scans, indices and
/// frame records may hold anything: kernels stay within the arrays, and report frames that are not
/// valid.
struct JpegFrames {
  const std::uint32_t* scans = nullptr;  // `extract_jpeg_scan`; aligned to 16 bytes
  std::int64_t scan_words = 0;
  const std::uint64_t* indices = nullptr;  // `index_jpeg`
  std::int64_t index_size = 0;
  const std::uint32_t* tables = nullptr;  // `make_jpeg_tables`; aligned to 16 bytes
  std::int64_t table_words = 0;
  const JpegFrame* frames = nullptr;
  std::int64_t count = 0;
};

/// Files and their indices, as stores hold them.
struct JpegSources {
  JpegFiles files;
  const std::uint64_t* const* entries = nullptr;  // [count] the index of each frame
  const std::int64_t* entry_counts = nullptr;     // [count]; 0: no index, and so no image on CUDA
  const std::uint32_t* scan_bits = nullptr;       // [count] of JpegIndex
};

/// The frame records and tables of files, from their headers. Equal tables are stored once.
class ROBOCACHE_API JpegFrameTable {
 public:
  /// Parses the headers, in the context's threads. `layout` has the width, height and `every` of
  /// the frames; a frame that differs, or that has no valid header or index, has no image. Throws
  /// ValueError, whose message has the frame's number, if frames differ in sampling.
  JpegFrameTable(const JpegSources& sources, const JpegLayout& layout,
                 const ExecutionContext& context);

  /// The layout, with the sampling and the size of the largest tables.
  const JpegLayout& layout() const { return layout_; }
  /// A record for each file. Scans of frames with an image, and all indices, follow each other in
  /// the order of the files.
  const std::vector<JpegFrame>& frames() const { return frames_; }
  const std::vector<std::uint32_t>& tables() const { return tables_; }
  /// The sizes of the arrays of all scans and of all indices.
  std::int64_t scan_words() const { return scan_words_; }
  std::int64_t index_size() const { return index_size_; }

 private:
  JpegLayout layout_;
  std::vector<JpegFrame> frames_;
  std::vector<std::uint32_t> tables_;
  std::int64_t scan_words_ = 0;
  std::int64_t index_size_ = 0;
};

/// Extracts the plain scans of files, in the context's threads. `frames`: their records, whose
/// `scan` is the position in `words`. A scan that does not fit its record is zeros, which kernels
/// report.
ROBOCACHE_API void extract_jpeg_scans(const JpegFiles& files, const JpegFrame* frames,
                                      std::uint32_t* words, const ExecutionContext& context);

/// Memory for the frames of a batch that CUDA reads, which `stage_jpeg_frames` fills: `capacity`
/// frames, and as many times the largest scan and index.
struct JpegStage {
  std::uint32_t* scans = nullptr;  // aligned to 16 bytes
  std::int64_t scan_words = 0;
  std::uint64_t* indices = nullptr;
  std::int64_t index_size = 0;
  JpegFrame* frames = nullptr;      // [capacity]
  std::int64_t* numbers = nullptr;  // [capacity]
  std::int64_t capacity = 0;
};

/// Copies the frames with the numbers `numbers` [count], counted from 1, in the context's threads:
/// frame i of the stage is that of numbers[i], and its number is i + 1, or 0 where no file has the
/// number numbers[i]. `frames`: the records of all files. Throws ValueError if the stage is too
/// small.
ROBOCACHE_API void stage_jpeg_frames(const JpegSources& sources, const JpegFrame* frames,
                                     const std::int64_t* numbers, std::int64_t count,
                                     const JpegStage& stage, const ExecutionContext& context);

/// The elements that decoded bytes become.
struct JpegPixels {
  DataType dtype = DataType::kUInt8;  // uint8, float16, bfloat16, float32 or float64
  bool channels_first = false;
  std::int32_t channels = 3;  // 3: RGB; 1: luma
  bool is_identity = true;    // the bytes themselves
  bool is_linear = false;     // fma(x, scale, bias) in float32 gives the elements
};

/// The conversion of decoded bytes, as `make_jpeg_conversion` computes it.
struct JpegConversion {
  JpegPixels pixels;
  float scale[3] = {};
  float bias[3] = {};
  std::uint64_t table[3][256] = {};  // the bits of the element of each byte
};

/// Makes the conversion (x - subtract) * multiply, computed in float64 and rounded to `dtype`, as
/// the loader converts images that it writes channels first. `subtract` and `multiply`: one number
/// per channel, or null. Throws TypeError or ValueError.
ROBOCACHE_API JpegConversion make_jpeg_conversion(DataType dtype, bool channels_first,
                                                  std::int32_t channels, const double* subtract,
                                                  const double* multiply);

/// Makes a conversion from the bits of the element of each byte, [channels][256]: those of
/// (x - subtract) * multiply in any type of arithmetic. Where the type is float16 or bfloat16, the
/// search for an equal fma begins at `multiply` and `-subtract * multiply`.
ROBOCACHE_API JpegConversion make_jpeg_conversion(DataType dtype, bool channels_first,
                                                  std::int32_t channels, const double* subtract,
                                                  const double* multiply,
                                                  const std::uint64_t (*table)[256]);

/// Frames that are numbered from `first_number` on, and their conversion.
struct JpegStream {
  std::int64_t first_number = 1;
  JpegFrames frames;  // on CUDA
  JpegFiles files;    // on the CPU
  JpegConversion conversion;
};

/// The destination of frames. A number selects a frame of one of its streams. The image of number 0
/// is zeros. Where a number belongs to none of the streams, nothing is written.
struct JpegOutput {
  const std::int64_t* numbers = nullptr;  // [N], in the context's memory
  std::int64_t count = 0;                 // N
  void* values = nullptr;                 // [N,H,W,C], or [N,C,H,W] with channels first
  bool* is_pad = nullptr;                 // optional, [N]: set to true for frames without an image
  std::uint8_t* status = nullptr;         // optional, [N]: a JpegStatus
  std::int32_t first_stream = 0;          // of the call's streams
  std::int32_t stream_count = 1;
};

/// The size of the workspace of `decode_jpeg_frames` for `count` frames in all outputs.
ROBOCACHE_API std::size_t decode_jpeg_frames_workspace_bytes(const JpegLayout& layout,
                                                             std::int64_t count, DeviceType device);

/// Decodes the frames of some outputs, to the same bytes on every device.
///
/// On CUDA it enqueues two kernels for each 16 outputs or 2048 frames, whichever are reached first.
/// It allocates nothing and does not wait, so that a CUDA graph can capture it. A frame has an
/// image only if the threads have shown that decoding from its first bit to its last passes through
/// every entry of its index; so the image is the one that a sequential decoder makes of this scan.
/// On the CPU, JpegDecoder decodes the files.
///
/// A frame without an image is all zeros; its status is kIndexMismatch, kLayoutMismatch or
/// kBadFrame on CUDA, that of JpegDecoder on the CPU, and `*damaged` is incremented.
///
/// `streams`: in the context's memory; of one layout, with conversions to `pixels`, which is linear
/// or the identity only if all of them are. `damaged`: optional, in the context's memory.
///
/// Throws ValueError or TypeError before it decodes anything, and DeviceError if a launch fails.
ROBOCACHE_API void decode_jpeg_frames(const JpegStream* streams,
                                      const std::vector<JpegOutput>& outputs,
                                      const JpegLayout& layout, const JpegPixels& pixels,
                                      std::int64_t* damaged, const Workspace& workspace,
                                      const ExecutionContext& context);

}  // namespace robocache
