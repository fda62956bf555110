#include "tools/tensorctl/tensorctl.h"

#include <absl/algorithm/container.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <absl/time/time.h>

#include <string_view>
#include <utility>
#include <vector>

#include "client/cc/security.h"
#include "core/base/status.h"
#include "tools/tensorctl/commands.h"
#include "tools/tensorctl/daemon.h"

namespace tensord {
namespace {

std::string Usage(const Command& command) {
  return fmt::format("{}{}{}", command.name, command.operands.empty() ? "" : " ", command.operands);
}

std::string Help(const std::string& default_address) {
  std::string text =
      "tensorctl: asks a tensord daemon, and tells it\n\n"
      "usage: tensorctl [--flag VALUE]... COMMAND\n\n";
  for (const Command& command : Commands()) {
    text += fmt::format("  {:<24} {}\n", Usage(command), command.help);
  }
  return text + fmt::format(
                    "\n"
                    "  --address ADDRESS   the daemon; default {} (environment: TENSORD_ADDRESS)\n"
                    "  --json              print JSON instead of tables\n"
                    "  --count N           of ping and bench: how many; of buffers: how many at\n"
                    "                      most; of top: so many times, then end\n"
                    "  --interval DURATION between two pictures of top; default 1s\n"
                    "  --speed N           of replay: 1 is as recorded; default: at once\n"
                    "  --reason TEXT       of sessions kill: what the client is told\n"
                    "  --session ID        of trace: of this session only\n"
                    "  --seconds N         of trace: what runs from now on, for so long, with the\n"
                    "                      times of kernels; default: what the daemon has kept\n"
                    "  -o, --output FILE   of trace: where it goes; default: printed\n"
                    "  --timeout DURATION  how long to wait for an answer; default 5s\n"
                    "  --help              print this\n\n"
                    "TLS and tokens for daemons on other machines: docs/security.md\n\n"
                    "exit code: 0 done, 1 the daemon is not there or refused, 2 wrong usage\n",
                    default_address);
}

absl::Status SetDuration(std::string_view name, const std::string& value, absl::Duration& out) {
  if (absl::ParseDuration(value, &out) && out > absl::ZeroDuration()) return absl::OkStatus();
  return InvalidArgument("--{} {}: takes a duration such as 500ms or 5s", name, value);
}

absl::Status SetFlag(std::string_view name, const std::string& value, ControlOptions& options) {
  if (name == "interval") return SetDuration(name, value, options.interval);
  if (name == "timeout") return SetDuration(name, value, options.timeout);
  if (name == "address") {
    options.address = value;
  } else if (name == "reason") {
    options.reason = value;
  } else if (name == "session") {
    options.session = value;
  } else if (name == "output") {
    options.output = value;
  } else if (name == "seconds") {
    if (!absl::SimpleAtod(value, &options.seconds) || !(options.seconds > 0) ||
        options.seconds > 3600) {
      return InvalidArgument("--seconds {}: takes a number above 0, 3600 at most", value);
    }
  } else if (name == "speed") {
    if (!absl::SimpleAtod(value, &options.speed) || !(options.speed > 0)) {
      return InvalidArgument("--speed {}: takes a number above 0; 1 is as recorded", value);
    }
  } else if (name == "count") {
    if (!absl::SimpleAtoi(value, &options.count) || options.count < 1 ||
        options.count > 1'000'000) {
      return InvalidArgument("--count {}: takes a number from 1 to 1000000", value);
    }
  } else {
    return InvalidArgument("--{} does not exist: see tensorctl --help", name);
  }
  return absl::OkStatus();
}

absl::StatusOr<ControlOptions> Parse(absl::Span<const std::string> arguments,
                                     const std::string& default_address) {
  ControlOptions options;
  options.address = default_address;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string argument = arguments[i] == "-o" ? "--output" : arguments[i];
    if (argument.substr(0, 2) != "--") {
      options.words.push_back(argument);
    } else if (argument == "--help") {
      options.help = true;
    } else if (argument == "--json") {
      options.json = true;
    } else if (const size_t equals = argument.find('='); equals != std::string::npos) {
      TD_RETURN_IF_ERROR(
          SetFlag(argument.substr(2, equals - 2), argument.substr(equals + 1), options));
    } else if (i + 1 < arguments.size()) {
      TD_RETURN_IF_ERROR(SetFlag(argument.substr(2), arguments[i + 1], options));
      ++i;
    } else {
      return InvalidArgument("{} needs a value, or does not exist: see tensorctl --help", argument);
    }
  }
  return options;
}

struct Call {
  const Command* command;
  absl::Span<const std::string> operands;
};

// The command of the most words that these begin with.
absl::StatusOr<Call> FindCommand(absl::Span<const std::string> words) {
  if (words.empty()) return InvalidArgument("a command is missing");
  Call call{nullptr, {}};
  size_t longest = 0;
  for (const Command& command : Commands()) {
    const std::vector<std::string> name = absl::StrSplit(std::string(command.name), ' ');
    if (name.size() <= longest || name.size() > words.size()) continue;
    if (!absl::c_equal(name, words.first(name.size()))) continue;
    longest = name.size();
    call = {&command, words.subspan(longest)};
  }
  if (call.command == nullptr) {
    return InvalidArgument("there is no command '{}'", absl::StrJoin(words, " "));
  }
  if (call.operands.size() < call.command->min_operands ||
      call.operands.size() > call.command->max_operands) {
    return InvalidArgument("usage: tensorctl {}", Usage(*call.command));
  }
  return call;
}

}  // namespace

ControlResult Control(absl::Span<const std::string> arguments, const std::string& default_address,
                      const Show& show) {
  absl::StatusOr<ControlOptions> options = Parse(arguments, default_address);
  if (!options.ok()) {
    return {.exit_code = 2,
            .output = {},
            .error = fmt::format("tensorctl: {}\n", Message(options.status()))};
  }
  if (options->help) return {.exit_code = 0, .output = Help(default_address), .error = {}};
  const absl::StatusOr<Call> call = FindCommand(options->words);
  if (!call.ok()) {
    return {
        .exit_code = 2,
        .output = {},
        .error = fmt::format("tensorctl: {}\n\n{}", Message(call.status()), Help(default_address))};
  }
  options->show = show;
  const auto channel = Dial(options->address, Security::FromEnvironment(), {});
  if (!channel.ok()) {
    return {.exit_code = 2,
            .output = {},
            .error = fmt::format("tensorctl: {}\n", Message(channel.status()))};
  }
  const Daemon daemon(*options, *channel);
  absl::StatusOr<std::string> output = call->command->run(daemon, call->operands);
  if (!output.ok()) {
    return {.exit_code = 1,
            .output = {},
            .error = fmt::format("tensorctl: {}\n", Message(output.status()))};
  }
  return {.exit_code = 0, .output = *std::move(output), .error = {}};
}

}  // namespace tensord
