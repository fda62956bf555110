#include "core/ir/program.h"

#include <absl/container/flat_hash_map.h>
#include <xxhash.h>

#include "core/ir/kernel.h"

namespace tensord {
namespace {

// Writes nodes with their sources as numbers in topological order.
struct KeyWriter {
  std::string key;
  absl::flat_hash_map<const Node*, int64_t> number;

  void Int(int64_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof(value)); }

  void Graph(absl::Span<const Node* const> roots) {
    for (const Node* node : TopologicalOrder(roots)) {
      if (!number.emplace(node, static_cast<int64_t>(number.size())).second) continue;
      Int(static_cast<int64_t>(node->op) | static_cast<int64_t>(node->dtype) << 8 |
          static_cast<int64_t>(node->lanes) << 16);
      Nodes(node->src);
      Int(static_cast<int64_t>(node->ints.size()));
      for (int64_t value : node->ints) Int(value);
      Int(static_cast<int64_t>(node->text.size()));
      key += node->text;
    }
  }
  // Nodes outside of the graph are written with it: an input that nothing reads, say.
  void Nodes(absl::Span<const Node* const> nodes) {
    Int(static_cast<int64_t>(nodes.size()));
    for (const Node* node : nodes) {
      if (!number.contains(node)) Graph({node});
      Int(number.at(node));
    }
  }
};

}  // namespace

std::string StructuralKey(const Program& program) {
  KeyWriter writer;
  std::vector<const Node*> values;
  for (const Program::Output& output : program.outputs) values.push_back(output.value);
  writer.Graph(values);
  writer.Nodes(program.inputs);
  writer.Nodes(program.variables);
  writer.Nodes(values);
  for (const Program::Output& output : program.outputs) writer.Int(output.overwrites);
  writer.Int(program.fast_math);
  writer.Int(program.devices);
  return writer.key;
}

uint64_t StructuralHash(const Program& program) {
  std::vector<uint64_t> words;
  for (const Node* input : program.inputs) words.push_back(input->hash);
  words.push_back(program.outputs.size() << 1 | (program.fast_math ? 1 : 0));
  words.push_back(static_cast<uint64_t>(program.devices));
  for (const Program::Output& output : program.outputs) {
    words.push_back(output.value->hash);
    words.push_back(static_cast<uint64_t>(output.overwrites));
  }
  return XXH3_64bits(words.data(), words.size() * sizeof(uint64_t));
}

std::string StructuralKey(const Kernel& kernel) {
  KeyWriter writer;
  writer.Graph({kernel.sink});
  writer.Nodes(kernel.loops);
  writer.Nodes(kernel.params);
  writer.Nodes(kernel.variables);
  return writer.key;
}

}  // namespace tensord
