// What the machine can do: the loops that a loader cannot beat, over an order that is given.
//
// Every kernel makes minibatch after minibatch in one call, minibatch b of the entries
// [batches[b], batches[b + 1]) of `order`, into output slot b % slots, and knows everything in
// advance. Slots lie `slot` elements of the output apart.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#define AHEAD 8
#define LINE 64

// The lines that `bytes` bytes lie on, the first few of them: the processor follows by itself.
__attribute__((always_inline)) static inline void prefetch(const char* data, size_t bytes) {
  const char* end = data + (bytes < 5 * LINE ? bytes : 5 * LINE);
  for (const char* at = (const char*)((uintptr_t)data & -LINE); at < end; at += LINE) {
    __builtin_prefetch(at);
  }
}

// Rows of `row_bytes` bytes, and one label each.
void gather_rows(const char* rows, const int64_t* labels, size_t row_bytes,
                 const int64_t* order, const int64_t* batches, size_t num_batches, char* out,
                 int64_t* out_labels, size_t slot, size_t slots) {
  const int64_t last = batches[num_batches];
  for (size_t b = 0; b < num_batches; ++b) {
    char* to = out + (b % slots) * slot * row_bytes;
    int64_t* label = out_labels + (b % slots) * slot;
    for (int64_t j = batches[b]; j < batches[b + 1]; ++j) {
      if (j + AHEAD < last) {
        prefetch(rows + (size_t)order[j + AHEAD] * row_bytes, row_bytes);
        __builtin_prefetch(labels + order[j + AHEAD]);
      }
      memcpy(to, rows + (size_t)order[j] * row_bytes, row_bytes);
      to += row_bytes;
      *label++ = labels[order[j]];
    }
  }
}

// How tokens become those of the output.
static inline void same(int32_t* to, const int32_t* from, size_t count) {
  memcpy(to, from, count * sizeof *to);
}
static inline void narrow(int32_t* to, const int64_t* from, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = (int32_t)from[i];
}
static inline void widen(int64_t* to, const int32_t* from, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = from[i];
}

// Asks for sequences that come soon, and for where later ones begin.
#define FETCH_AHEAD(tokens, offsets, order, j, last)                                   \
  do {                                                                                 \
    if (j + 2 * AHEAD < last) __builtin_prefetch(offsets + order[j + 2 * AHEAD]);      \
    if (j + AHEAD < last) {                                                            \
      const int64_t* later = offsets + order[j + AHEAD];                               \
      prefetch((const char*)(tokens + later[0]),                                       \
               (size_t)(later[1] - later[0]) * sizeof *tokens);                        \
    }                                                                                  \
  } while (0)

// Sequences one behind the other, and where each begins.
#define GATHER_RAGGED(name, from_t, to_t, copy)                                          \
  void name(const from_t* tokens, const int64_t* offsets, const int64_t* order,          \
            const int64_t* batches, size_t num_batches, to_t* out, int64_t* out_offsets, \
            size_t slot, size_t slots) {                                                 \
    const int64_t last = batches[num_batches];                                           \
    for (size_t b = 0; b < num_batches; ++b) {                                           \
      to_t* to = out + (b % slots) * slot;                                               \
      int64_t* offset = out_offsets + (b % slots) * slot;                                \
      *offset = 0;                                                                       \
      for (int64_t j = batches[b]; j < batches[b + 1]; ++j) {                            \
        FETCH_AHEAD(tokens, offsets, order, j, last);                                    \
        const int64_t* from = offsets + order[j];                                        \
        const int64_t length = from[1] - from[0];                                        \
        copy(to, tokens + from[0], (size_t)length);                                      \
        to += length;                                                                    \
        offset[1] = offset[0] + length;                                                  \
        ++offset;                                                                        \
      }                                                                                  \
    }                                                                                    \
  }
GATHER_RAGGED(gather_ragged, int32_t, int32_t, same)
GATHER_RAGGED(gather_narrowed, int64_t, int32_t, narrow)

