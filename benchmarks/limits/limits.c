// What the machine can do: the loops that a loader cannot beat, over an order that is given.
//
// Every kernel makes minibatch after minibatch in one call, minibatch b of the entries
// [batches[b], batches[b + 1]) of `order`, into output slot b % slots, and knows everything in
// advance. Slots lie `slot` elements of the output apart.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

// Sequences one behind the other, and where each begins.
void gather_ragged(const uint16_t* tokens, const int64_t* offsets, const int64_t* order,
                   const int64_t* batches, size_t num_batches, uint16_t* out,
                   int64_t* out_offsets, size_t slot, size_t slots) {
  const int64_t last = batches[num_batches];
  for (size_t b = 0; b < num_batches; ++b) {
    uint16_t* to = out + (b % slots) * slot;
    int64_t* offset = out_offsets + (b % slots) * slot;
    *offset = 0;
    for (int64_t j = batches[b]; j < batches[b + 1]; ++j) {
      if (j + 2 * AHEAD < last) __builtin_prefetch(offsets + order[j + 2 * AHEAD]);
      if (j + AHEAD < last) {
        const int64_t* later = offsets + order[j + AHEAD];
        prefetch((const char*)(tokens + later[0]), (size_t)(later[1] - later[0]) * 2);
      }
      const int64_t* from = offsets + order[j];
      const int64_t length = from[1] - from[0];
      memcpy(to, tokens + from[0], (size_t)length * sizeof *to);
      to += length;
      offset[1] = offset[0] + length;
      ++offset;
    }
  }
}

// The same as a grid of int64, zero where there is no token, and a mask: 2 start, 1 valid, 0 gap.
void gather_padded(const uint16_t* tokens, const int64_t* offsets, const int64_t* order,
                   const int64_t* batches, size_t num_batches, int64_t* out, uint8_t* out_mask,
                   size_t slot, size_t slots) {
  const int64_t last = batches[num_batches];
  for (size_t b = 0; b < num_batches; ++b) {
    int64_t width = 0;
    for (int64_t j = batches[b]; j < batches[b + 1]; ++j) {
      const int64_t length = offsets[order[j] + 1] - offsets[order[j]];
      if (length > width) width = length;
    }
    int64_t* to = out + (b % slots) * slot;
    uint8_t* mask = out_mask + (b % slots) * slot;
    for (int64_t j = batches[b]; j < batches[b + 1]; ++j) {
      if (j + 2 * AHEAD < last) __builtin_prefetch(offsets + order[j + 2 * AHEAD]);
      if (j + AHEAD < last) {
        const int64_t* later = offsets + order[j + AHEAD];
        prefetch((const char*)(tokens + later[0]), (size_t)(later[1] - later[0]) * 2);
      }
      const int64_t first = offsets[order[j]];
      const int64_t length = offsets[order[j] + 1] - first;
      for (int64_t i = 0; i < length; ++i) to[i] = tokens[first + i];
      memset(to + length, 0, (size_t)(width - length) * sizeof *to);
      memset(mask, 1, (size_t)length);
      memset(mask + length, 0, (size_t)(width - length));
      mask[0] = 2;
      to += width;
      mask += width;
    }
  }
}
