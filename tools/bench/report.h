// How a benchmark tells its figures: samples in, one JSON object on stdout out, which
// tools/bench/run reads. The median is what to quote; minimum and maximum say how noisy the machine
// was.
//
//   int main(int argc, char** argv) {
//     return tensord::RunBenchmark(argc, argv, "times copies", [](tensord::Report& report) {
//       report.Add("copy", "us", samples);
//       return absl::OkStatus();
//     });
//   }
#pragma once

#include <absl/status/status.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tensord {

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  double Milliseconds() const { return Seconds() * 1e3; }
  double Microseconds() const { return Seconds() * 1e6; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class Report {
 public:
  // Names are plain words, of letters, digits, spaces and "_/,+.-".
  void Add(std::string name, std::string unit, std::vector<double> samples);
  std::string Json() const;

 private:
  std::vector<std::string> rows_;
};

// Middle of the samples; of which there must be one.
double Median(std::vector<double> samples);

// Parses flags, measures, and prints the report; or the error, to stderr. Returns the exit status.
int RunBenchmark(int argc, char** argv, std::string_view usage,
                 const std::function<absl::Status(Report&)>& measure);

}  // namespace tensord
