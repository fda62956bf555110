// Commands that are refused, and limits: what they say, and that the session goes on.
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "server/test_client.h"

namespace tensord {
namespace {

// What only a later version of the protocol has.
void AddLaterField(google::protobuf::Message& message) {
  message.GetReflection()->MutableUnknownFields(&message)->AddVarint(1000, 1);
}

struct Refused {
  const char* name;
  void (*command)(TestClient& client);
  grpc::StatusCode code;
  const char* error;
};

// After: tensor 0 float32[2], program 0 "sum" of two float32[2], program 1 "accumulate".
const Refused kRefused[] = {
    {"UnknownProgram", [](TestClient& c) { c.Run(ProgramHandle(9), {}, {TensorHandle(9)}, true); },
     grpc::StatusCode::NOT_FOUND, "run of a program: program 9.1 does not exist"},
    {"TensorAsProgram", [](TestClient& c) { c.Run(TensorHandle(0), {}, {TensorHandle(9)}, true); },
     grpc::StatusCode::INVALID_ARGUMENT, "tensor 0.1 is not a program"},
    {"UnknownInput",
     [](TestClient& c) {
       c.Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(7)}, {TensorHandle(9)}, true);
     },
     grpc::StatusCode::NOT_FOUND, "run of program 'sum': input 1: tensor 7.1 does not exist"},
    {"OldGeneration",
     [](TestClient& c) {
       c.Release({TensorHandle(0)});
       c.Upload(TensorHandle(0, 2), {1, 2});
       c.Run(ProgramHandle(0), {TensorHandle(0, 1), TensorHandle(0, 2)}, {TensorHandle(9)}, true);
     },
     grpc::StatusCode::NOT_FOUND, "input 0: tensor 0.1 does not exist any more: it was released"},
    {"TooFewInputs",
     [](TestClient& c) { c.Run(ProgramHandle(0), {TensorHandle(0)}, {TensorHandle(9)}, true); },
     grpc::StatusCode::INVALID_ARGUMENT, "run of program 'sum': it has 2 inputs, the run names 1"},
    {"TooManyOutputs",
     [](TestClient& c) {
       c.Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)},
             {TensorHandle(9), TensorHandle(10)}, true);
     },
     grpc::StatusCode::INVALID_ARGUMENT, "it has 1 outputs, the run names 2"},
    {"OutputInUse",
     [](TestClient& c) {
       c.Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(0)}, true);
     },
     grpc::StatusCode::ALREADY_EXISTS, "output 0: tensor 0.1: the slot is in use at generation 1"},
    {"OverwriteUnderAnotherName",
     [](TestClient& c) {
       c.Run(ProgramHandle(1), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(9)}, true);
     },
     grpc::StatusCode::INVALID_ARGUMENT,
     "output 0 overwrites input 0: it must have that input's handle, tensor 0.1"},
    {"OtherShape",
     [](TestClient& c) {
       c.Upload(TensorHandle(1), {1, 2, 3});
       c.Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(1)}, {TensorHandle(9)}, true);
     },
     grpc::StatusCode::INVALID_ARGUMENT, "run of program 'sum': input 1 has another dtype"},
    {"UnknownDevice",
     [](TestClient& c) {
       c.Register(ProgramHandle(5), AddProgram("x", 1));
       c.Copy(TensorHandle(9), TensorHandle(0), "MARS:0");
     },
     grpc::StatusCode::NOT_FOUND, "copy: there is no device 'MARS:0'"},
    {"UploadOfWrongSize",
     [](TestClient& c) {
       c.Upload(TensorHandle(9), {1, 2});
       // The last command: one dimension more than bytes.
       c.Upload(TensorHandle(10), {1, 2});
       c.Last()->mutable_upload()->add_shape(3);
     },
     grpc::StatusCode::INVALID_ARGUMENT,
     "upload: float32[2, 3] has 24 bytes, the command brings 8"},
    {"UploadOverflow",
     [](TestClient& c) {
       c.Upload(TensorHandle(9), {});
       v1::UploadCommand* upload = c.Last()->mutable_upload();
       upload->add_shape(uint64_t{1} << 40);
       upload->add_shape(uint64_t{1} << 40);
     },
     grpc::StatusCode::RESOURCE_EXHAUSTED, "is larger than the limit of"},
    {"UploadOfUnknownDType",
     [](TestClient& c) {
       c.Upload(TensorHandle(9), {});
       c.Last()->mutable_upload()->set_dtype(77);
     },
     grpc::StatusCode::INVALID_ARGUMENT, "upload: dtype number 77"},
    {"SlotOutOfRange", [](TestClient& c) { c.Upload(TensorHandle(1u << 20), {1}); },
     grpc::StatusCode::INVALID_ARGUMENT, "slots are numbers below 1048576"},
    {"ReleaseOfNothing", [](TestClient& c) { c.Release({TensorHandle(7)}); },
     grpc::StatusCode::NOT_FOUND, "release: tensor 7.1 does not exist"},
    {"ANameIsCutWhereACharacterEnds",
     [](TestClient& c) {
       v1::Program program = AddProgram(std::string(199, 'n') + "é", 2);
       program.mutable_nodes(0)->set_op(9999);
       c.Register(ProgramHandle(9), std::move(program));
     },
     grpc::StatusCode::INVALID_ARGUMENT, "nnn': node 0"},
    {"NoVerb", [](TestClient& c) { c.Add(); }, grpc::StatusCode::UNIMPLEMENTED,
     "doesn't know its verb"},
    {"VerbOfALaterVersion", [](TestClient& c) { AddLaterField(*c.Add()); },
     grpc::StatusCode::UNIMPLEMENTED, "(tensord 0.1.0) doesn't know its verb"},
    {"FieldOfALaterVersionInARun",
     [](TestClient& c) {
       AddLaterField(
           *c.Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(9)}));
     },
     grpc::StatusCode::UNIMPLEMENTED, "doesn't know all of its fields"},
    {"FieldOfALaterVersionInAnAttach",
     [](TestClient& c) { AddLaterField(*c.Add()->mutable_attach()); },
     grpc::StatusCode::UNIMPLEMENTED, "doesn't know all of its fields"},
    {"FieldOfALaterVersionInAProgram",
     [](TestClient& c) {
       v1::Program program = AddProgram("later", 2);
       AddLaterField(program);
       c.Register(ProgramHandle(9), std::move(program));
     },
     grpc::StatusCode::UNIMPLEMENTED, "doesn't know all of its fields"},
    {"FieldOfALaterVersionInANode",
     [](TestClient& c) {
       v1::Program program = AddProgram("later", 2);
       AddLaterField(*program.mutable_nodes(0));
       c.Register(ProgramHandle(9), std::move(program));
     },
     grpc::StatusCode::INVALID_ARGUMENT, "fields that this build doesn't know"},
};