// The same as a grid, zero where there is no token, and a mask: 2 start, 1 valid, 0 gap.
#define GATHER_PADDED(name, from_t, to_t, copy)                                       \
  void name(const from_t* tokens, const int64_t* offsets, const int64_t* order,       \
            const int64_t* batches, size_t num_batches, to_t* out, uint8_t* out_mask, \
            size_t slot, size_t slots) {                                              \
    const int64_t last = batches[num_batches];                                        \
    for (size_t b = 0; b < num_batches; ++b) {                                        \
      int64_t width = 0;                                                              \
      for (int64_t j = batches[b]; j < batches[b + 1]; ++j) {                         \
        const int64_t length = offsets[order[j] + 1] - offsets[order[j]];             \
        if (length > width) width = length;                                           \
      }                                                                               \
      to_t* to = out + (b % slots) * slot;                                            \
      uint8_t* mask = out_mask + (b % slots) * slot;                                  \
      for (int64_t j = batches[b]; j < batches[b + 1]; ++j) {                         \
        FETCH_AHEAD(tokens, offsets, order, j, last);                                 \
        const int64_t first = offsets[order[j]];                                      \
        const int64_t length = offsets[order[j] + 1] - first;                         \
        copy(to, tokens + first, (size_t)length);                                     \
        memset(to + length, 0, (size_t)(width - length) * sizeof *to);                \
        memset(mask, 1, (size_t)length);                                              \
        memset(mask + length, 0, (size_t)(width - length));                           \
        mask[0] = 2;                                                                  \
        to += width;                                                                  \
        mask += width;                                                                \
      }                                                                               \
    }                                                                                 \
  }
GATHER_PADDED(gather_padded, int32_t, int32_t, same)
GATHER_PADDED(gather_widened, int32_t, int64_t, widen)

// Best fit decreasing of `count` sequences: every sequence, the longest first, goes into the
// row with the least room that holds it. Entry r of `heads` is the first sequence of row r and
// next[i] the one behind i, or -1. Returns the number of rows.
static size_t best_fit(const int64_t* offsets, const int64_t* order, size_t count,
                       size_t length, int32_t* heads, int32_t* tails, int32_t* next,
                       int32_t* sorted, int32_t* with_room, int32_t* below, uint64_t* rooms) {
  size_t* begins = calloc(length + 2, sizeof *begins);
  for (size_t i = 0; i < count; ++i) {
    ++begins[length - (size_t)(offsets[order[i] + 1] - offsets[order[i]]) + 1];
  }
  for (size_t l = 0; l <= length; ++l) begins[l + 1] += begins[l];
  for (size_t i = 0; i < count; ++i) {
    sorted[begins[length - (size_t)(offsets[order[i] + 1] - offsets[order[i]])]++] = (int32_t)i;
  }
  free(begins);
  memset(with_room, -1, (length + 1) * sizeof *with_room);
  memset(rooms, 0, (length / 64 + 1) * sizeof *rooms);
  size_t rows = 0;
  for (size_t j = 0; j < count; ++j) {
    const int32_t i = sorted[j];
    const size_t size = (size_t)(offsets[order[i] + 1] - offsets[order[i]]);
    size_t word = size / 64;
    uint64_t bits = rooms[word] & (~UINT64_C(0) << size % 64);
    while (bits == 0 && word < length / 64) bits = rooms[++word];
    size_t room = length;
    int32_t row = (int32_t)rows;
    next[i] = -1;
    if (bits != 0) {
      room = word * 64 + (size_t)__builtin_ctzll(bits);
      row = with_room[room];
      with_room[room] = below[row];
      if (with_room[room] < 0) rooms[word] &= ~(UINT64_C(1) << room % 64);
      next[tails[row]] = i;
    } else {
      heads[rows++] = i;
    }
    tails[row] = i;
    room -= size;
    below[row] = with_room[room];
    with_room[room] = row;
    rooms[room / 64] |= UINT64_C(1) << room % 64;
  }
  return rows;
}

// Rows of `length` cells: tokens, the number of the sequence in its row, and the place in it.
// Sequences are packed `window` at a time. Row r goes to slot r % slots. Returns the
// number of rows.
size_t pack_rows(const int32_t* tokens, const int64_t* offsets, const int64_t* order,
                 size_t count, size_t window, size_t length, int32_t* out, int32_t* segments,
                 int32_t* positions, size_t slots) {
  int32_t* scratch = malloc((5 * window + length + 1) * sizeof *scratch);
  uint64_t* rooms = malloc((length / 64 + 1) * sizeof *rooms);
  int32_t *heads = scratch, *tails = heads + window, *next = tails + window;
  int32_t *sorted = next + window, *below = sorted + window, *with_room = below + window;
  size_t done = 0;
  for (size_t begin = 0; begin < count; begin += window) {
    const int64_t* part = order + begin;
    const size_t here = count - begin < window ? count - begin : window;
    const size_t rows = best_fit(offsets, part, here, length, heads, tails, next, sorted,
                                 with_room, below, rooms);
    for (size_t r = 0; r < rows; ++r, ++done) {
      const size_t first = done % slots * length;
      int32_t* to = out + first;
      int32_t *segment = segments + first, *position = positions + first;
      int32_t number = 0;
      size_t used = 0;
      if (r + 1 < rows) {  // the sequences of the next row
        for (int32_t i = heads[r + 1]; i >= 0; i = next[i]) {
          prefetch((const char*)(tokens + offsets[part[i]]), 5 * LINE);
        }
      }
      for (int32_t i = heads[r]; i >= 0; i = next[i]) {
        const int64_t from = offsets[part[i]];
        const size_t size = (size_t)(offsets[part[i] + 1] - from);
        memcpy(to + used, tokens + from, size * sizeof *to);
        ++number;
        for (size_t k = 0; k < size; ++k) segment[used + k] = number;
        for (size_t k = 0; k < size; ++k) position[used + k] = (int32_t)k;
        used += size;
      }
      memset(to + used, 0, (length - used) * sizeof *to);
      memset(segment + used, 0, (length - used) * sizeof *segment);
      memset(position + used, 0, (length - used) * sizeof *position);
    }
  }
  free(scratch);
  free(rooms);
  return done;
}

