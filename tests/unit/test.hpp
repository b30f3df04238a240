// The unit-test harness. One executable holds all tests, runs anywhere (qemu, sanitizers) with
// nothing installed.
//   TEST(name) { CHECK(cond); CHECK_EQ(a, b); CHECK_THROWS_CODE(expr, 107000); }
//   unit_tests [part of a name ...]    run what matches; exit code 1 when something failed; -l
//   lists
// Must never: know anything of the code under test but base::Error.
#pragma once

#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace ascendrt::test {

struct Case {
  const char* name;
  void (*body)();
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

inline int& failures() {
  static int count = 0;
  return count;
}

struct Registrar {
  Registrar(const char* name, void (*body)()) { cases().push_back({name, body}); }
};

inline void report(const char* file, int line, const std::string& text) {
  ++failures();
  std::cerr << file << ":" << line << ": " << text << "\n";
}

template <class T>
std::string show(const T& value) {
  if constexpr (requires(std::ostream& out) { out << value; }) {
    std::ostringstream out;
    out << value;
    return out.str();
  } else {
    return "(value)";
  }
}

template <class A, class B>
void check_equal(const A& a, const B& b, const char* text, const char* file, int line) {
  if (!(a == b)) report(file, line, std::string(text) + ": " + show(a) + " is not " + show(b));
}

template <class F>
void check_throws(F&& f, base::Code code, const char* text, const char* file, int line) {
  try {
    f();
  } catch (const base::Error& error) {
    if (error.code == code) return;
    return report(file, line,
                  std::string(text) + " raised " + show(error.code) + " instead of " + show(code) +
                      ": " + error.text);
  }
  report(file, line, std::string(text) + " did not raise " + show(code));
}

inline void run(const Case& test) {
  try {
    test.body();
  } catch (const base::Error& error) {
    report(test.name, 0, "raised " + show(error.code) + ": " + error.text);
  } catch (const std::exception& error) {
    report(test.name, 0, std::string("raised ") + error.what());
  }
}

// Runs the tests whose name holds one of the arguments (all without arguments).
inline int run_all(int argc, char** argv) {
  const std::vector<std::string_view> wanted(argv + 1, argv + argc);
  int passed = 0;
  int failed = 0;
  for (const Case& test : cases()) {
    bool chosen = wanted.empty();
    for (const std::string_view part : wanted) {
      chosen = chosen || std::string_view(test.name).find(part) != std::string_view::npos;
    }
    if (!wanted.empty() && wanted[0] == "-l") std::cout << test.name << "\n";
    if (!chosen) continue;
    const int before = failures();
    run(test);
    const bool ok = failures() == before;
    ++(ok ? passed : failed);
    if (!ok) std::cout << "FAILED " << test.name << std::endl;
  }
  std::cout << passed << " passed, " << failed << " failed" << std::endl;
  return failed == 0 ? 0 : 1;
}

}  // namespace ascendrt::test

#define TEST(name)                                                                         \
  static void test_body_##name();                                                          \
  static const ::ascendrt::test::Registrar test_registrar_##name(#name, test_body_##name); \
  static void test_body_##name()
#define CHECK(condition) \
  ((condition) ? void() : ::ascendrt::test::report(__FILE__, __LINE__, "not true: " #condition))
#define CHECK_EQ(a, b) ::ascendrt::test::check_equal((a), (b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_THROWS_CODE(expression, code)                                                   \
  ::ascendrt::test::check_throws([&] { static_cast<void>(expression); }, (code), #expression, \
                                 __FILE__, __LINE__)