class RefusedTest : public ServerTest, public testing::WithParamInterface<Refused> {};

TEST_P(RefusedTest, NamesTheRuleAndTheSessionGoesOn) {
  StartServer();
  auto client = Open();
  client->Upload(TensorHandle(0), {1, 2});
  client->Register(ProgramHandle(0), AddProgram("sum", 2));
  client->Register(ProgramHandle(1), AddProgram("accumulate", 2, true));
  GetParam().command(*client);
  const uint64_t refused = client->sequence;
  const bool notify = client->Last()->run().notify();
  client->Send();
  const v1::CommandError* error = client->ReadError(refused);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->status().code(), static_cast<uint32_t>(GetParam().code));
  EXPECT_NE(error->status().message().find(GetParam().error), std::string::npos)
      << error->status().message();
  if (notify) {
    const v1::Completion* completion = client->ReadCompletion(refused);
    ASSERT_NE(completion, nullptr);
    EXPECT_EQ(completion->status().code(), error->status().code());
  }
  client->Upload(TensorHandle(20), {3, 4});
  client->Run(ProgramHandle(0), {TensorHandle(20), TensorHandle(20)}, {TensorHandle(21)});
  client->Send();
  EXPECT_EQ(client->Values(TensorHandle(21)), (std::vector<float>{6, 8}));
}

