#include "formats/ctf_column.hpp"

#include "formats/ctf_dense_column.hpp"
#include "formats/ctf_sparse_column.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace sweephand {
namespace {

template <class T>
std::unique_ptr<CtfColumn> make(const CtfStream& stream, bool allow_nonfinite) {
  if (stream.is_sparse) return std::make_unique<SparseColumn<T>>(stream, allow_nonfinite);
  return std::make_unique<DenseColumn<T>>(stream, allow_nonfinite);
}

}  // namespace

CtfColumn::CtfColumn(const CtfStream& stream) : name_(stream.field) {
  const std::size_t size = std::min(name_.size(), sizeof name_word_);
  std::memcpy(&name_word_, name_.data(), size);
  std::memset(&name_mask_, 0xff, size);
}

void CtfColumn::end_sequence() {
  sample_offsets_.push_back(static_cast<std::int64_t>(num_samples_));
}

void CtfColumn::clear() {
  sample_offsets_.resize(1);
  drop_sequence();
}

void CtfColumn::fit() { free_room(sample_offsets_); }

void CtfColumn::reserve(double times) {
  sample_offsets_.reserve(
      static_cast<std::size_t>(static_cast<double>(sample_offsets_.size()) * times));
}

std::unique_ptr<CtfColumn> make_column(const CtfStream& stream, bool allow_nonfinite) {
  using Made = std::unique_ptr<CtfColumn>;
  Made made = visit_element(stream.type, Made(), [&]<class Element>(Element) -> Made {
    if constexpr (StoredAsItIs<Element>) {
      return make<typename Element::Stored>(stream, allow_nonfinite);
    } else {
      return nullptr;
    }
  });
  if (made) return made;
  throw std::invalid_argument("field '" + stream.field +
                              "': text is read into float32, float64 or an integer type");
}

}  // namespace sweephand
