# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
# Compiles each .cu to a fatbin and embeds it. Sets GG_KERNEL_BLOBS to the source that holds them.

set(GG_KERNEL_SOURCES
  grouped_gemm_bf16
  grouped_gemm_f16
  grouped_gemm_f32
  grouped_drhs_bf16
  grouped_drhs_f16
  grouped_drhs_f32
  publish)

# sm_80 code serves 8.x, sm_90a code 9.0, and the PTX everything newer.
set(GG_GENCODE
  -gencode=arch=compute_80,code=sm_80
  -gencode=arch=compute_90a,code=sm_90a
  -gencode=arch=compute_90,code=compute_90)

if(NOT GG_CUDA MATCHES "^(ON|OFF|AUTO)$")
  message(FATAL_ERROR "GG_CUDA must be ON, OFF or AUTO; got ${GG_CUDA}.")
endif()

# In order: what the environment names, PATH, pip's packages beside the Python that builds, and the
# usual folder of a toolkit.
set(GG_NVCC "GG_NVCC-NOTFOUND")
if(NOT GG_CUDA STREQUAL "OFF")
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c "import sysconfig; print(sysconfig.get_path('platlib'))"
    OUTPUT_VARIABLE GG_SITE_PACKAGES OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  if(EXISTS "$ENV{CUDACXX}")
    set(GG_NVCC "$ENV{CUDACXX}")
  else()
    find_program(GG_NVCC nvcc
      HINTS "$ENV{CUDA_HOME}/bin" "$ENV{CUDA_PATH}/bin"
      PATHS "${GG_SITE_PACKAGES}/nvidia/cu13/bin" /usr/local/cuda/bin
      NO_CACHE)
  endif()
endif()
if(GG_CUDA STREQUAL "ON" AND NOT GG_NVCC)
  message(FATAL_ERROR "GG_CUDA=ON needs nvcc: put it on PATH or set CUDACXX.")
endif()

set(GG_KERNEL_BLOBS "${CMAKE_BINARY_DIR}/kernel_blobs.cc")
set(GG_BLOB_SYMBOLS "")
set(GG_BLOB_ENTRIES "")
set(GG_FATBINS "")
set(GG_TOOLKIT "none")
if(GG_NVCC)
  execute_process(COMMAND "${GG_NVCC}" --version OUTPUT_VARIABLE GG_NVCC_VERSION
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" _ "${GG_NVCC_VERSION}")
  set(GG_TOOLKIT "${CMAKE_MATCH_1}")
  if(GG_TOOLKIT VERSION_LESS 12.9)
    message(FATAL_ERROR "nvcc must be 12.9 or newer; got ${GG_TOOLKIT} (${GG_NVCC}).")
  endif()
  message(STATUS "CUDA kernels: nvcc ${GG_TOOLKIT} (${GG_NVCC})")
  foreach(stem IN LISTS GG_KERNEL_SOURCES)
    set(source "${CMAKE_SOURCE_DIR}/csrc/kernels/${stem}.cu")
    set(fatbin "${CMAKE_BINARY_DIR}/${stem}.fatbin")
    add_custom_command(
      OUTPUT "${fatbin}"
      COMMAND "${Python_EXECUTABLE}" "${CMAKE_SOURCE_DIR}/cmake/compile_kernel.py"
              --nvcc "${GG_NVCC}" --shared "${GG_KERNEL_BUILD_DIR}" --source "${source}"
              --output "${fatbin}" --depfile "${fatbin}.d"
              -- -std=c++17 -O3 ${GG_GENCODE} -Werror all-warnings -I "${CMAKE_SOURCE_DIR}/csrc"
      DEPENDS "${source}" "${CMAKE_SOURCE_DIR}/cmake/compile_kernel.py" DEPFILE "${fatbin}.d"
      COMMENT "nvcc ${stem}.cu" VERBATIM)
    list(APPEND GG_FATBINS "${fatbin}")
    string(APPEND GG_BLOB_SYMBOLS "GG_BLOB(${stem}, \"${fatbin}\")\n")
    string(APPEND GG_BLOB_ENTRIES "    {\"${stem}\", gg_blob_${stem}, gg_blob_end_${stem}},\n")
  endforeach()
else()
  message(STATUS "CUDA kernels: not built (GG_CUDA=${GG_CUDA}, no nvcc used)")
endif()
configure_file("${CMAKE_SOURCE_DIR}/csrc/kernels/kernel_blobs.cc.in" "${GG_KERNEL_BLOBS}" @ONLY)
set_source_files_properties("${GG_KERNEL_BLOBS}" PROPERTIES OBJECT_DEPENDS "${GG_FATBINS}")
