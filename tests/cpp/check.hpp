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

template <class Exception, class Action>
bool throws(const Action& action) {
  try {
    action();
  } catch (const Exception&) {
    return true;
  }
  return false;
}

#define CHECK_THROWS(Exception, expression) \
  CHECK(throws<Exception>([&] { static_cast<void>(expression); }))
