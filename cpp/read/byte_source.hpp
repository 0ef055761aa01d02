// Bytes of a file, read by their place from any storage.
#pragma once

#include "base/error.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace sweephand {

class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  virtual const std::string& path() const noexcept = 0;  // for errors
  virtual std::uint64_t size() const noexcept = 0;

  // Fills `out` from `offset` on. Throws DataError when the file ends before, and the errors of
  // the storage.
  virtual void read(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

// A part of a file that is in memory; the file is taken to end with it.
class HeldBytes final : public ByteSource {
 public:
  // `bytes` are those from `offset` on, and must outlive this.
  HeldBytes(std::string path, std::uint64_t offset, std::span<const std::byte> bytes)
      : path_(std::move(path)), offset_(offset), bytes_(bytes) {}

  const std::string& path() const noexcept override { return path_; }
  std::uint64_t size() const noexcept override { return offset_ + bytes_.size(); }

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset < offset_ || offset > size() || out.size() > size() - offset)
      throw DataError("the bytes are not here", {.file = path_, .offset = offset});
    std::ranges::copy(bytes_.subspan(offset - offset_, out.size()), out.begin());
  }

 private:
  std::string path_;
  std::uint64_t offset_;
  std::span<const std::byte> bytes_;
};

}  // namespace sweephand
