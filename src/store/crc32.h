// The checksum of the store's files: the CRC-32 of zlib, PNG and Ethernet.
#pragma once

#include <cstddef>
#include <cstdint>

namespace robocache::store {

/// The CRC-32 of `size` bytes that follow data with the checksum `before`, 0 for none.
std::uint32_t crc32(const void* data, std::size_t size, std::uint32_t before = 0);

}  // namespace robocache::store
