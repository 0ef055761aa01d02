#include "read/arrow_bytes.hpp"

#include <stdexcept>
#include <string_view>
#include <utility>

namespace sweephand {
namespace {

constexpr std::int64_t kWidth = 4;

bool is_whole(const ArrowArray& array, std::int64_t num_buffers) {
  return array.length >= 0 && array.offset == 0 && array.null_count == 0 &&
         array.n_buffers == num_buffers;
}

bool has_fours(const ArrowSchema& schema, const ArrowArray& array) {
  if (std::string_view(schema.format) != "+w:4" || schema.n_children != 1 ||
      std::string_view(schema.children[0]->format) != "C")
    return false;
  if (!is_whole(array, 1) || array.n_children != 1) return false;
  const ArrowArray& bytes = *array.children[0];
  return is_whole(bytes, 2) && bytes.buffers[1] != nullptr &&
         array.length <= bytes.length / kWidth;
}

}  // namespace

ForeignBytes take_fours(const ArrowSchema& schema, ArrowArray& array) {
  if (schema.release == nullptr || array.release == nullptr || !has_fours(schema, array))
    throw std::invalid_argument("it is no Arrow array of four bytes each");
  const auto* const data = static_cast<const std::byte*>(array.children[0]->buffers[1]);
  const auto size = static_cast<std::size_t>(kWidth * array.length);
  auto owner = std::shared_ptr<ArrowArray>(new ArrowArray(array), [](ArrowArray* taken) {
    taken->release(taken);
    delete taken;  // NOLINT(cppcoreguidelines-owning-memory)
  });
  array.release = nullptr;
  return {.bytes = {data, size}, .owner = std::move(owner)};
}

}  // namespace sweephand
