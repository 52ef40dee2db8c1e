// CHECK: a statement that only a bug can make false. It prints both values and aborts.
//
// Never use it on anything that comes from outside (files, requests, flags): that is a Result.
#pragma once

#include <sstream>
#include <string>

namespace baton::internal {

// Prints "file:line: CHECK failed: text (values)" to standard error and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* text,
                              const std::string& values);

template <typename A, typename B>
[[noreturn]] void CheckOpFailed(const char* file, int line, const char* text, const A& a,
                                const B& b) {
  std::ostringstream values;
  values << a << " against " << b;
  CheckFailed(file, line, text, values.str());
}

}  // namespace baton::internal

#define BATON_CHECK_OP_(a, op, b)                                                                  \
  do {                                                                                             \
    const auto& check_a_ = (a);                                                                    \
    const auto& check_b_ = (b);                                                                    \
    if (!(check_a_ op check_b_)) [[unlikely]]                                                      \
      ::baton::internal::CheckOpFailed(__FILE__, __LINE__, #a " " #op " " #b, check_a_, check_b_); \
  } while (false)

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) [[unlikely]]                                                   \
      ::baton::internal::CheckFailed(__FILE__, __LINE__, #condition, std::string()); \
  } while (false)
#define CHECK_EQ(a, b) BATON_CHECK_OP_(a, ==, b)
#define CHECK_NE(a, b) BATON_CHECK_OP_(a, !=, b)
#define CHECK_LT(a, b) BATON_CHECK_OP_(a, <, b)
#define CHECK_LE(a, b) BATON_CHECK_OP_(a, <=, b)
#define CHECK_GT(a, b) BATON_CHECK_OP_(a, >, b)
#define CHECK_GE(a, b) BATON_CHECK_OP_(a, >=, b)
