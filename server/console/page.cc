#include "server/console/page.h"

namespace tensord {
namespace {

constexpr PageFile kFiles[] = {
    {
        "/",
        "text/html; charset=utf-8",
#include "server/console/page/console.html.inc"
    },
    {
        "/console.css",
        "text/css; charset=utf-8",
#include "server/console/page/console.css.inc"
    },
    {
        "/console.js",
        "text/javascript; charset=utf-8",
#include "server/console/page/console.js.inc"
    },
    {
        "/icon.svg",
        "image/svg+xml",
#include "server/console/page/icon.svg.inc"
    },
};

}  // namespace

const PageFile* FindPageFile(std::string_view path) {
  for (const PageFile& file : kFiles) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

}  // namespace tensord
