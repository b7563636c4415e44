// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Host table of call-site names. Programs carry only the id, a hash that Python computes, so no
// name, path or pointer enters a compilation cache key.
#pragma once

#include <cstdint>
#include <string>

namespace graphsafe_gg {

void name_call_site(uint64_t site, const std::string& name);

// The name, or "#<hex id>" for a program that was compiled elsewhere and never traced here.
std::string call_site_name(uint64_t site);

}  // namespace graphsafe_gg
