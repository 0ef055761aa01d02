// Errors with their place in the data.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace sweephand {

// Where in the data: whatever the thrower knows of it.
struct Place {
  std::optional<std::string> file;
  std::optional<std::uint64_t> offset;  // in bytes
  std::optional<std::uint64_t> chunk;
  std::optional<std::string> stream;
  std::optional<std::uint64_t> sequence;
  std::optional<std::uint64_t> line;  // of a text file, from 1
};

// The bytes are wrong. what() reads
//   shard-3.tfrecord @ 4096 [chunk 2, stream 'labels', sequence 17]: length checksum mismatch
// without the parts of the place that nobody knew.
class DataError : public std::runtime_error {
 public:
  explicit DataError(const std::string& reason, Place place = {})
      : DataError(reason, std::move(place), false) {}

  const std::string& reason() const noexcept { return reason_; }
  const Place& place() const noexcept { return place_; }

  // Whether the bytes were right once, and changed under us. It outlives within() and a copy
  // into a plain DataError, so ask this and not for the type.
  bool is_stale() const noexcept { return is_stale_; }

  // The same error with the caller's knowledge added: `place` fills only what is still unknown.
  DataError within(const Place& place) const;

 protected:
  DataError(const std::string& reason, Place place, bool is_stale);

 private:
  std::string reason_;
  Place place_;
  bool is_stale_;
};

// The data changed after it was indexed or opened.
class StaleError : public DataError {
 public:
  explicit StaleError(const std::string& reason, Place place = {})
      : DataError(reason, std::move(place), true) {}
};

// Called for each damage that is skipped: counts it, or throws it when the budget is used up.
using Report = std::function<void(const DataError&)>;

// No error of the data: it reaches the waiting caller at once, wherever it happened. `cause` is
// the error that the caller gets.
class Interruption : public std::exception {
 public:
  explicit Interruption(std::exception_ptr cause) : cause_(std::move(cause)) {}
  const char* what() const noexcept override { return "interrupted"; }
  [[noreturn]] void rethrow() const { std::rethrow_exception(cause_); }

 private:
  std::exception_ptr cause_;
};

}  // namespace sweephand
