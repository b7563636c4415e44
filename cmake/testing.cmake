# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
# The test-only extension _testing: the core library on a simulated driver. Never in a release.

set(GG_TESTING_SOURCES
  csrc/testing/bind_configs.cc
  csrc/testing/bind_conformance.cc
  csrc/testing/bind_cpu.cc
  csrc/testing/bind_cublaslt.cc
  csrc/testing/bind_emulation.cc
  csrc/testing/bind_executor.cc
  csrc/testing/bind_graphs.cc
  csrc/testing/bind_runtime.cc
  csrc/testing/bind_simulation.cc
  csrc/testing/command_buffer.cc
  csrc/testing/conformance.cc
  csrc/testing/conformance_capture.cc
  csrc/testing/conformance_forks.cc
  csrc/testing/conformance_graphs.cc
  csrc/testing/conformance_streams.cc
  csrc/testing/emulations.cc
  csrc/testing/executor.cc
  csrc/testing/executor_calls.cc
  csrc/testing/fake_cublaslt.cc
  csrc/testing/ffi_calls.cc
  csrc/testing/handler_time.cc
  csrc/testing/lt_matmul.cc
  csrc/testing/machine.cc
  csrc/testing/program.cc
  csrc/testing/real_driver.cc
  csrc/testing/reset_device_states.cc
  csrc/testing/reset_kernel_libraries.cc
  csrc/testing/sim_call.cc
  csrc/testing/sim_calls_context.cc
  csrc/testing/sim_calls_graphs.cc
  csrc/testing/sim_calls_streams.cc
  csrc/testing/sim_calls_work.cc
  csrc/testing/sim_capture.cc
  csrc/testing/sim_driver.cc
  csrc/testing/sim_faults.cc
  csrc/testing/sim_kernels.cc
  csrc/testing/sim_log.cc
  csrc/testing/sim_memory.cc
  csrc/testing/sim_streams.cc
  csrc/testing/sim_tables.cc
  csrc/testing/sim_types.cc
  csrc/testing/sim_work.cc
  csrc/testing/simulation.cc
  csrc/testing/test_targets.cc
  csrc/testing/testing_module.cc)

set_source_files_properties(csrc/testing/emulations.cc PROPERTIES COMPILE_OPTIONS -O2)

# The device code, compiled for the host: its own kernels/ptx*.cuh come before those of csrc.
add_library(gg_emulation OBJECT
  csrc/testing/emulation/async_copies.cc
  csrc/testing/emulation/barriers.cc
  csrc/testing/emulation/block.cc
  csrc/testing/emulation/faults.cc
  csrc/testing/emulation/fiber.cc
  csrc/testing/emulation/grid.cc
  csrc/testing/emulation/grouped_drhs_kernels.cc
  csrc/testing/emulation/grouped_gemm_kernels.cc
  csrc/testing/emulation/memory.cc
  csrc/testing/emulation/programs.cc
  csrc/testing/emulation/publish_kernel.cc
  csrc/testing/emulation/scheduler.cc
  csrc/testing/emulation/thread_calls.cc
  csrc/testing/emulation/warp.cc
  csrc/testing/emulation/wgmma.cc
  csrc/testing/emulation/wgmma_gemm_kernels.cc
  csrc/testing/emulation/wgmma_transposed_kernels.cc)
target_include_directories(gg_emulation PRIVATE csrc/testing/emulation csrc)
# Jumps between stacks are not overflows; device code reads memory under several types.
target_compile_options(gg_emulation PRIVATE -Wall -Wextra -Werror -Wno-unknown-pragmas
                       -U_FORTIFY_SOURCE -fno-strict-aliasing)
set_source_files_properties(
  csrc/testing/emulation/grouped_drhs_kernels.cc csrc/testing/emulation/grouped_gemm_kernels.cc
  csrc/testing/emulation/programs.cc csrc/testing/emulation/wgmma_gemm_kernels.cc
  csrc/testing/emulation/wgmma_transposed_kernels.cc PROPERTIES COMPILE_OPTIONS -O1)

# Without fatbins each library is one byte, which is all the simulated driver asks of it.
if(NOT GG_NVCC)
  list(APPEND GG_TESTING_SOURCES csrc/testing/simulated_blobs.cc)
  set(libraries "")
  foreach(stem IN LISTS GG_KERNEL_SOURCES)
    string(APPEND libraries "GG_LIBRARY(\"${stem}\") ")
  endforeach()
  set_source_files_properties(csrc/testing/simulated_blobs.cc PROPERTIES
    COMPILE_DEFINITIONS "GG_SIMULATED_LIBRARIES=${libraries}")
endif()

# The raw interface is in both extensions: a domain of its own keeps their Python types apart.
nanobind_add_module(_testing STABLE_ABI NB_STATIC NB_DOMAIN graphsafe_gg_testing
                    ${GG_TESTING_SOURCES} csrc/raw.cc)
target_link_libraries(_testing PRIVATE gg_core gg_emulation)
target_compile_options(_testing PRIVATE -Wall -Wextra -Wsign-conversion -Werror)
target_link_options(_testing PRIVATE
  "LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/exports_testing.map")
install(TARGETS _testing LIBRARY DESTINATION graphsafe_gg)
