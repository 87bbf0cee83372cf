// Memory that libjpeg-turbo keeps from one image to the next.
#pragma once

#include <cstddef>

#include "jpeg/turbo.h"

namespace robocache {

/// Takes the place of libjpeg-turbo's memory for one image, which it allocates at the beginning of
/// each image and frees at its end. This memory is reused: after the first of several images of one
/// kind nothing is allocated. Images that libjpeg-turbo holds as a whole (progressive ones, and
/// those of several scans) take the memory for that from libjpeg-turbo, as do samples of other than
/// 8 bits.
class TurboMemory {
 public:
  TurboMemory() = default;
  ~TurboMemory();
  TurboMemory(const TurboMemory&) = delete;
  TurboMemory& operator=(const TurboMemory&) = delete;

  /// Serves a decoder or an encoder, which has just been created and must not outlive this object.
  void attach(j_common_ptr info);

  /// Also serves memory that libjpeg-turbo would keep until it is destroyed, from now on: tables,
  /// whose pointers the caller clears before each image.
  void serve_tables() { serves_tables_ = true; }

 private:
  struct Block;

  static TurboMemory& of(j_common_ptr info) {
    return *static_cast<TurboMemory*>(info->client_data);
  }
  static void* allocate(j_common_ptr info, int pool, std::size_t bytes);
  static JSAMPARRAY allocate_samples(j_common_ptr info, int pool, JDIMENSION width,
                                     JDIMENSION rows);
  static JBLOCKARRAY allocate_blocks(j_common_ptr info, int pool, JDIMENSION width,
                                     JDIMENSION rows);
  static void free_pool(j_common_ptr info, int pool);

  /// Null where memory has run out.
  void* take(std::size_t bytes);
  bool add_block(std::size_t bytes);
  void rewind();
  void free_blocks();

  jpeg_memory_mgr original_{};
  Block* blocks_ = nullptr;  // the newest first; the first has room
  std::size_t begin_ = 0;    // of the room in the first block
  std::size_t used_ = 0;     // bytes of the current image
  bool serves_tables_ = false;
};

}  // namespace robocache
