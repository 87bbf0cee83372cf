// The checksum of the store's files: CRC-32 as zlib, PNG and Ethernet have it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace robocache::store {

/// The checksum of `size` more bytes after those whose checksum is `before`; 0 of none.
std::uint32_t crc32(const void* data, std::size_t size, std::uint32_t before = 0);

}  // namespace robocache::store
