// The files of the console's page, which the build puts into the daemon.
#pragma once

#include <string_view>

namespace tensord {

struct PageFile {
  std::string_view path;  // "/console.js"
  std::string_view type;
  std::string_view text;
};

// Null if the page has no such file.
const PageFile* FindPageFile(std::string_view path);

}  // namespace tensord
