// Work that may fail on one rank only, ended the same way on all: no rank is left waiting for one
// that has gone.
#pragma once

#include <functional>
#include <string>

#include "engine/comm/transport.hpp"

namespace atl {

// Runs `work` on every rank, then lets all know how it went: if some rank threw an Error, every
// rank throws the one of the lowest such rank. Collective.
void on_all_ranks(Transport& transport, const std::function<void()>& work);

// Every rank gets rank 0's text, of whatever length. Collective.
void share_text(Transport& transport, std::string& text, const OperationLabel& label);

}  // namespace atl
