#include "jpeg/turbo_memory.h"

#include <algorithm>
#include <cstdlib>

namespace robocache {
namespace {

// SIMD code of libjpeg-turbo reads and writes rows in units of 64 bytes, aligned to 32.
constexpr std::size_t kUnit = 64;
constexpr std::size_t kLeastBlock = std::size_t{64} << 10;

constexpr std::size_t in_units(std::size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

bool has_8_bits(j_common_ptr info) {
  const int depth = info->is_decompressor != FALSE
                        ? reinterpret_cast<j_decompress_ptr>(info)->data_precision
                        : reinterpret_cast<j_compress_ptr>(info)->data_precision;
  return depth == 8;
}

}  // namespace

/// A block of memory; `bytes` bytes follow its header.
struct alignas(kUnit) TurboMemory::Block {
  Block* next;
  std::size_t bytes;
};

TurboMemory::~TurboMemory() { free_blocks(); }

void TurboMemory::attach(j_common_ptr info) {
  info->client_data = this;
  original_ = *info->mem;
  info->mem->alloc_small = allocate;
  info->mem->alloc_large = allocate;
  info->mem->alloc_sarray = allocate_samples;
  info->mem->alloc_barray = allocate_blocks;
  info->mem->free_pool = free_pool;
}

void* TurboMemory::allocate(j_common_ptr info, int pool, std::size_t bytes) {
  TurboMemory& self = of(info);
  if (pool != JPOOL_IMAGE && !self.serves_tables_) {
    return self.original_.alloc_small(info, pool, bytes);
  }
  void* const memory = self.take(bytes);
  if (memory == nullptr) info->err->error_exit(info);
  return memory;
}

JSAMPARRAY TurboMemory::allocate_samples(j_common_ptr info, int pool, JDIMENSION width,
                                         JDIMENSION rows) {
  if (pool != JPOOL_IMAGE || !has_8_bits(info)) {
    return of(info).original_.alloc_sarray(info, pool, width, rows);
  }
  const std::size_t stride = in_units(width * sizeof(JSAMPLE));
  auto* const pointers = static_cast<JSAMPARRAY>(allocate(info, pool, rows * sizeof(JSAMPROW)));
  auto* row = static_cast<JSAMPROW>(allocate(info, pool, rows * stride));
  for (JDIMENSION i = 0; i < rows; ++i, row += stride) pointers[i] = row;
  return pointers;
}

JBLOCKARRAY TurboMemory::allocate_blocks(j_common_ptr info, int pool, JDIMENSION width,
                                         JDIMENSION rows) {
  if (pool != JPOOL_IMAGE) return of(info).original_.alloc_barray(info, pool, width, rows);
  auto* const pointers = static_cast<JBLOCKARRAY>(allocate(info, pool, rows * sizeof(JBLOCKROW)));
  auto* row =
      static_cast<JBLOCKROW>(allocate(info, pool, std::size_t{rows} * width * sizeof(JBLOCK)));
  for (JDIMENSION i = 0; i < rows; ++i, row += width) pointers[i] = row;
  return pointers;
}

void TurboMemory::free_pool(j_common_ptr info, int pool) {
  if (pool == JPOOL_IMAGE) of(info).rewind();
  of(info).original_.free_pool(info, pool);
}

void* TurboMemory::take(std::size_t bytes) {
  bytes = in_units(bytes);
  if (blocks_ == nullptr || bytes > blocks_->bytes - begin_) {
    if (!add_block(std::max(bytes, kLeastBlock))) return nullptr;
  }
  auto* const memory = reinterpret_cast<std::byte*>(blocks_ + 1) + begin_;
  begin_ += bytes;
  used_ += bytes;
  return memory;
}

bool TurboMemory::add_block(std::size_t bytes) {
  // SIMD code may read a unit past the last sample.
  auto* const block = static_cast<Block*>(std::aligned_alloc(kUnit, sizeof(Block) + bytes + kUnit));
  if (block == nullptr) return false;
  *block = {blocks_, bytes};
  blocks_ = block;
  begin_ = 0;
  return true;
}

/// Makes one block of several, for the next image.
void TurboMemory::rewind() {
  if (blocks_ != nullptr && blocks_->next != nullptr) {
    free_blocks();
    add_block(used_);  // where it fails, the next image tries again
  }
  begin_ = used_ = 0;
}

void TurboMemory::free_blocks() {
  while (blocks_ != nullptr) {
    Block* const next = blocks_->next;
    std::free(blocks_);
    blocks_ = next;
  }
}

}  // namespace robocache
