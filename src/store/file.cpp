#include "store/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "store/crc32.h"
#include "store/json.h"

namespace robocache::store {
namespace {

[[noreturn]] void throw_system_error(const std::string& path, const char* expected, int error) {
  throw_store_error(path, expected, std::generic_category().message(error));
}

/// Reads `size` bytes; fewer only at the end of the file.
std::size_t read_some(const Descriptor& descriptor, const std::string& path, char* buffer,
                      std::size_t size) {
  std::size_t count = 0;
  while (count < size) {
    const ssize_t got = ::read(descriptor.number(), buffer + count, size - count);
    if (got == 0) break;
    if (got > 0) {
      count += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      throw_system_error(path, "a file that can be read", errno);
    }
  }
  return count;
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Folder::Folder(const std::string& path) : path_(path) {
  // The system would truncate a path at a zero byte.
  if (path.empty() || path.find('\0') != std::string::npos) {
    throw_store_error("path", "the folder of an episode store", quote(path));
  }
  descriptor_ = Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor_.number() < 0) {
    throw_system_error(path, "the folder of an episode store", errno);
  }
}

std::string Folder::path_of(const std::string& file) const {
  return path_ + (path_.back() == '/' ? "" : "/") + file;
}

bool Folder::has(const std::string& file) const {
  struct stat metadata{};
  return ::fstatat(descriptor_.number(), file.c_str(), &metadata, AT_SYMLINK_NOFOLLOW) == 0;
}

Descriptor Folder::open(const std::string& file, std::int64_t* bytes) const {
  // O_NONBLOCK: opening a pipe would otherwise wait for its writer.
  Descriptor descriptor(
      ::openat(descriptor_.number(), file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (descriptor.number() < 0) {
    if (errno == ELOOP) throw_store_error(path_of(file), "a file", "a symbolic link");
    throw_system_error(path_of(file), "a file that can be opened", errno);
  }
  struct stat metadata{};
  if (::fstat(descriptor.number(), &metadata) != 0) {
    throw_system_error(path_of(file), "a file that can be opened", errno);
  }
  if (!S_ISREG(metadata.st_mode)) {
    throw_store_error(path_of(file), "a file",
                      S_ISDIR(metadata.st_mode) ? "a folder" : "something that is no file");
  }
  *bytes = metadata.st_size;
  return descriptor;
}

void Folder::expect_size(const std::string& file, std::int64_t expected, std::int64_t got) const {
  if (got != expected) {
    throw_store_error(path_of(file), std::to_string(expected) + " bytes, as the manifest says",
                      std::to_string(got));
  }
}

std::string Folder::read(const std::string& file, std::int64_t most) const {
  std::int64_t bytes = 0;
  const Descriptor descriptor = open(file, &bytes);
  if (bytes > most) {
    throw_store_error(path_of(file), "at most " + std::to_string(most) + " bytes",
                      std::to_string(bytes));
  }
  std::string text(static_cast<std::size_t>(bytes), '\0');
  text.resize(read_some(descriptor, path_of(file), text.data(), text.size()));
  return text;
}

MappedFile Folder::map(const std::string& file, std::int64_t bytes) const {
  std::int64_t got = 0;
  const Descriptor descriptor = open(file, &got);
  expect_size(file, bytes, got);
  MappedFile mapped;
  const auto size = static_cast<std::size_t>(bytes);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor.number(), 0);
  if (address == MAP_FAILED) {
    throw_system_error(path_of(file), "a file that can be mapped into memory", errno);
  }
  mapped.data_ = static_cast<const std::byte*>(address);
  mapped.size_ = size;
  return mapped;
}

std::uint32_t Folder::checksum(const std::string& file, std::int64_t bytes) const {
  std::int64_t got = 0;
  const Descriptor descriptor = open(file, &got);
  expect_size(file, bytes, got);
  std::vector<char> buffer(std::size_t{1} << 20);
  std::uint32_t checksum = 0;
  std::int64_t count = 0;
  for (;;) {
    const std::size_t more = read_some(descriptor, path_of(file), buffer.data(), buffer.size());
    if (more == 0) break;
    checksum = crc32(buffer.data(), more, checksum);
    count += static_cast<std::int64_t>(more);
  }
  expect_size(file, bytes, count);
  return checksum;
}

}  // namespace robocache::store
