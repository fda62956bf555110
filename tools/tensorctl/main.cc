// tensorctl: asks a daemon how it is. See --help.
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "core/wire/address.h"
#include "tools/tensorctl/tensorctl.h"
#include "tools/tensorctl/terminal.h"

int main(int argc, char** argv) {
  const char* variable = std::getenv("TENSORD_ADDRESS");
  const std::string address =
      variable != nullptr && variable[0] != '\0' ? variable : tensord::DefaultAddress();
  std::optional<tensord::Terminal> terminal;
  tensord::Show show;
  if (tensord::Terminal::Here()) {
    terminal.emplace();
    show = [&terminal](const std::string& picture, absl::Duration how_long) {
      return terminal->Show(picture, how_long);
    };
  }
  const tensord::ControlResult result =
      tensord::Control(std::vector<std::string>(argv + 1, argv + argc), address, show);
  terminal.reset();  // what follows goes to the screen that was there before
  std::fputs(result.output.c_str(), stdout);
  std::fputs(result.error.c_str(), stderr);
  return result.exit_code;
}
