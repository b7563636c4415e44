// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Marks functions that host and device share.
#pragma once

#ifdef __CUDACC__
#define GG_HOST_DEVICE __host__ __device__
#else
#define GG_HOST_DEVICE
#endif
