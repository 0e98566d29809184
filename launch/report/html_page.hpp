// The frame of every page that `atoll report` writes: self-contained, light and dark, fit for every
// window.
#pragma once

#include <string>

namespace atl {

// title: behind "Atoll: ". style: rules beside those that all pages have. body: HTML.
std::string html_page(const std::string& title, const std::string& style, const std::string& body);

}  // namespace atl
