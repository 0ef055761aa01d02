#include "formats/tar_samples.hpp"

#include <cstddef>
#include <numeric>
#include <string_view>

namespace sweephand {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result) {
    if ('A' <= letter && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return result;
}

// Notes of writers, as __index__.
bool is_note(std::string_view name) {
  return name.find('/') == std::string_view::npos && name.starts_with("__") &&
         name.ends_with("__");
}

}  // namespace

bool TarSamples::walk(std::uint64_t end) {
  while (walk_.at() < end) {
    const auto member = walk_.next();
    if (!member) return false;
    add(*member);
  }
  return true;
}

void TarSamples::add(const TarMember& member) {
  const std::string_view name = member.name;
  const std::size_t base = name.rfind('/') + 1;  // 0 where there is no folder
  const std::size_t dot = name.find('.', base);
  const bool is_of_none = dot == std::string_view::npos || dot == base;
  if (is_of_none || dot + 1 == name.size() || is_note(name)) return;
  const std::string_view key = name.substr(0, dot);
  if (keys_.empty() || keys_.back() != key) {
    const std::uint64_t number = keys_.size();
    keys_.emplace_back(key);
    begins_.push_back(member.begin);
    const auto [known, is_new] = first_samples_.try_emplace(keys_.back(), number);
    if (!is_new)
      faults_.push_back({number, member.begin,
                         "the key '" + keys_.back() + "' was there before, at byte " +
                             std::to_string(begins_[known->second]) +
                             ": members of a sample lie side by side; sort them, as "
                             "'tar --sort=name' does"});
  }
  const std::uint64_t sample = keys_.size() - 1;
  const auto next = static_cast<std::uint32_t>(numbers_.size());
  const auto [found, is_new] = numbers_.try_emplace(lower(name.substr(dot + 1)), next);
  if (is_new) last_samples_.push_back(0);
  std::uint64_t& last = last_samples_[found->second];
  if (last == sample + 1) {
    faults_.push_back(
        {sample, member.begin,
         "the sample '" + keys_.back() + "' has the member '" + found->first + "' twice"});
    return;
  }
  last = sample + 1;
  const std::uint64_t begin = heads_.size();
  if (const auto wanted = wanted_heads_.find(found->first); wanted != wanted_heads_.end()) {
    for (const std::byte one : walk_.head_of(member, wanted->second))
      heads_.push_back(std::to_integer<std::uint8_t>(one));
  }
  members_.push_back(
      {sample, found->second, member.offset, member.size, begin, heads_.size() - begin});
}

std::vector<std::string> TarSamples::fields() const {
  std::vector<std::string> names(numbers_.size());
  for (const auto& [name, number] : numbers_) names[number] = name;
  return names;
}

TarField TarSamples::field(const std::string& name) const {
  TarField result{.offsets = std::vector<std::uint64_t>(keys_.size()),
                  .sizes = std::vector<std::uint64_t>(keys_.size()),
                  .heads = {},
                  .head_starts = std::vector<std::uint64_t>(keys_.size() + 1)};
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return result;
  for (const Member& member : members_) {
    if (member.field != found->second) continue;
    result.offsets[member.sample] = member.offset;
    result.sizes[member.sample] = member.size;
    result.head_starts[member.sample + 1] = member.head_size;
    const auto* const head = heads_.data() + member.head;
    result.heads.insert(result.heads.end(), head, head + member.head_size);
  }
  std::partial_sum(result.head_starts.begin(), result.head_starts.end(),
                   result.head_starts.begin());
  return result;
}

}  // namespace sweephand
