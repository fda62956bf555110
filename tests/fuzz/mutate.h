// Changes an input a little, as a fuzzer without coverage does. The same numbers make the same
// input.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tensord::fuzz {

// `others`: inputs of which parts may be taken.
std::string Mutate(std::string input, const std::vector<std::string>& others,
                   std::mt19937_64& random);

}  // namespace tensord::fuzz
