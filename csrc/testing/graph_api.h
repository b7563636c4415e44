// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The driver calls that XLA makes and the runtime does not: streams, capture, graphs, device
// memory. The executor and the conformance checks use them, on the simulated or the real driver.
#pragma once

#include <cstddef>

#include "runtime/cuda_driver.h"

typedef struct CUgraphNode_st* CUgraphNode;
typedef struct CUgraphExec_st* CUgraphExec;

namespace graphsafe_gg {

// X(member, exported symbol, parameters)
#define GG_GRAPH_API(X)                                                                           \
  X(ctx_set_current, "cuCtxSetCurrent", (CUcontext ctx))                                          \
  X(stream_create, "cuStreamCreate", (CUstream * stream, unsigned flags))                         \
  X(stream_destroy, "cuStreamDestroy_v2", (CUstream stream))                                      \
  X(stream_query, "cuStreamQuery", (CUstream stream))                                             \
  X(stream_synchronize, "cuStreamSynchronize", (CUstream stream))                                 \
  X(stream_wait_event, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned flags))     \
  X(stream_begin_capture, "cuStreamBeginCapture_v2", (CUstream stream, int mode))                 \
  X(stream_end_capture, "cuStreamEndCapture", (CUstream stream, CUgraph * graph))                 \
  X(mem_alloc, "cuMemAlloc_v2", (cuda::DevicePtr * device, size_t size_bytes))                    \
  X(mem_free, "cuMemFree_v2", (cuda::DevicePtr device))                                           \
  X(memcpy_htod_async, "cuMemcpyHtoDAsync_v2",                                                    \
    (cuda::DevicePtr device, const void* host, size_t size_bytes, CUstream stream))               \
  X(memcpy_dtod_async, "cuMemcpyDtoDAsync_v2",                                                    \
    (cuda::DevicePtr to, cuda::DevicePtr from, size_t size_bytes, CUstream stream))               \
  X(memset_d8_async, "cuMemsetD8Async",                                                           \
    (cuda::DevicePtr device, unsigned char value, size_t size_bytes, CUstream stream))            \
  X(graph_create, "cuGraphCreate", (CUgraph * graph, unsigned flags))                             \
  X(graph_destroy, "cuGraphDestroy", (CUgraph graph))                                             \
  X(graph_get_nodes, "cuGraphGetNodes", (CUgraph graph, CUgraphNode * nodes, size_t* num_nodes))  \
  X(graph_node_get_type, "cuGraphNodeGetType", (CUgraphNode node, int* type))                     \
  X(graph_add_child_graph_node, "cuGraphAddChildGraphNode",                                       \
    (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies, size_t num_dependencies, \
     CUgraph child))                                                                              \
  X(graph_instantiate, "cuGraphInstantiateWithFlags",                                             \
    (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                                \
  X(graph_exec_child_graph_node_set_params, "cuGraphExecChildGraphNodeSetParams",                 \
    (CUgraphExec exec, CUgraphNode node, CUgraph child))                                          \
  X(graph_exec_destroy, "cuGraphExecDestroy", (CUgraphExec exec))                                 \
  X(graph_launch, "cuGraphLaunch", (CUgraphExec exec, CUstream stream))

struct GraphApi {
#define GG_MEMBER(member, symbol, params) cuda::Result(*member) params;
  GG_GRAPH_API(GG_MEMBER)
#undef GG_MEMBER
};

}  // namespace graphsafe_gg