INSTANTIATE_TEST_SUITE_P(All, RefusedTest, testing::ValuesIn(kRefused),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- what a run overwrites, if it can't be started

// Over x of 2 elements and y of `n`: y + y is a fresh tensor, what overwrites x is x + v in the
// fake.
v1::Program UpdateBeside(const std::string& name, int64_t n) {
  Program program;
  program.name = name;
  Graph& graph = program.graph;
  const Node* y = graph.Param(0, DType::kFloat32, {n});
  const Node* x = graph.Param(1, DType::kFloat32, {2});
  const Node* v = graph.Variable("v", 0, 100, DType::kInt32);
  program.inputs = {y, x};
  program.variables = {v};
  program.outputs = {{.value = graph.Make(Op::kAdd, {y, y})},
                     {.value = graph.Make(Op::kAdd, {x, x}), .overwrites = 1}};
  return Encode(program);
}

struct Unstarted {
  const char* name;
  const char* program;
  std::vector<float> other;
  uint64_t capacity;  // of the device
  bool poisoned;      // the other input has an error
  grpc::StatusCode code;
};

const Unstarted kUnstarted[] = {
    {"CompilesOnlyInPart", "half", {1, 2, 3}, 1 << 20, false, grpc::StatusCode::UNIMPLEMENTED},
    {"InputHasAnError", "fine", {1, 2, 3}, 1 << 20, true, grpc::StatusCode::UNIMPLEMENTED},
    {"NoMemory", "fine", std::vector<float>(100), 600, false, grpc::StatusCode::RESOURCE_EXHAUSTED},
};

class UnstartedTest : public ServerTest, public testing::WithParamInterface<Unstarted> {};

TEST_P(UnstartedTest, DoesItsUpdates) {
  StartServer();
  runtime_->device().SetCapacity(GetParam().capacity);
  auto client = Open();
  client->Upload(TensorHandle(0), {10, 20});
  client->Upload(TensorHandle(1), GetParam().other);
  const auto n = static_cast<int64_t>(GetParam().other.size());
  if (GetParam().poisoned) {
    client->Register(ProgramHandle(9), AddProgram("bad", n));
    client->Run(ProgramHandle(9), {TensorHandle(1), TensorHandle(1)}, {TensorHandle(2)});
  }
  client->Register(ProgramHandle(0), UpdateBeside(GetParam().program, n));
  const auto update = [&](uint32_t fresh) {
    v1::RunProgram* run =
        client->Run(ProgramHandle(0), {TensorHandle(GetParam().poisoned ? 2 : 1), TensorHandle(0)},
                    {TensorHandle(fresh), TensorHandle(0)}, true);
    (*run->mutable_variables())["v"] = 5;
  };
  // What follows at once sees the update as well.
  for (const uint32_t fresh : {10, 11}) {
    update(fresh);
    const uint64_t sequence = client->sequence;
    client->Send();
    const v1::Completion* completion = client->ReadCompletion(sequence);
    ASSERT_NE(completion, nullptr);
    EXPECT_EQ(completion->status().code(), static_cast<uint32_t>(GetParam().code));
    EXPECT_EQ(client->Wait(TensorHandle(fresh)).code(), static_cast<uint32_t>(GetParam().code));
  }
  EXPECT_EQ(client->Values(TensorHandle(0)), (std::vector<float>{20, 30}));
}

INSTANTIATE_TEST_SUITE_P(All, UnstartedTest, testing::ValuesIn(kUnstarted),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(ServerTest, MemoryComesBackWhenTheSessionEnds) {
  StartServer();
  for (const bool cleanly : {true, false}) {
    auto client = Open();
    runtime_->device().Hold();
    client->Upload(TensorHandle(0), std::vector<float>(1000));
    client->UploadLater(TensorHandle(1), 1000, 1);
    client->Register(ProgramHandle(0), AddProgram("sum", 1000));
    client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(2)});
    client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(1)},
                {TensorHandle(3)});  // blocked
    client->Send();
    runtime_->device().AwaitQueued(1);
    runtime_->device().AwaitInUse(12'000);
    if (cleanly) client->Finish();
    client = nullptr;
    runtime_->device().AwaitInUse(0);  // nobody waits for the run in flight, so it is not begun
    runtime_->device().AwaitTrims(cleanly ? 1 : 2);
  }
}

