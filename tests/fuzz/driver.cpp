#include "driver.hpp"

#include "base/mix.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace sweephand {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kMaxInput = std::size_t{1} << 14;

class Random {
 public:
  explicit Random(std::uint64_t seed) : key_(derive_key({seed})) {}
  // Below `bound`, which is not 0.
  std::uint64_t below(std::uint64_t bound) { return scale(mix64(key_ + counter_++), bound); }

 private:
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Bytes bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

std::vector<Bytes> read_corpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry);
  std::ranges::sort(paths);
  std::vector<Bytes> corpus;
  corpus.reserve(paths.size());
  for (const auto& path : paths) corpus.push_back(read_file(path));
  return corpus;
}

// One small change of `bytes`; `other` lends a piece.
void mutate(Bytes& bytes, const Bytes& other, Random& random) {
  static constexpr std::string_view kOdd("\0\1\x7f\x80\xff\n|9- ", 10);
  const std::size_t at = random.below(bytes.size() + 1);
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  const std::size_t left = bytes.size() - at;
  const std::size_t size =
      std::min<std::size_t>(1 + random.below(random.below(2) == 0 ? 4 : 64), left);
  switch (random.below(6)) {
    case 0:
      if (left > 0) *begin ^= static_cast<std::byte>(1U << random.below(8));
      break;
    case 1:
      if (left > 0) *begin = static_cast<std::byte>(kOdd[random.below(kOdd.size())]);
      break;
    case 2:
      bytes.erase(begin, begin + static_cast<std::ptrdiff_t>(size));
      break;
    case 3:
      bytes.insert(begin, static_cast<std::byte>(random.below(256)));
      break;
    case 4: {
      const Bytes piece(begin, begin + static_cast<std::ptrdiff_t>(size));
      bytes.insert(begin, piece.begin(), piece.end());
      break;
    }
    default: {
      const std::size_t from = random.below(other.size() + 1);
      const std::size_t count =
          random.below(std::min<std::size_t>(other.size() - from, 256) + 1);
      const auto piece = std::span(other).subspan(from, count);
      bytes.insert(begin, piece.begin(), piece.end());
    }
  }
}

// Memory that is a file, so that it outlives the program.
class LastInput {
 public:
  explicit LastInput(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0 || ::ftruncate(descriptor_, kMaxInput) != 0) std::abort();
    memory_ = ::mmap(nullptr, kMaxInput, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (memory_ == MAP_FAILED) std::abort();
  }
  LastInput(const LastInput&) = delete;
  LastInput& operator=(const LastInput&) = delete;
  ~LastInput() {
    ::munmap(memory_, kMaxInput);
    ::close(descriptor_);
  }

  void keep(const Bytes& bytes) {
    if (::ftruncate(descriptor_, static_cast<off_t>(bytes.size())) != 0) std::abort();
    if (!bytes.empty()) std::memcpy(memory_, bytes.data(), bytes.size());
  }

 private:
  int descriptor_;
  void* memory_ = nullptr;
};

}  // namespace

int fuzz(int argc, char** argv, const std::function<void(Input)>& target) {
  // A buffer of the very size, so that a sanitizer sees every byte that is read too much.
  const auto run = [&target](const Bytes& bytes) {
    const Bytes exact(bytes.begin(), bytes.end());
    target(exact);
  };
  if (argc == 2) {
    run(read_file(argv[1]));
    return 0;
  }
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER SECONDS [SEED [INPUTS]], or %s INPUT\n",
                 argv[0], argv[0]);
    return 2;
  }
  const std::vector<Bytes> corpus = read_corpus(argv[1]);
  if (corpus.empty()) {
    std::fprintf(stderr, "no input in %s\n", argv[1]);
    return 2;
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::stoi(argv[2]));
  Random random(argc > 3 ? std::stoull(argv[3]) : 0);
  const std::uint64_t most =
      argc > 4 ? std::stoull(argv[4]) : std::numeric_limits<std::uint64_t>::max();
  const std::string program = argv[0];
  LastInput last(program + ".input");
  std::uint64_t count = 0;
  for (const Bytes& bytes : corpus) {
    last.keep(bytes);
    run(bytes);
  }
  for (; count < most && std::chrono::steady_clock::now() < end; ++count) {
    Bytes bytes = corpus[random.below(corpus.size())];
    const std::uint64_t num_changes = 1 + random.below(8);
    for (std::uint64_t i = 0; i < num_changes; ++i)
      mutate(bytes, corpus[random.below(corpus.size())], random);
    bytes.resize(std::min(bytes.size(), kMaxInput));
    last.keep(bytes);
    run(bytes);
  }
  std::printf("%llu inputs\n", static_cast<unsigned long long>(count));
  return 0;
}

}  // namespace sweephand
