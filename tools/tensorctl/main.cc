// tensorctl: asks a daemon how it is. See --help.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/wire/address.h"
#include "tools/tensorctl/tensorctl.h"

int main(int argc, char** argv) {
  const char* variable = std::getenv("TENSORD_ADDRESS");
  const std::string address =
      variable != nullptr && variable[0] != '\0' ? variable : tensord::DefaultAddress();
  const tensord::ControlResult result =
      tensord::Control(std::vector<std::string>(argv + 1, argv + argc), address);
  std::fputs(result.output.c_str(), stdout);
  std::fputs(result.error.c_str(), stderr);
  return result.exit_code;
}
