// Included before every source of a wheel. g++ 12 takes the newest of two versions of a function
// that do the same, and so asks for the libstdc++ of its own time; that of GCC 11, as RHEL 9 has
// it, knows only the first.
__asm__(
    ".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE, "
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
