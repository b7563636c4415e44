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
  wgmma_gemm_bf16
  wgmma_gemm_f16
  wgmma_transposed_bf16
  wgmma_transposed_f16
  publish)

# sm_80 code serves 8.x, sm_90a code 9.0, and the PTX everything newer.
set(GG_GENCODE
  -gencode=arch=compute_80,code=sm_80
  -gencode=arch=compute_90a,code=sm_90a
  -gencode=arch=compute_90,code=compute_90)
# Kernels for sm_90a alone; their PTX too runs nowhere else.
set(GG_GENCODE_WGMMA
  -gencode=arch=compute_90a,code=sm_90a
  -gencode=arch=compute_90a,code=compute_90a)

if(NOT GG_CUDA MATCHES "^(ON|OFF|AUTO)$")
  message(FATAL_ERROR "GG_CUDA must be ON, OFF or AUTO; got ${GG_CUDA}.")
endif()

# The first that runs and is new enough of: what the environment names, PATH, pip's packages beside
# the Python that builds, and the usual folder of a toolkit.
set(GG_NVCC "")
set(GG_TOOLKIT "none")
set(GG_NVCC_TOO_OLD "")
if(NOT GG_CUDA STREQUAL "OFF")
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c "import sysconfig; print(sysconfig.get_path('platlib'))"
    OUTPUT_VARIABLE GG_SITE_PACKAGES OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  find_program(GG_NVCC_ON_PATH nvcc NO_CACHE)
  foreach(candidate
          "$ENV{CUDACXX}" "$ENV{CUDA_HOME}/bin/nvcc" "$ENV{CUDA_PATH}/bin/nvcc"
          "${GG_NVCC_ON_PATH}" "${GG_SITE_PACKAGES}/nvidia/cu13/bin/nvcc"
          /usr/local/cuda/bin/nvcc)
    if(GG_NVCC OR NOT EXISTS "${candidate}")
      continue()
    endif()
    execute_process(COMMAND "${candidate}" --version OUTPUT_VARIABLE text ERROR_QUIET)
    if(NOT text MATCHES "release ([0-9]+\\.[0-9]+)")
      continue()
    elseif(CMAKE_MATCH_1 VERSION_LESS 12.9)
      string(APPEND GG_NVCC_TOO_OLD " ${candidate} is ${CMAKE_MATCH_1}.")
    else()
      set(GG_NVCC "${candidate}")
      set(GG_TOOLKIT "${CMAKE_MATCH_1}")
    endif()
  endforeach()
endif()
if(NOT GG_CUDA STREQUAL "OFF" AND DEFINED ENV{CUDACXX} AND NOT GG_NVCC STREQUAL "$ENV{CUDACXX}")
  message(WARNING "CUDACXX ($ENV{CUDACXX}) is not an nvcc of 12.9 or newer that runs.")
endif()
if(GG_CUDA STREQUAL "ON" AND NOT GG_NVCC)
  message(FATAL_ERROR "GG_CUDA=ON needs an nvcc of 12.9 or newer that runs.${GG_NVCC_TOO_OLD} Put one "
                      "on PATH, set CUDACXX, or install the packages of the extra `nvcc` beside the "
                      "Python that builds.")
endif()

set(GG_KERNEL_BLOBS "${CMAKE_BINARY_DIR}/kernel_blobs.cc")
set(GG_BLOB_SYMBOLS "")
set(GG_BLOB_ENTRIES "")
set(GG_FATBINS "")
if(GG_NVCC)
  message(STATUS "CUDA kernels: nvcc ${GG_TOOLKIT} (${GG_NVCC})")
  foreach(stem IN LISTS GG_KERNEL_SOURCES)
    set(source "${CMAKE_SOURCE_DIR}/csrc/kernels/${stem}.cu")
    set(fatbin "${CMAKE_BINARY_DIR}/${stem}.fatbin")
    set(gencode ${GG_GENCODE})
    if(stem MATCHES "^wgmma_")
      set(gencode ${GG_GENCODE_WGMMA})
    endif()
    add_custom_command(
      OUTPUT "${fatbin}"
      COMMAND "${Python_EXECUTABLE}" "${CMAKE_SOURCE_DIR}/cmake/compile_kernel.py"
              --nvcc "${GG_NVCC}" --shared "${GG_KERNEL_BUILD_DIR}" --source "${source}"
              --output "${fatbin}" --depfile "${fatbin}.d"
              -- -std=c++17 -O3 ${gencode} -Werror all-warnings -I "${CMAKE_SOURCE_DIR}/csrc"
      DEPENDS "${source}" "${CMAKE_SOURCE_DIR}/cmake/compile_kernel.py" DEPFILE "${fatbin}.d"
      COMMENT "nvcc ${stem}.cu" VERBATIM)
    list(APPEND GG_FATBINS "${fatbin}")
    string(APPEND GG_BLOB_SYMBOLS "GG_BLOB(${stem}, \"${fatbin}\")\n")
    string(APPEND GG_BLOB_ENTRIES "    {\"${stem}\", gg_blob_${stem}, gg_blob_end_${stem}},\n")
  endforeach()
else()
  message(STATUS "CUDA kernels: not built (GG_CUDA=${GG_CUDA}).${GG_NVCC_TOO_OLD}")
endif()
configure_file("${CMAKE_SOURCE_DIR}/csrc/kernels/kernel_blobs.cc.in" "${GG_KERNEL_BLOBS}" @ONLY)
set_source_files_properties("${GG_KERNEL_BLOBS}" PROPERTIES OBJECT_DEPENDS "${GG_FATBINS}")
