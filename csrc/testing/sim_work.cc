// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/sim_work.h"

#include <algorithm>

namespace graphsafe_gg::sim {
namespace {

bool has_same_kind(const Work& a, const Work& b) {
  if (a.index() != b.index()) return false;
  if (const auto* copy = std::get_if<Copy>(&a)) {
    const auto& other = std::get<Copy>(b);
    return (copy->to_host == nullptr) == (other.to_host == nullptr) &&
           (copy->from == 0) == (other.from == 0);
  }
  if (const auto* child = std::get_if<ChildGraph>(&a)) {
    return has_same_topology(*child->body, *std::get<ChildGraph>(b).body);
  }
  return true;
}

// Adds the body's nodes to the run; those without dependencies wait for `before`. Returns the
// items that nothing in the body waits for.
std::vector<size_t> append(const GraphBody& body, const std::vector<size_t>& before,
                           GraphRun& run) {
  std::vector<std::vector<size_t>> ends(body.nodes.size());  // items that finish each node
  std::vector<bool> is_last(body.nodes.size(), true);
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    const Node& node = body.nodes[i];
    std::vector<size_t> waits = node.dependencies.empty() ? before : std::vector<size_t>{};
    for (const size_t dependency : node.dependencies) {
      is_last[dependency] = false;
      waits.insert(waits.end(), ends[dependency].begin(), ends[dependency].end());
    }
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    if (const auto* child = std::get_if<ChildGraph>(&node.work)) {
      ends[i] = append(*child->body, waits, run);
      if (!ends[i].empty()) continue;
    }
    const size_t item = run.items.size();
    run.items.push_back({&node.work, {}, waits.size()});
    for (const size_t wait : waits) run.items[wait].dependents.push_back(item);
    ends[i] = {item};
  }
  std::vector<size_t> last;
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    if (is_last[i]) last.insert(last.end(), ends[i].begin(), ends[i].end());
  }
  return last;
}

}  // namespace

NodeType node_type(const Work& work) {
  struct Visitor {
    NodeType operator()(const Empty&) { return kNodeEmpty; }
    NodeType operator()(const KernelLaunch&) { return kNodeKernel; }
    NodeType operator()(const Copy&) { return kNodeMemcpy; }
    NodeType operator()(const Memset&) { return kNodeMemset; }
    NodeType operator()(const EventRecord&) { return kNodeEventRecord; }
    NodeType operator()(const EventWait&) { return kNodeWaitEvent; }
    NodeType operator()(const Gate&) { return kNodeEmpty; }
    NodeType operator()(const ChildGraph&) { return kNodeGraph; }
  };
  return std::visit(Visitor{}, work);
}

bool has_same_topology(const GraphBody& a, const GraphBody& b) {
  if (a.nodes.size() != b.nodes.size()) return false;
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    if (a.nodes[i].dependencies != b.nodes[i].dependencies) return false;
    if (!has_same_kind(a.nodes[i].work, b.nodes[i].work)) return false;
  }
  return true;
}

GraphRun flatten(std::shared_ptr<const GraphBody> body) {
  GraphRun run;
  append(*body, {}, run);
  run.body = std::move(body);
  run.num_left = run.items.size();
  for (size_t i = 0; i < run.items.size(); ++i) {
    if (run.items[i].num_waiting == 0) run.ready.push_back(i);
  }
  return run;
}

}  // namespace graphsafe_gg::sim