TEST_F(ServerTest, LimitsHold) {
  ServerOptions options;
  options.limits.max_session_bytes = 100;
  options.limits.graph.max_nodes = 3;
  options.limits.max_commands_per_frame = 4;
  options.limits.max_message_bytes = 64 << 10;
  StartServer(options);
  auto client = Open();
  client->Upload(TensorHandle(0), std::vector<float>(20));
  client->Upload(TensorHandle(1), std::vector<float>(20));
  client->Register(ProgramHandle(0), AddProgram("sum", 20));
  client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(2)});
  client->Send();
  for (uint64_t sequence : {2, 4}) {
    const v1::CommandError* error = client->ReadError(sequence);
    ASSERT_NE(error, nullptr);
    EXPECT_EQ(error->status().code(), static_cast<uint32_t>(grpc::StatusCode::RESOURCE_EXHAUSTED));
    EXPECT_NE(error->status().message().find(
                  "the session holds 80 of its limit of 100; release tensors, or start the daemon "
                  "with a larger --max-session-bytes"),
              std::string::npos)
        << error->status().message();
  }
  client->Release({TensorHandle(0)});
  client->Upload(TensorHandle(3), std::vector<float>(25));
  client->SendAndRead();
  EXPECT_EQ(client->errors.size(), 2u);

  v1::Program large = AddProgram("large", 1);
  *large.add_nodes() = large.nodes(2);
  client->Register(ProgramHandle(1), large);
  client->Send();
  const v1::CommandError* error = client->ReadError(client->sequence);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->status().message(),
            "program 'large': the graph has 4 nodes, more than the limit of 3");

  for (int i = 0; i < 5; ++i) client->Release({});
  client->Send();
  const grpc::Status status = client->Finish();
  EXPECT_EQ(status.error_message(), "a frame carries 5 commands, more than the limit of 4");

  auto second = Open();
  second->Upload(TensorHandle(0), std::vector<float>(64 << 10));
  second->Send();
  EXPECT_EQ(second->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(ServerTest, ARunThatFindsNoMemoryWaitsForRunsInFlight) {
  StartServer();
  auto client = Open();
  runtime_->device().Hold();
  runtime_->device().SetCapacity(8);
  client->Upload(TensorHandle(0), {1});
  client->Register(ProgramHandle(0), AddProgram("sum", 1));
  client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(0)}, {TensorHandle(1)})
      ->add_release(TensorHandle(0));
  client->Run(ProgramHandle(0), {TensorHandle(1), TensorHandle(1)}, {TensorHandle(2)}, true)
      ->add_release(TensorHandle(1));
  client->Run(ProgramHandle(0), {TensorHandle(2), TensorHandle(2)}, {TensorHandle(3)}, true);
  client->Run(ProgramHandle(0), {TensorHandle(2), TensorHandle(2)}, {TensorHandle(4)}, true);
  client->Send();
  runtime_->device().AwaitQueued(1);
  runtime_->device().Unhold();
  for (uint64_t sequence : {4, 5}) {
    const v1::Completion* completion = client->ReadCompletion(sequence);
    ASSERT_NE(completion, nullptr);
    EXPECT_EQ(completion->status().message(), "");
  }
  // Nothing in flight would free memory for the last one.
  const v1::Completion* completion = client->ReadCompletion(6);
  ASSERT_NE(completion, nullptr);
  EXPECT_EQ(completion->status().message(), "run of program 'sum': 4 bytes asked for, 0 are free");
  EXPECT_EQ(client->Values(TensorHandle(3)), (std::vector<float>{8}));
}

TEST_F(ServerTest, AClientThatReadsNoAnswersIsNotReadEither) {
  ServerOptions options;
  options.limits.max_pending_commands = 8;
  StartServer(options);
  auto client = Open();
  std::thread writer([&] {  // it blocks until somebody reads the errors
    for (int i = 0; i < 500; ++i) {
      client->Release({TensorHandle(7)});
      client->Send();
    }
  });
  EXPECT_NE(client->ReadError(500), nullptr);
  writer.join();
  EXPECT_EQ(client->errors.size(), 500u);
}

TEST_F(ServerTest, ManyPendingCommandsAreNotReadButNotLost) {
  ServerOptions options;
  options.limits.max_pending_commands = 4;
  options.limits.max_runs_in_flight = 2;
  StartServer(options);
  auto client = Open();
  runtime_->device().Hold();
  client->Upload(TensorHandle(0), {0});
  client->Upload(TensorHandle(1), {1});
  client->Register(ProgramHandle(0), AddProgram("accumulate", 1, true));
  client->SendAndRead();
  std::thread writer([&] {  // it blocks when the daemon doesn't read on
    for (int i = 0; i < 50; ++i) {
      client->Run(ProgramHandle(0), {TensorHandle(0), TensorHandle(1)}, {TensorHandle(0)}, i == 49);
      client->Send();
    }
  });
  runtime_->device().AwaitQueued(2);
  const auto other = Open();
  other->welcome = client->welcome;
  EXPECT_LE(other->Counters().programs_run(), 2u);
  runtime_->device().Unhold();
  writer.join();
  ASSERT_NE(client->ReadCompletion(53), nullptr);
  EXPECT_EQ(client->Values(TensorHandle(0)), (std::vector<float>{50}));
}

}  // namespace
}  // namespace tensord
