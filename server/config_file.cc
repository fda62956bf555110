#include "server/config_file.h"

#include <absl/strings/str_join.h>
#include <sys/stat.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "core/base/status.h"

namespace tensord {
namespace {

std::string Where(const std::string& path, const toml::source_position& at) {
  return fmt::format("{}:{}:{}", path, at.line, at.column);
}

// A list of texts has a text; a list of anything else has none, and is of no kind that a flag
// takes.
void Take(const toml::node& node, FileValue& value) {
  if (const auto* text = node.as_string()) {
    value.kind = FileValue::Kind::kText;
    value.text = text->get();
  } else if (const auto* number = node.as_integer()) {
    value.kind = FileValue::Kind::kNumber;
    value.text = std::to_string(number->get());
  } else if (const auto* on = node.as_boolean()) {
    value.kind = FileValue::Kind::kSwitch;
    value.text = on->get() ? "true" : "false";
  } else if (const auto* list = node.as_array();
             list != nullptr && (list->empty() || list->is_homogeneous<std::string>())) {
    value.kind = FileValue::Kind::kList;
    std::vector<std::string> texts;
    for (const toml::node& element : *list) texts.push_back(element.as_string()->get());
    value.text = absl::StrJoin(texts, ",");
  }
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  // Another kind of file may never end, or not even be opened.
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return InvalidArgument("{}: is no regular file", path);
  }
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  if (file == nullptr && errno == ENOENT) return NotFound("{}: there is no such file", path);
  std::string text;
  char buffer[4096];
  if (file != nullptr) {
    for (size_t got; (got = std::fread(buffer, 1, sizeof(buffer), file.get())) > 0;) {
      text.append(buffer, got);
    }
    if (std::ferror(file.get()) == 0) return text;
  }
  return InvalidArgument("{}: cannot be read: {}", path, std::strerror(errno));
}

}  // namespace

absl::StatusOr<std::vector<FileValue>> ReadConfigFile(const std::string& path) {
  TD_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::vector<FileValue> values;
  try {
    const toml::table table = toml::parse(text, path);
    for (const auto& [key, node] : table) {
      FileValue value{.key = std::string(key.str())};
      const toml::source_position& at =
          key.source().begin ? key.source().begin : node.source().begin;
      value.where = Where(path, at);
      value.line = static_cast<int>(at.line);
      Take(node, value);
      values.push_back(std::move(value));
    }
  } catch (const toml::parse_error& error) {
    return InvalidArgument("{}: {}", Where(path, error.source().begin), error.description());
  }
  // The table is sorted by name; people read files from the top.
  std::stable_sort(values.begin(), values.end(),
                   [](const FileValue& a, const FileValue& b) { return a.line < b.line; });
  return values;
}

}  // namespace tensord
