// Logging through spdlog: one named logger per folder. Message first, then key=value pairs; never
// tensor contents.   Log("session").info("opened id={} peer={}", id, peer);
// Thread-safe.
#pragma once

#include <spdlog/spdlog.h>

#include <string>

namespace tensord {

// The logger of that name; it shares the sinks and the level of the default logger.
inline spdlog::logger& Log(const std::string& name) {
  auto logger = spdlog::get(name);
  if (logger) return *logger;
  logger = spdlog::default_logger()->clone(name);
  try {
    spdlog::register_logger(logger);
  } catch (const spdlog::spdlog_ex&) {
    // Another thread registered the same name first; its logger is the one to use.
  }
  return *spdlog::get(name);
}

}  // namespace tensord
