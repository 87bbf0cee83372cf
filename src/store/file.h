// The store's folder and its files: opening, reading and mapping them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace robocache::store {

/// An open file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  int number() const { return number_; }

 private:
  int number_ = -1;
};

/// Bytes of a file, mapped read-only.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  friend class Folder;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A folder that stays open: its files remain accessible if the folder is moved or replaced.
///
/// Its files must be regular: a symbolic link, a device or a pipe is refused. Every function throws
/// a StoreError that names the file.
class Folder {
 public:
  explicit Folder(const std::string& path);

  /// The path of a file in the folder, for messages.
  std::string path_of(const std::string& file) const;

  bool has(const std::string& file) const;
  /// The contents of a file of at most `most` bytes.
  std::string read(const std::string& file, std::int64_t most) const;
  /// Maps a file of exactly `bytes` bytes, 1 or more.
  MappedFile map(const std::string& file, std::int64_t bytes) const;
  /// Reads a file of exactly `bytes` bytes, and returns its checksum.
  std::uint32_t checksum(const std::string& file, std::int64_t bytes) const;

 private:
  Descriptor open(const std::string& file, std::int64_t* bytes) const;
  void expect_size(const std::string& file, std::int64_t expected, std::int64_t got) const;

  std::string path_;
  Descriptor descriptor_;
};

}  // namespace robocache::store
