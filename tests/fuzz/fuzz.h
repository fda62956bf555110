// What a fuzz target is. Its own file defines both functions; driver.cc makes an ordinary test of
// them, libfuzzer.cc a program that is led by coverage.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tensord::fuzz {

// Inputs from which others are made.
std::vector<std::string> Seeds();

// "" if all is well, else the rule that was broken. Crashes, leaks and hangs speak for themselves.
std::string Try(std::string_view input);

}  // namespace tensord::fuzz