// What every reader of numbers in text does at least: digits to floats, nothing else is looked
// at. `slots` is a power of two. Returns how many there were.
size_t read_digits(const char* text, size_t bytes, float* out, size_t slots) {
  size_t count = 0;
  uint64_t value = 0;
  int inside = 0;
  for (size_t i = 0; i < bytes; ++i) {
    const unsigned digit = (unsigned char)text[i] - (unsigned)'0';
    if (digit < 10) {
      value = value * 10 + digit;
      inside = 1;
    } else if (inside && text[i] != '.') {
      out[count++ & (slots - 1)] = (float)value;
      value = 0;
      inside = 0;
    }
  }
  return count;
}

// The lowest seven bits of the bytes that `bytes` marks, joined.
static inline int64_t join_sevens(uint64_t word, uint64_t bytes) {
  bytes &= UINT64_C(0x7f7f7f7f7f7f7f7f);
#ifdef __BMI2__
  return (int64_t)_pext_u64(word, bytes);
#else
  word = (word & bytes) >> (__builtin_ctzll(bytes) & 56);
  uint64_t value = 0;
  for (int k = 0; k < 8; ++k) value |= (word >> 8 * k & 0x7f) << 7 * k;
  return (int64_t)value;
#endif
}

// What every reader of protocol buffers does at least: varints of at most eight bytes to int64,
// two a step. Behind them are sixteen bytes that may be read, the first of them zero; `slots` is
// a power of two. Returns how many.
size_t read_varints(const char* bytes, size_t size, int64_t* out, size_t slots) {
  const uint64_t tops = UINT64_C(0x8080808080808080);
  size_t count = 0;
  for (size_t i = 0; i < size; count += 2) {
    uint64_t word;
    memcpy(&word, bytes + i, sizeof word);
    uint64_t ends = ~word & tops;
    const uint64_t first = ends ^ (ends - 1);
    uint64_t later = ends & (ends - 1);
    out[count & (slots - 1)] = join_sevens(word, first);
    uint64_t second = (later ^ (later - 1)) & ~first;
    if (later == 0) {
      i += (size_t)(__builtin_ctzll(ends) >> 3) + 1;
      memcpy(&word, bytes + i, sizeof word);
      later = ~word & tops;
      second = later ^ (later - 1);
    }
    out[(count + 1) & (slots - 1)] = join_sevens(word, second);
    i += (size_t)(__builtin_ctzll(later) >> 3) + 1;
  }
  return count;
}

// The same, where the ends of all varints in 64 bytes are found at once. Behind them are 64 bytes
// that may be read.
size_t read_varints_of_64(const char* bytes, size_t size, int64_t* out, size_t slots) {
  size_t count = 0;
  for (size_t i = 0; i < size;) {
    uint64_t ends = 0;
    for (int k = 0; k < 4; ++k) {
#ifdef __SSE2__
      const __m128i sixteen = _mm_loadu_si128((const __m128i*)(bytes + i + 16 * k));
      ends |= (uint64_t)(~_mm_movemask_epi8(sixteen) & 0xffff) << 16 * k;
#else
      for (int j = 16 * k; j < 16 * k + 16; ++j) ends |= (uint64_t)(bytes[i + j] >= 0) << j;
#endif
    }
    if (size - i < 64) ends &= (UINT64_C(1) << (size - i)) - 1;
    size_t begin = i;
    for (; ends != 0; ends &= ends - 1) {
      const size_t end = i + (size_t)__builtin_ctzll(ends) + 1;
      uint64_t word;
      memcpy(&word, bytes + begin, sizeof word);
      out[count++ & (slots - 1)] = join_sevens(word, ~UINT64_C(0) >> (64 - 8 * (end - begin)));
      begin = end;
    }
    i = begin;
  }
  return count;
}
