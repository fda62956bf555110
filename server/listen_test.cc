#include "server/listen.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/status.h"

namespace tensord {
namespace {

TEST(ListenTest, AddressesAreUnderstood) {
  const struct {
    const char* text;
    ListenAddress::Kind kind;
    const char* path_or_host;
    int port;
  } kCases[] = {
      {"unix:/run/t.sock", ListenAddress::Kind::kUnix, "/run/t.sock", 0},
      {"unix:///run/t.sock", ListenAddress::Kind::kUnix, "/run/t.sock", 0},
      {"unix:/run/./x/../t.sock", ListenAddress::Kind::kUnix, "/run/t.sock", 0},
      {"localhost:7070", ListenAddress::Kind::kTcp, "localhost", 7070},
      {"tcp:127.0.0.1:0", ListenAddress::Kind::kTcp, "127.0.0.1", 0},
      {"[::1]:80", ListenAddress::Kind::kTcp, "::1", 80},
  };
  for (const auto& test : kCases) {
    const auto address = ParseListenAddress(test.text, false);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->kind, test.kind);
    EXPECT_EQ(test.kind == ListenAddress::Kind::kUnix ? address->path : address->host,
              test.path_or_host);
    EXPECT_EQ(address->port, test.port);
  }
}

TEST(ListenTest, BadAddressesAreExplained) {
  const struct {
    std::string text;
    const char* error;
  } kCases[] = {
      {"unix:", "the path is empty"},
      {"unix:/" + std::string(200, 'x'), "the path has 201 bytes, sockets allow 107"},
      {"localhost", "there is no port; addresses look like"},
      {":80", "there is no host"},
      {"localhost:http", "the port is not a number"},
      {"localhost:70000", "the port is not a number from 0 to 65535"},
      {"::1:80", "an IPv6 address stands in brackets"},
  };
  for (const auto& test : kCases) {
    const absl::Status status = ParseListenAddress(test.text, true).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(Message(status).find(test.error), std::string_view::npos) << status;
  }
}

TEST(ListenTest, OtherMachinesNeedPermission) {
  for (const char* text : {"0.0.0.0:7070", "[::]:7070", "example.org:7070", "192.168.1.5:1",
                           "127.0.0.1.example.org:1"}) {
    EXPECT_EQ(ParseListenAddress(text, false).status().code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(ParseListenAddress(text, true).ok());
  }
}

TEST(ListenTest, MetricsNeedHostAndPort) {
  EXPECT_EQ(ParseMetricsAddress("localhost:9100", false)->port, 9100);
  EXPECT_EQ(Message(ParseMetricsAddress("unix:/run/m.sock", false).status()),
            "--metrics-listen: unix:/run/m.sock: Prometheus needs HOST:PORT, not a unix socket");
  EXPECT_EQ(ParseMetricsAddress("0.0.0.0:9100", false).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(ListenTest, SoDoesTheConsole) {
  EXPECT_EQ(ParseConsoleAddress("localhost:7080", false)->port, 7080);
  EXPECT_EQ(Message(ParseConsoleAddress("unix:/c.sock", false).status()),
            "--console-listen: unix:/c.sock: browsers need HOST:PORT, not a unix socket");
  EXPECT_EQ(ParseConsoleAddress("0.0.0.0:7080", false).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ParseConsoleAddress("0.0.0.0:7080", true)->host, "0.0.0.0");
}

}  // namespace
}  // namespace tensord
