// The unit-test harness. One executable holds all tests, runs anywhere (qemu, sanitizers) with
// nothing installed.
//   TEST(name) { CHECK(cond); CHECK_EQ(a, b); CHECK_THROWS_CODE(expr, 107000); }
//   unit_tests [-l | -k/n] [part of a name ...]    run what matches (of that the k-th of n shares,
//   -l lists only); exit code 1 when something failed
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

// Tests are dealt out in turn, so that neighbours, which are of a kind, go to different processes.
struct Choice {
  std::vector<std::string_view> parts;  // of names; none: all
  int share = 1;
  int shares = 1;
  bool list = false;

  Choice(int argc, char** argv) {
    for (const std::string_view word : std::vector<std::string_view>(argv + 1, argv + argc)) {
      if (word == "-l") {
        list = true;
      } else if (word.size() == 4 && word[0] == '-' && word[2] == '/') {
        share = word[1] - '0';
        shares = word[3] - '0';
      } else {
        parts.push_back(word);
      }
    }
  }

  std::vector<Case> of(const std::vector<Case>& all) const {
    std::vector<Case> chosen;
    int matches = 0;
    for (const Case& test : all) {
      bool matching = parts.empty();
      for (const std::string_view part : parts) {
        matching = matching || std::string_view(test.name).find(part) != std::string_view::npos;
      }
      if (matching && ++matches % shares == share % shares) chosen.push_back(test);
    }
    return chosen;
  }
};

inline int run_all(int argc, char** argv) {
  const Choice choice(argc, argv);
  int passed = 0;
  int failed = 0;
  for (const Case& test : choice.of(cases())) {
    if (choice.list) {
      std::cout << test.name << "\n";
      continue;
    }
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
