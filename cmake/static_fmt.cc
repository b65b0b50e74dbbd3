// fmt as objects of our own, for builds that must run where no libfmt.so is installed (wheels).
// Debian ships fmt's sources in its headers, but no static library of them. The explicit
// instantiations are those that fmt's headers declare `extern`.
#include <fmt/format-inl.h>

#if FMT_VERSION < 90000
#error "a static fmt needs libfmt-dev 9 or later: configure without STRETTO_STATIC_DEPENDENCIES"
#endif

FMT_BEGIN_NAMESPACE
namespace detail {

template FMT_API auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;
template FMT_API locale_ref::locale_ref(const std::locale&);
template FMT_API auto locale_ref::get<std::locale>() const -> std::locale;
template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
template FMT_API void buffer<char>::append(const char*, const char*);

}  // namespace detail
FMT_END_NAMESPACE
