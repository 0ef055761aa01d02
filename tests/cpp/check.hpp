// CHECK and CHECK_THROWS: the whole test framework. The first failure ends the program.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                  \
    }                                                                                \
  } while (false)

#define CHECK_THROWS(Exception, expression) \
  do {                                      \
    bool thrown = false;                    \
    try {                                   \
      static_cast<void>(expression);        \
    } catch (const Exception&) {            \
      thrown = true;                        \
    }                                       \
    CHECK(thrown && #expression);           \
  } while (false)
