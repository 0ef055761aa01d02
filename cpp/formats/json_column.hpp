// The values of one key of JSON lines.
#pragma once

#include "base/element.hpp"
#include "formats/json_lines.hpp"
#include "read/column.hpp"
#include "read/column_vector.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sweephand {

class JsonColumn {
 public:
  explicit JsonColumn(const JsonKey& key);

  std::string_view key() const noexcept { return key_; }

  // True if the current line has the key already.
  bool is_filled() const noexcept { return is_filled_; }

  // Reads a value; null when it is not ordinary.
  const char* read(const char* text);

  void end_line();

  // Whether all numbers are those of the text, or determine the nearest number of the declared
  // type. Checked when all are read, to keep the path of each short.
  bool is_exact() const;

  // Frees the room that its vectors did not need.
  void fit();

  // Its content, valid as long as it lives, and until it changes.
  Column borrow() const;

 private:
  enum class Kind : std::uint8_t { kNone, kBool, kInt64, kFloat64, kText };

  // The float that numbers are to become.
  struct Precision {
    int digits = 53;            // to base 2
    double least_normal = 0.0;  // floats below have fewer digits, those of double aside
  };

  static Precision precision_of(ElementType wanted) noexcept;
  static bool is_halfway(double number, const Precision& wanted) noexcept;

  std::size_t num_samples() const noexcept;
  bool is_of(Kind kind);
  bool turn_to(Kind kind);
  const char* read_scalar(const char* text);
  const char* read_number_at(const char* text);
  const char* read_again(const char* text);
  const char* read_text(const char* text);

  std::string key_;
  bool is_filled_ = false;
  Kind kind_ = Kind::kNone;  // only its vector has values
  ColumnVector<std::uint8_t> flags_;
  ColumnVector<std::int64_t> integers_;
  ColumnVector<double> floats_;
  ColumnVector<char> text_;
  std::vector<std::int64_t> text_offsets_{0};
  std::vector<std::int64_t> sample_offsets_{0};
  Precision wanted_;
  Kind of_integers_;          // what they are stored as
  std::uint64_t digits_ = 0;  // of all integers among floats
};

}  // namespace sweephand
